-- Add one entry to the ledger, and with it the results of the objects it is about: a kill loses both or none.
--   KEYS 1 ledger:<app> (list)  2 ledger:<app>:head (hash)  3 results:<run> (hash)
--   ARGV 1 mac of the entry it follows  2 its number  3 its mac  4 its line  5 its writes  6 writes kept  7 ms kept
--        8 TTL of the results, ms  9 number of fences that follow: what those left behind is told now  10… fences
--        … object, result pairs
--   reply {"ok"} | {"moved", number, mac}: another entry is the newest one, nothing was written
-- Safe to repeat: the entry that is the newest one already gets "ok" again.
local held = redis.call('HMGET', KEYS[2], 'number', 'mac')
local newest = held[2] or ''
if newest ~= ARGV[3] then
  if newest ~= ARGV[1] then
    return {'moved', held[1] or '0', newest}
  end
  redis.call('RPUSH', KEYS[1], ARGV[4])
  redis.call('HSET', KEYS[2], 'number', ARGV[2], 'mac', ARGV[3])
  redis.call('HINCRBY', KEYS[2], 'writes', ARGV[5])
end
local t = redis.call('TIME')
local oldest = t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[7]
while redis.call('LLEN', KEYS[1]) > 1 do
  local number, at, writes, mac = string.match(redis.call('LINDEX', KEYS[1], 0), '^(%d+) (%d+) (%d+) (%x+) ')
  if not number or (tonumber(at) >= oldest and tonumber(redis.call('HGET', KEYS[2], 'writes')) <= tonumber(ARGV[6])) then
    break
  end
  redis.call('LPOP', KEYS[1])
  redis.call('HSET', KEYS[2], 'trimmed', number, 'trimmed_mac', mac)
  redis.call('HINCRBY', KEYS[2], 'writes', -writes)
end
local fences = tonumber(ARGV[9])
for i = 10, 9 + fences do
  redis.call('HDEL', KEYS[2], 'open:' .. ARGV[i])
end
for i = 10 + fences, #ARGV, 2 do
  redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
end
if #ARGV > 9 + fences then
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
redis.call('PEXPIRE', KEYS[2], ARGV[7])
return {'ok'}
