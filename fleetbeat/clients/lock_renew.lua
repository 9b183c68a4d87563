-- Keep the lock of an execution.
--   KEYS 1 lock:<app> (string)   ARGV 1 token  2 TTL, ms   reply 1 | 0 (it is somebody else's, or gone)
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
