-- The orders that a cluster remembers come back after Redis has lost its data, and from then on the cluster is known.
--   KEYS 1 fleet-orders (hash)  2 vetoes (hash)  3 holds (hash)  4 lifted (zset)
--   ARGV 1 the cluster's field  2 a new mark  3 "1" if there is a note  4 most holds there may be  5 number of vetoes
--        6… digest, at (ms), JSON of each veto, then id, since (ms), JSON of each hold
--   reply what came back: digests and ids
-- Safe to repeat, and in one step: a flush leaves nothing of it, so that the note is read again. What was lifted since it
-- was ordered does not come back, and nothing does once the cluster is known.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return {}
end
local restored = {}
local vetoes = tonumber(ARGV[5])
for i = 6, #ARGV, 3 do
  local key = KEYS[3]
  if (i - 6) / 3 < vetoes then
    key = KEYS[2]
  end
  local lifted = redis.call('ZSCORE', KEYS[4], ARGV[i])
  local room = key == KEYS[2] or redis.call('HLEN', key) < tonumber(ARGV[4])
  if room and not (lifted and tonumber(lifted) >= tonumber(ARGV[i + 1])) then
    if redis.call('HSETNX', key, ARGV[i], ARGV[i + 2]) == 1 then
      restored[#restored + 1] = ARGV[i]
    end
  end
end
local mark = redis.call('HGET', KEYS[1], 'mark')
if #restored > 0 or (not mark and redis.call('HLEN', KEYS[2]) + redis.call('HLEN', KEYS[3]) > 0) then
  mark = ARGV[2]
  redis.call('HSET', KEYS[1], 'mark', mark)
end
-- '' = as noted when there are no orders and no note; '?' is no mark: the note is to be compared
redis.call('HSET', KEYS[1], ARGV[1], (mark or ARGV[3] == '1') and '?' or '')
return restored
