-- Raises the limit of a budget in a window, once for each id.
--
-- KEYS: the key of the counter. ARGV: id, amount, start, end, and until when the key is kept, as in sync.lua.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local from, to, kept = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if to ~= 0 and (now < from or now >= to) or redis.call('HSETNX', KEYS[1], '+' .. ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'credit', string.format('%.0f', tonumber(redis.call('HGET', KEYS[1], 'credit') or 0) + tonumber(ARGV[2])))
if kept > 0 then redis.call('PEXPIREAT', KEYS[1], ARGV[5]) end
return 1
