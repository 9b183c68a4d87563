-- Put a catalog in force, all of it in one step.
--   KEYS 1 catalog (hash entry → sealed document)  2 catalog:status (hash)
--   ARGV 1 keyed digest of the whole  2 how many entries it has  3 how many pairs follow
--        4… entry, sealed document pairs that are new or changed, then the entries that are gone
--   reply now, ms since epoch. Safe to repeat.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local gone = 4 + 2 * ARGV[3]
for i = 4, gone - 1, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
for i = gone, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
redis.call('HSET', KEYS[2], 'digest', ARGV[1], 'entries', ARGV[2], 'published', now, 'at', now, 'error', '')
return now
