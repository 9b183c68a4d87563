-- A sync that was asked for is refused before any run: it goes, and its end is told as that of a run would be.
--   KEYS 1 request:<app> (hash)  2 state:<app> (hash)  3 history:<app> (list)  4 events (stream)
--   ARGV 1 app  2 request id  3 history entry (JSON)  4 entries kept  5 event (JSON)  6 events kept
--   reply 1 | 0 (another request, or none: nothing was written)
-- Safe to repeat: the request is gone after the first time. Of the state only `handled` changes.
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[2] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'handled', ARGV[2])
redis.call('LPUSH', KEYS[3], ARGV[3])
redis.call('LTRIM', KEYS[3], 0, ARGV[4] - 1)
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[6], '*', 'app', ARGV[1], 'event', ARGV[5])
return 1
