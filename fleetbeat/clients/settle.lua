-- The messages of claimed ticks are out: from their lease on to their next slot.
--   KEYS 1 due (zset app → ms)  2 periods (hash app → "period:offset", ms)
--   ARGV 1 lease end as claim.lua gave it  2 prefix of the run keys  3 prefix of the request keys  4… apps
--   reply how many were moved
-- Only a score that is still exactly the lease is moved, and never that of a run or request that began meanwhile: what
-- a worker or ringer wrote since stays. Safe to repeat: a moved score is no lease any more.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = tonumber(ARGV[1])
local moved = 0
for i = 4, #ARGV do
  local app = ARGV[i]
  if tonumber(redis.call('ZSCORE', KEYS[1], app)) == lease
    and redis.call('EXISTS', ARGV[2] .. app, ARGV[3] .. app) == 0 then
    local period, offset = string.match(redis.call('HGET', KEYS[2], app) or '', '^(%d+):(%d+)$')
    if period then
      redis.call('ZADD', KEYS[1], now - (now - offset) % period + period, app)
      moved = moved + 1
    end
  end
end
return moved
