-- End a run: history, what is known of the application, next look; the record and the lock go.
--   KEYS 1 run:<app> (hash)  2 lock:<app> (string)  3 due (zset)  4 bell (list)  5 state:<app> (hash)
--        6 history:<app> (list)  7 request:<app> (hash)  8 periods (hash)  9 waiters:<app> (set)  10 events (stream)
--        11 drift:<app> (string)
--   ARGV 1 app  2 run id  3 fence  4 token ("" = nobody works on it, e.g. superseded while waiting)
--        5 ms until the next look, "slot" = the application's next regular one, "slot:<ms since epoch>" = by then at the
--          latest  6 history entry (JSON)  7 entries kept  8 id of the run whose entry it replaces where that is the
--          newest (an order may have been refused since it was read), "" = none
--        9 event (JSON)  10 events kept  11 drift ledger (JSON), "" = as it was  12 ms it is kept, 0 = without an end
--        13… field, value pairs for the state
--   reply "ok" | "again" (a request came in meanwhile: due at once) | "lost"
-- Safe to repeat: a run already finished gets "ok".
if redis.call('HGET', KEYS[5], 'last_run') == ARGV[2] then
  return 'ok'
end
local record = redis.call('HMGET', KEYS[1], 'run', 'fence')
local holder = redis.call('GET', KEYS[2])
if record[1] ~= ARGV[2] or record[2] ~= ARGV[3] or (ARGV[4] == '' and holder) or (ARGV[4] ~= '' and holder ~= ARGV[4]) then
  return 'lost'
end
local known, newest = false, nil
if ARGV[8] ~= '' then
  known, newest = pcall(cjson.decode, redis.call('LINDEX', KEYS[6], 0) or '')
end
if known and type(newest) == 'table' and newest['run'] == ARGV[8] then
  redis.call('LSET', KEYS[6], 0, ARGV[6])
else
  redis.call('LPUSH', KEYS[6], ARGV[6])
  redis.call('LTRIM', KEYS[6], 0, ARGV[7] - 1)
end
redis.call('HSET', KEYS[5], 'last_run', ARGV[2])
local removed = redis.call('HGET', KEYS[1], 'trigger') == 'Removed'
if ARGV[11] ~= '' then
  redis.call('SET', KEYS[11], ARGV[11])
  if ARGV[12] ~= '0' then
    redis.call('PEXPIRE', KEYS[11], ARGV[12])
  end
end
if removed then
  redis.call('PEXPIRE', KEYS[11], 7 * 86400000)
end
for _, key in ipairs({KEYS[5], KEYS[6]}) do
  if removed then
    redis.call('PEXPIRE', key, 7 * 86400000)
  else
    redis.call('PERSIST', key) -- an application that left the catalog and came back
  end
end
if #ARGV >= 13 then
  redis.call('HSET', KEYS[5], unpack(ARGV, 13))
end
redis.call('XADD', KEYS[10], 'MAXLEN', '~', ARGV[10], '*', 'app', ARGV[1], 'event', ARGV[9])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local again = redis.call('EXISTS', KEYS[7]) == 1
-- A watch saw something move meanwhile. After a failure that does not cut the pause short: it may be what fails us.
local to_slot, by = string.match(ARGV[5], '^(slot):?(%d*)$')
again = again or (to_slot and redis.call('HEXISTS', KEYS[1], 'noticed') == 1)
-- What was seen of the cluster before this moment knows less than the run did (clients/observe.py).
redis.call('HSET', KEYS[5], 'ended', now)
redis.call('DEL', KEYS[1], KEYS[2])
local rhythm, at = redis.call('HGET', KEYS[8], ARGV[1]), now
if not again and not to_slot then
  at = now + ARGV[5]
elseif not again then
  local period, offset = string.match(rhythm or '180000:0', '^(%d+):(%d+)$')
  at = now - (now - offset) % period + period
  if by ~= '' then
    at = math.max(now, math.min(at, tonumber(by)))
  end
end
if rhythm then
  redis.call('ZADD', KEYS[3], at, ARGV[1])
else
  redis.call('ZREM', KEYS[3], ARGV[1]) -- left the catalog while the run was under way, which alone kept it there
end
-- Those that wait for this application look again.
local waiters = redis.call('SMEMBERS', KEYS[9])
for _, waiter in ipairs(waiters) do
  if redis.call('ZSCORE', KEYS[3], waiter) then
    redis.call('ZADD', KEYS[3], now, waiter)
  end
end
redis.call('DEL', KEYS[9])
if #waiters > 0 or at - now < 1000 then
  redis.call('LPUSH', KEYS[4], ARGV[1])
  redis.call('LTRIM', KEYS[4], 0, 0)
  redis.call('PEXPIRE', KEYS[4], 60000)
end
return again and 'again' or 'ok'
