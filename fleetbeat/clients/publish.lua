-- Put a catalog in force, all of it in one step.
--   KEYS 1 catalog (hash entry → sealed document)  2 catalog:status (hash)  3 departing (hash, see keys.py)
--   ARGV 1 keyed digest of the whole  2 how many entries it has  3 how many changed  4 how many depart
--        5 why applications that are gone are not deleted without a person's word, "" = they may be
--        6… entry, sealed document pairs that are new or changed
--        …  application, its sealed document as it was read, what is kept of it: triples of those whose objects are to go
--        …  the entries that are gone
--   reply now, ms since epoch. Safe to repeat.
-- An application departs only from exactly the document the caller has seen: of several beats one sees it go.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local i = 6
for _ = 1, tonumber(ARGV[3]) do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  i = i + 2
end
for _ = 1, tonumber(ARGV[4]) do
  local app = ARGV[i]
  if redis.call('HGET', KEYS[1], 'Application/' .. app) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[3], app .. '/held', app .. '/go', app .. '/confirmed', app .. '/skip-hooks',
      app .. '/PreDelete', app .. '/PostDelete')
    redis.call('HSET', KEYS[3], app, ARGV[i + 2], app .. '/since', now)
  end
  i = i + 3
end
for j = i, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[j])
end
for _, app in ipairs(redis.call('HKEYS', KEYS[3])) do
  if string.find(app, '/', 1, true) then
    -- a word about an application, not one
  elseif redis.call('HEXISTS', KEYS[1], 'Application/' .. app) == 1 then -- it is back
    redis.call('HDEL', KEYS[3], app, app .. '/since', app .. '/held', app .. '/go', app .. '/confirmed',
      app .. '/skip-hooks', app .. '/PreDelete', app .. '/PostDelete')
  elseif ARGV[5] ~= '' and redis.call('HEXISTS', KEYS[3], app .. '/go') == 0 then
    redis.call('HSET', KEYS[3], app .. '/held', ARGV[5])
  end
end
redis.call('HSET', KEYS[2], 'digest', ARGV[1], 'entries', ARGV[2], 'published', now, 'at', now, 'error', '')
return now
