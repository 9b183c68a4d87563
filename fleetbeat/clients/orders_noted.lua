-- A cluster's note says what the orders with this mark are.
--   KEYS 1 fleet-orders (hash)  2 noting:<cluster> (string)   ARGV 1 the cluster's field  2 mark, "" = none  3 token
--   reply 1, and the right to note is given back; 0 = the orders are others by now: note again
-- Safe to repeat. After a flush the mark is another one, or none, and the cluster stays unknown.
if (redis.call('HGET', KEYS[1], 'mark') or '') ~= ARGV[2] or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('GET', KEYS[2]) == ARGV[3] then
  redis.call('DEL', KEYS[2])
end
return 1
