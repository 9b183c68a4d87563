-- An execution has done its step: write what it found out, name the next step, give the lock back.
--   KEYS 1 run:<app> (hash)  2 lock:<app> (string)  3 due (zset)  4 bell (list)  5 events (stream)
--   ARGV 1 app  2 run id  3 fence  4 token  5 next step  6 "queued" | "waiting"  7 ms until the lease or wake-up, or "at:" and
--        ms since epoch of a wake-up
--        8 "1" when beat must be woken for it  9 event (JSON, "" = none)  10 events kept  11… field, value pairs
--   reply "ok" | "lost" (another execution has taken over: nothing was written)
-- Safe to repeat: the token of the last advance gets "ok" again.
local record = redis.call('HMGET', KEYS[1], 'run', 'fence', 'last')
if record[1] == ARGV[2] and record[3] == ARGV[4] then
  return 'ok'
end
if record[1] ~= ARGV[2] or record[2] ~= ARGV[3] or redis.call('GET', KEYS[2]) ~= ARGV[4] then
  return 'lost'
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at = string.match(ARGV[7], '^at:(%d+)$')
local pause = at and math.max(at - now, 0) or tonumber(ARGV[7])
redis.call('HSET', KEYS[1], 'step', ARGV[5], 'state', ARGV[6], 'last', ARGV[4], 'queued', now, 'wake', now + pause,
  'tries', 0, 'rung', 0)
if #ARGV >= 11 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 11))
end
if ARGV[9] ~= '' then
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[10], '*', 'app', ARGV[1], 'event', ARGV[9])
end
redis.call('DEL', KEYS[2])
if ARGV[6] == 'waiting' then
  -- A long wait is looked at on the way; one that somebody rang for before it began, now: claimed (run_resume.lua) or
  -- not, that was for the step that has just ended.
  local on_the_way = redis.call('HMGET', KEYS[1], 'look', 'warn')
  pause = math.min(pause, tonumber(on_the_way[1] or '') or pause)
  local warn = tonumber(on_the_way[2] or '') or 0
  if warn > now then
    pause = math.min(pause, warn - now)
  end
  if redis.call('HDEL', KEYS[1], 'rang') == 1 or tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or now + 1) <= now then
    pause = 0
  end
end
redis.call('ZADD', KEYS[3], now + pause, ARGV[1])
if ARGV[8] == '1' then
  redis.call('LPUSH', KEYS[4], ARGV[1])
  redis.call('LTRIM', KEYS[4], 0, 0)
  redis.call('PEXPIRE', KEYS[4], 60000)
end
return 'ok'
