-- Begin a run, if the application has none.
--   KEYS 1 run:<app> (hash)  2 due (zset)  3 fence (integer)  4 request:<app> (hash)  5 events (stream)
--        6 state:<app> (hash)  7 bell (list)
--   ARGV 1 app  2 run id  3 lease, ms  4 TTL of the record, ms  5 request id taken up ("" = none)
--        6 event (JSON)  7 events kept  8 the last run that had ended for who decided on this one, "*" = whichever
--        9… field, value pairs
--   reply {"started", fence} | {"active", run id of the other run}: it is looked at once when it waits
--         | {"over", run id of the other run}: it has come and gone since. What was decided before it may be done by now,
--           or not: the application is due at once.
-- Safe to repeat: the same run id gets the same answer.
local there = redis.call('HGET', KEYS[1], 'run')
if there == ARGV[2] then
  return {'started', redis.call('HGET', KEYS[1], 'fence')}
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function due_now()
  if redis.call('ZADD', KEYS[2], 'XX', 'CH', now, ARGV[1]) == 1 then
    redis.call('LPUSH', KEYS[7], ARGV[1])
    redis.call('LTRIM', KEYS[7], 0, 0)
    redis.call('PEXPIRE', KEYS[7], 60000)
  end
end
if there then
  -- What somebody rang for, a request perhaps, was not there yet when that run began: as in run_resume.lua.
  if redis.call('HGET', KEYS[1], 'state') == 'waiting' then
    due_now()
  else
    redis.call('HSET', KEYS[1], 'rang', '1')
  end
  return {'active', there}
end
local ended = redis.call('HGET', KEYS[6], 'last_run') or ''
local over = ARGV[8] ~= '*' and ended ~= ARGV[8]
if over then
  due_now()
  return {'over', ended}
end
local fence = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[1], 'run', ARGV[2], 'fence', fence, 'state', 'queued', 'queued', now, 'created', now, 'tries', 0)
if #ARGV >= 9 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 9))
end
redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[7], '*', 'app', ARGV[1], 'event', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
if ARGV[5] ~= '' and redis.call('HGET', KEYS[4], 'id') == ARGV[5] then
  redis.call('DEL', KEYS[4])
end
return {'started', fence}
