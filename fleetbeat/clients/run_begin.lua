-- One execution of one step asks for its turn and the application's lock.
--   KEYS 1 run:<app> (hash)  2 lock:<app> (string)  3 fence (integer)  4 due (zset)
--   ARGV 1 app  2 run id  3 step  4 fence of the message  5 token of this execution  6 lock TTL, ms
--   reply {"go", fence, now in ms, field, value, …} | {"busy"} | {"stale"} (not this run, not this step, or an old message)
-- Safe to repeat: a token that holds the lock gets its fence again.
local record = redis.call('HMGET', KEYS[1], 'run', 'step', 'fence')
if record[1] ~= ARGV[2] or record[2] ~= ARGV[3] then
  return {'stale'}
end
local holder = redis.call('GET', KEYS[2])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local fence = record[3]
if holder ~= ARGV[5] then
  if record[3] ~= ARGV[4] then
    return {'stale'}
  elseif holder then
    return {'busy'}
  end
  fence = redis.call('INCR', KEYS[3])
  redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[6])
  redis.call('HSET', KEYS[1], 'fence', fence, 'state', 'working')
  redis.call('HINCRBY', KEYS[1], 'tries', 1)
  -- While a step works its lock says that it lives; the lease looks again just after the lock could have expired.
  redis.call('ZADD', KEYS[4], now + ARGV[6] + 250, ARGV[1])
end
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, now)
table.insert(reply, 1, fence)
table.insert(reply, 1, 'go')
return reply
