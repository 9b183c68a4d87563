-- Give a lock back, if it is still ours.
--   KEYS 1 lock (string)   ARGV 1 token   reply 1 | 0 (it has expired, or is somebody else's)
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
