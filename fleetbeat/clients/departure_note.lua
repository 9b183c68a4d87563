-- Something has become known of an application that departs.
--   KEYS 1 departing (hash, see keys.py)  ARGV 1 app  2… words: "go" (which ends what holds it), "confirmed", "skip-hooks" of
--        a person; "PreDelete", "PostDelete" of a phase whose hooks have gone through
--   reply 1 | 0 (it does not depart: nothing was written). Safe to repeat.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
for i = 2, #ARGV do
  redis.call('HSET', KEYS[1], ARGV[1] .. '/' .. ARGV[i], '1')
  if ARGV[i] == 'go' then
    redis.call('HDEL', KEYS[1], ARGV[1] .. '/held')
  end
end
return 1
