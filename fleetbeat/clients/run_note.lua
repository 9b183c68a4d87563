-- Add to the record of a run that is still there. Never makes one: a hash without its run would block the application.
--   KEYS 1 run:<app> (hash)   ARGV 1 run id  2… field, value pairs   reply 1 | 0 (another run, or none)
-- Safe to repeat.
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then
  return 0
end
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1
