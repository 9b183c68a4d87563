-- Make the due set fit the catalog: who is in it and how often.
--   KEYS 1 periods (hash app → "period:offset", ms)  2 due (zset app → ms)  3 catalog:status (hash)  4 bell (list)
--   ARGV 1 digest of all that follows the third  2 new applications per second  3 prefix of the run keys
--        4… app, "period:offset" pairs, new ones due in this order
--   reply {added, removed}
-- Safe to repeat, and by several beats: whoever comes second finds nothing to do.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local known = redis.call('HGETALL', KEYS[1])
local before = {}
for i = 1, #known, 2 do
  before[known[i]] = known[i + 1]
end
local added, removed = 0, 0
for i = 4, #ARGV, 2 do
  local app, rhythm = ARGV[i], ARGV[i + 1]
  local due = tonumber(redis.call('ZSCORE', KEYS[2], app))
  if not due then
    redis.call('ZADD', KEYS[2], now + math.floor(added * 1000 / ARGV[2]), app)
    added = added + 1
  elseif before[app] ~= rhythm then
    local period, offset = string.match(rhythm, '^(%d+):(%d+)$')
    redis.call('ZADD', KEYS[2], math.min(due, now - (now - offset) % period + period), app)
  end
  if before[app] ~= rhythm then
    redis.call('HSET', KEYS[1], app, rhythm)
  end
  before[app] = nil
end
for app in pairs(before) do
  redis.call('HDEL', KEYS[1], app)
  if redis.call('EXISTS', ARGV[3] .. app) == 0 then -- a run under way is rung until a worker has ended it
    redis.call('ZREM', KEYS[2], app)
  end
  removed = removed + 1
end
redis.call('HSET', KEYS[3], 'periods', ARGV[1])
if added > 0 then
  redis.call('LPUSH', KEYS[4], 'register')
  redis.call('LTRIM', KEYS[4], 0, 0)
  redis.call('PEXPIRE', KEYS[4], 60000)
end
return {added, removed}
