-- Something of an application moved in its cluster: claim it as beat would, so that the caller may publish.
--   KEYS 1 run:<app> (hash)  2 due (zset)  3 periods (hash)  4 state:<app> (hash)
--   ARGV 1 app  2 lease, ms
--   reply {"unknown"} (not in the catalog) | {"running"} (its run looks again when it has ended well)
--         | {"paused"} (its last run failed, and its pause stands: due at the end of that at the latest)
--         | {"ring", now, lease end}
-- No look at the cluster from before now will do for the next tick (state: noticed, ms). Safe to repeat.
local period, offset = string.match(redis.call('HGET', KEYS[3], ARGV[1]) or '', '^(%d+):(%d+)$')
if not period then
  return {'unknown'}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[4], 'noticed', now)
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'noticed', now)
  return {'running'}
end
-- What fails it may be the very thing that moves all the time.
local pause = tonumber(redis.call('HGET', KEYS[4], 'pause') or '')
if pause and pause > now then
  local due = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '')
  if not due or due > pause then
    redis.call('ZADD', KEYS[2], pause, ARGV[1])
  end
  return {'paused'}
end
local lease = now + ARGV[2]
redis.call('ZADD', KEYS[2], math.min(lease, now - (now - offset) % period + period), ARGV[1])
return {'ring', now, lease}
