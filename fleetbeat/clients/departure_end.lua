-- Nothing is left of an application that departed, or nothing is to be done about it any more: forget it.
--   KEYS 1 departing (hash, see keys.py)  ARGV 1 app  2 since when it departs, as it was read
--   reply 1 | 0 (it does not depart, or departed anew meanwhile: it is left). Safe to repeat.
if redis.call('HGET', KEYS[1], ARGV[1] .. '/since') ~= ARGV[2] then
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[1], ARGV[1] .. '/since', ARGV[1] .. '/held', ARGV[1] .. '/go', ARGV[1] .. '/confirmed',
  ARGV[1] .. '/skip-hooks', ARGV[1] .. '/PreDelete', ARGV[1] .. '/PostDelete')
return 1
