-- Beat has rung an application whose run is under way: shall its step be published (again)?
--   KEYS 1 run:<app> (hash)  2 lock:<app> (string)  3 due (zset)
--   ARGV 1 app  2 lock TTL, ms  3 lease, ms  4 "1": a waiting step goes on now  5 TTL of the record, ms
--   reply {"publish", run, step, fence} | {"leave", why}
-- A step is published when its wake-up has come, when its worker died (working, no lock), or when its message must be
-- lost (queued for longer than the lease, which doubles each time: a long queue is not filled with copies).
-- A step that is on its way is left alone, but should it end in a wait, that is looked at at once (rang): whatever made
-- somebody ring, a word of a person or the end of what is waited for, may have come too late for the step to see.
local record = redis.call('HMGET', KEYS[1], 'run', 'step', 'fence', 'state', 'queued', 'wake', 'rung', 'look', 'warn')
if not record[1] then
  return {'leave', 'no run'}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function due(at)
  redis.call('ZADD', KEYS[3], at, ARGV[1])
end
local ttl = redis.call('PTTL', KEYS[2])
if ttl > tonumber(ARGV[2]) then -- the clock went back (field case j4): a dead worker's lock would outlast that time
  ttl = tonumber(ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ttl)
end
if ttl > 0 then
  redis.call('HSET', KEYS[1], 'rang', '1')
  due(now + ttl + 250)
  return {'leave', 'working'}
end
local rung = tonumber(record[7] or '0')
local lease = ARGV[3] * 2 ^ math.min(rung, 6)
-- Queued in the future: the clock went back, and what was noted by the old one says nothing any more.
local back = now < tonumber(record[5] or '0')
if record[4] == 'waiting' and not back and ARGV[4] ~= '1' and now < tonumber(record[6]) then
  local warn = tonumber(record[9] or '') or 0
  due(math.min(record[6], now + (tonumber(record[8] or '') or math.huge), warn > now and warn or math.huge))
  redis.call('PEXPIRE', KEYS[1], ARGV[5]) -- a window may be shut for longer than a record is kept
  return {'leave', 'waiting'}
elseif record[4] == 'queued' and not back and now < tonumber(record[5]) + lease * 0.9 then
  redis.call('HSET', KEYS[1], 'rang', '1')
  due(tonumber(record[5]) + lease)
  return {'leave', 'queued'}
end
if record[4] == 'queued' then
  rung = rung + 1
end
redis.call('HSET', KEYS[1], 'state', 'queued', 'queued', now, 'rung', rung)
due(now + ARGV[3] * 2 ^ math.min(rung, 6))
return {'publish', record[1], record[2], record[3]}
