-- Tell of something that is due, unless it has been told.
--   KEYS 1 run:<app> or state:<app> (hash)  2 events (stream)
--   ARGV 1 app  2 field that says it is due  3 its value  4 event (JSON)  5 events kept
--   reply 1 when it is told now, 0 when it has been, or is due no more
-- Safe to repeat: the field goes with the telling.
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[2], '')
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'app', ARGV[1], 'event', ARGV[4])
return 1
