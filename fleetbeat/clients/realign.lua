-- The server's clock went back: what was near is far away now. Nobody waits longer than the next slot, or the lease
-- when a run or request waits.
--   KEYS 1 due (zset app → ms)  2 periods (hash app → "period:offset", ms)
--   ARGV 1 lease, ms  2 prefix of the run keys  3 prefix of the request keys
--   reply how many were moved. Safe to repeat.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local moved = 0
local rhythms = redis.call('HGETALL', KEYS[2])
for i = 1, #rhythms, 2 do
  local app = rhythms[i]
  local period, offset = string.match(rhythms[i + 1], '^(%d+):(%d+)$')
  local latest = now - (now - offset) % period + period
  if redis.call('EXISTS', ARGV[2] .. app, ARGV[3] .. app) > 0 then
    latest = now + ARGV[1]
  end
  local due = tonumber(redis.call('ZSCORE', KEYS[1], app))
  if due and due > latest then
    redis.call('ZADD', KEYS[1], latest, app)
    moved = moved + 1
  end
end
return moved
