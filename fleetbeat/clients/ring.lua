-- Make one application due, now or at a given time, and wake a beat if it sleeps past that.
--   KEYS 1 due (zset app → ms)  2 periods (hash app → "period:offset", ms)  3 bell (list)
--   ARGV 1 app  2 ms since epoch, "" = now  3 "1" = never later than it is due already  4 beat's longest sleep, ms
--   reply 1 | 0 (the catalog has no such application: nothing was written)
-- Safe to repeat.
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  return 0
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at = tonumber(ARGV[2]) or now
local due = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1])) or math.huge
if ARGV[3] == '1' and due <= at then
  return 1
end
redis.call('ZADD', KEYS[1], at, ARGV[1])
if at <= now + ARGV[4] then
  redis.call('LPUSH', KEYS[3], ARGV[1])
  redis.call('LTRIM', KEYS[3], 0, 0)
  redis.call('PEXPIRE', KEYS[3], 60000)
end
return 1
