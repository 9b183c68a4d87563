-- Somebody asks for a sync now: note it, and claim the application as beat would, so that the caller may publish.
--   KEYS 1 request:<app> (hash)  2 run:<app> (hash)  3 due (zset)  4 periods (hash)
--   ARGV 1 app  2 request id  3 by  4 reason  5 lease, ms  6 TTL of the request, ms  7… more fields, in pairs
--   reply {"unknown"} (not in the catalog) | {"accepted", run id of a run under way or ""}
-- A request replaces an earlier one that has not begun: ten requests are one sync. Safe to repeat.
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 0 then
  return {'unknown'}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('DEL', KEYS[1]) -- what the earlier one had confirmed is not in this one
redis.call('HSET', KEYS[1], 'id', ARGV[2], 'by', ARGV[3], 'reason', ARGV[4], 'at', now, unpack(ARGV, 7))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
local run = redis.call('HGET', KEYS[2], 'run')
if run then
  return {'accepted', run}
end
redis.call('ZADD', KEYS[3], now + ARGV[5], ARGV[1])
return {'accepted', ''}
