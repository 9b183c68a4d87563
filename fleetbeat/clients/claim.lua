-- Take what is due, so that the caller may publish it. Any number of beats may call this at once.
--   KEYS 1 due (zset app → ms)  2 periods (hash app → "period:offset", ms)  3 tick queue (list)  4 work queue (list)
--   ARGV 1 most to look at  2 lease, ms  3 prefix of the run keys  4 prefix of the request keys
--   reply {now, next due or -1, looked at, lease end, {app, …} plain ticks, {app, …} with a run or request waiting}
-- Nothing is lost with the reply: every member looked at is due again when its lease ends, or at its next slot if that
-- comes first. settle.lua moves it on to the slot once its message is out.
-- A member gets no message while its queue holds one for everybody: with no worker the queues stay finite. It is looked
-- at again like the others.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = now + ARGV[2]
local apps = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local ticks, urgent = {}, {}
if #apps > 0 then
  local periods = redis.call('HMGET', KEYS[2], unpack(apps))
  local members = redis.call('ZCARD', KEYS[1])
  local tick_room = members - redis.call('LLEN', KEYS[3])
  local work_room = math.max(members, ARGV[1]) - redis.call('LLEN', KEYS[4])
  for i, app in ipairs(apps) do
    local period, offset = string.match(periods[i] or '', '^(%d+):(%d+)$')
    local running = redis.call('EXISTS', ARGV[3] .. app) == 1
    if not period and not running then
      redis.call('ZREM', KEYS[1], app) -- left the catalog
    elseif running or redis.call('EXISTS', ARGV[4] .. app) == 1 then
      redis.call('ZADD', KEYS[1], lease, app)
      if #urgent < work_room then
        urgent[#urgent + 1] = app
      end
    else
      redis.call('ZADD', KEYS[1], math.min(lease, now - (now - offset) % period + period), app)
      if #ticks < tick_room then
        ticks[#ticks + 1] = app
      end
    end
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
return {now, first[2] and math.floor(first[2]) or -1, #apps, lease, ticks, urgent}
