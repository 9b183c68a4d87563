-- An application is to be looked at by a certain moment, however late its regular slot is.
--   KEYS 1 due (zset app → ms)  2 periods (hash app → "period:offset", ms)
--   ARGV 1 app  2 ms since epoch
--   reply 1 when it is due then, 0 when it is due before anyway, or left. Safe to repeat.
-- A score that has come already is somebody's ring and stays. A look that ends with its slot before that moment asks
-- again then.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]))
local at = tonumber(ARGV[2])
local period, offset = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%d+):(%d+)$')
if not score or not period or score <= now or now - (now - offset) % period + period <= at then
  return 0
end
redis.call('ZADD', KEYS[1], at, ARGV[1])
return 1
