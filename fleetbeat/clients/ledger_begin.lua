-- An execution is about to write: keep what it may write, for the case that it never tells, and say where the chain is.
--   KEYS 1 ledger:<app>:head (hash)   ARGV 1 fence  2 what it may write (JSON)  3 TTL, ms
--   reply {now in ms, number, mac, fence, JSON, …}: the newest entry (0 and "" when there is none), and what executions
--         before this one have left behind
-- Safe to repeat.
local t = redis.call('TIME')
local reply = {t[1] * 1000 + math.floor(t[2] / 1000), '0', ''}
local mine = 'open:' .. ARGV[1]
local held = redis.call('HGETALL', KEYS[1])
for i = 1, #held, 2 do
  if held[i] == 'number' then
    reply[2] = held[i + 1]
  elseif held[i] == 'mac' then
    reply[3] = held[i + 1]
  elseif string.sub(held[i], 1, 5) == 'open:' and held[i] ~= mine then
    reply[#reply + 1] = string.sub(held[i], 6)
    reply[#reply + 1] = held[i + 1]
  end
end
redis.call('HSET', KEYS[1], mine, ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return reply
