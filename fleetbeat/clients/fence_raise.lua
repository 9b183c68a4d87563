-- After a flush the counter starts low again, while clusters remember higher fences: never go below one seen there.
--   KEYS 1 fence (integer)   ARGV 1 fence seen in a cluster   reply the counter's value
if tonumber(redis.call('GET', KEYS[1]) or '0') < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1])
end
return tonumber(redis.call('GET', KEYS[1]))
