-- Begin a run, if the application has none.
--   KEYS 1 run:<app> (hash)  2 due (zset)  3 fence (integer)  4 request:<app> (hash)  5 events (stream)
--   ARGV 1 app  2 run id  3 lease, ms  4 TTL of the record, ms  5 request id taken up ("" = none)
--        6 event (JSON)  7 events kept  8… field, value pairs
--   reply {"started", fence} | {"active", run id of the other run}
-- Safe to repeat: the same run id gets the same answer.
local there = redis.call('HGET', KEYS[1], 'run')
if there == ARGV[2] then
  return {'started', redis.call('HGET', KEYS[1], 'fence')}
elseif there then
  return {'active', there}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local fence = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[1], 'run', ARGV[2], 'fence', fence, 'state', 'queued', 'queued', now, 'created', now, 'tries', 0)
if #ARGV >= 8 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 8))
end
redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[7], '*', 'app', ARGV[1], 'event', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
if ARGV[5] ~= '' and redis.call('HGET', KEYS[4], 'id') == ARGV[5] then
  redis.call('DEL', KEYS[4])
end
return {'started', fence}
