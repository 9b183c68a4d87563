-- A beat says that it lives, and forgets those that have been silent for long.
--   KEYS 1 beats (zset beat id → ms)   ARGV 1 beat id  2 ms after which a silent one is dropped
--   reply now, ms since epoch. Safe to repeat.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return now
