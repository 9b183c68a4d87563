-- A beat says that it lives, and forgets those that have been silent for long.
--   KEYS 1 beats (zset beat id → ms)   ARGV 1 beat id  2 ms after which a silent one is dropped
--   reply ms by which the server's clock went back since a beat last said so, 0 = it did not
-- Safe to repeat; only the news of the clock is told once.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local back = 0
for _, beat in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')) do
  back = math.max(back, redis.call('ZSCORE', KEYS[1], beat) - now)
  redis.call('ZADD', KEYS[1], now, beat)
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return back
