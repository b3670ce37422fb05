-- Applies the report of one scope. Without a scope, it only returns the time and whether data was lost. See the package comment for the rules.
--
-- KEYS: the key of the tag, then those of the scope and of its counters.
-- ARGV: lease, gateway, number, first, acknowledged, the generation that the gateway knows, the duration of a recovery, and until when the
-- scope's key is kept; then for each counter: kind, start, end, limit, granted, used, want, least, share, level and until when its key is
-- kept. Times are in milliseconds. Keys are kept until a Unix time or, if it is negative, for a duration from now; 0 means forever. All
-- integers are below 2^53, so they are exact.
local lease, me = tonumber(ARGV[1]), '#' .. ARGV[2]
local number, first, acknowledged = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known, recovery, kept = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function int(n) return string.format('%.0f', n) end

-- ints returns the integers in a text.
local function ints(text)
	local t = {}
	for n in string.gmatch(text, '%-?%d+') do t[#t + 1] = tonumber(n) end
	return t
end

-- Data that another process has written may be an outdated copy.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local tag = redis.call('HMGET', KEYS[1], 'run', 'generation', 'until')
local generation, recovering = tonumber(tag[2] or 0) + 0, tonumber(tag[3] or 0) + 0 -- fails if they are not numbers
local function lose()
	generation, recovering = math.max(now, generation + 1), now + recovery
	redis.call('HSET', KEYS[1], 'run', run, 'generation', int(generation), 'until', int(recovering))
end
if tag[1] ~= run then lose() end

local reply = {now, generation, 0, 0, 0}
local counters, behind = (#ARGV - 8) / 11, false
if #KEYS > 1 then
	at = KEYS[2]
	local last = ints(redis.call('HGET', KEYS[2], me) or '0')[1]
	if number <= last then return {now, generation, last, 1, 0} end
	behind = acknowledged > last
	local has = false -- what the gateway has proves that the store had a record of it; without anything, its key may just have expired
	for i = 0, counters - 1 do
		local c = 8 + i * 11
		local granted, used = tonumber(ARGV[c + 5]), tonumber(ARGV[c + 6])
		if ARGV[c + 1] == '0' then has = has or granted > 0 else has = has or granted > used or tonumber(ARGV[c + 10]) > 0 end
	end
	if behind and has and known == generation and now >= recovering then lose() end

	local left = redis.call('PTTL', KEYS[2])
	redis.call('HSET', KEYS[2], me, int(number) .. ' ' .. int(now))
	if kept < 0 then kept = now - kept end
	if kept == 0 then redis.call('PERSIST', KEYS[2]) elseif left ~= -1 and now + left < kept then redis.call('PEXPIREAT', KEYS[2], int(kept)) end
	if redis.call('HLEN', KEYS[2]) > 512 then
		local all, seen = redis.call('HGETALL', KEYS[2]), {}
		for i = 1, #all, 2 do seen[#seen + 1] = {ints(all[i + 1])[2], all[i]} end
		table.sort(seen, function(a, b) return a[1] < b[1] end)
		for i = 1, #seen - 256 do redis.call('HDEL', KEYS[2], seen[i][2]) end
	end
end
reply[2], reply[3] = generation, number
local lost = now < recovering and recovering - now <= recovery
if lost then reply[5] = 1 end

-- drain drains the level of a rate up to a time. Levels are in units of 1/60000, so that limit drains in a minute.
local function drain(c, limit, to)
	local passed = to - c.at
	if passed <= 0 then return end
	if passed > c.level / limit then c.level = 0 else c.level = c.level - passed * limit end
	c.at = to
end

-- expire ends the leases that have run out. For money, everything granted to the gateway counts as used; for a rate, unused grants are added
-- to the level at the end of the lease. The records of a limited number of such gateways are kept, so that a later report can correct
-- them. Concurrent requests are freed.
local function expire(key, kind, c, limit)
	local all, dead, ends = redis.call('HGETALL', key), {}, {}
	c.next = 0
	for i = 1, #all, 2 do
		if string.sub(all[i], 1, 1) == '#' then
			local r = ints(all[i + 1])
			if r[3] > now then
				if c.next == 0 or r[3] < c.next then c.next = r[3] end
			elseif kind == 3 then
				c.taken = c.taken - r[1]
				redis.call('HDEL', key, all[i])
			else
				if r[3] > 0 then
					if kind == 0 then c.used = c.used + (r[1] - r[2]) else
						ends[#ends + 1] = {r[3], r[1] - r[2]}
						r[2] = r[1]
					end
					r[3] = -r[3]
					for j = 1, #r do r[j] = int(r[j]) end
					redis.call('HSET', key, all[i], table.concat(r, ' '))
				end
				dead[#dead + 1] = {math.abs(r[3]), all[i]}
			end
		end
	end
	table.sort(ends, function(a, b) return a[1] < b[1] end)
	for _, e in ipairs(ends) do
		drain(c, limit, e[1])
		c.taken, c.level = c.taken - e[2], c.level + e[2] * 60000
	end
	if #dead > 256 then
		table.sort(dead, function(a, b) return a[1] < b[1] end)
		for i = 1, #dead - 128 do redis.call('HDEL', key, dead[i][2]) end
	end
end

for i = 0, counters - 1 do
	local a = {}
	for j = 1, 9 do a[j] = tonumber(ARGV[8 + i * 11 + j]) end
	local kind, from, to, limit, granted, used, want, least = a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]
	local share, level, kept = a[9], tonumber(ARGV[18 + i * 11]), tonumber(ARGV[19 + i * 11])
	local out = 6 + i * 5
	for j = 0, 4 do reply[out + j] = 0 end
	if kind > 0 or to == 0 or now >= from and now < to then
		local key = KEYS[3 + i]
		at = key
		local all = redis.call('HMGET', key, 'taken', 'used', 'credit', 'level', 'at', 'next', me)
		local c = {taken = tonumber(all[1] or 0), used = tonumber(all[2] or 0), credit = tonumber(all[3] or 0), level = tonumber(all[4] or 0), at = tonumber(all[5] or now), next = tonumber(all[6] or 0)}
		local rate, retry = kind == 1 or kind == 2, 0
		if c.next > 0 and now >= c.next then
			expire(key, kind, c, limit)
			all[7] = redis.call('HGET', key, me)
		end
		if rate then drain(c, limit, now) end

		local r = ints(all[7] or '')
		local recorded = #r > 0
		if kind == 0 then
			if recorded then
				c.taken = c.taken - r[1]
				if r[3] > 0 then c.used = c.used - r[2] else c.used = c.used - r[1] end
			end
			c.used, c.taken = c.used + used, c.taken + granted
		elseif kind == 3 then
			c.taken = c.taken + (granted - (r[1] or 0))
		else
			local more = level
			if recorded then
				c.taken = c.taken - (r[1] - r[2])
				more = used - r[2]
				if r[4] ~= first then
					c.level = c.level + (r[1] - r[2]) * 60000
					more = math.min(used, level)
				elseif behind then
					more = level
				elseif r[3] <= 0 then
					more = math.min(more, level)
				end
				more = math.max(more, 0)
			end
			c.level, c.taken = c.level + more * 60000, c.taken + (granted - used)
		end

		local left = math.min(limit + c.credit, 9e15) - c.taken
		if rate then left = math.floor((limit * 60000 - c.level) / 60000) - c.taken end
		if want > 0 and left >= math.max(least, 1) then
			if not lost then
				local grant = math.min(left, math.max(math.min(want, left), math.floor(share * left)))
				granted, c.taken = granted + grant, c.taken + grant
			end
		elseif want > 0 and rate then
			local need = c.level + (least + c.taken - limit) * 60000
			if need > 0 and need <= c.level then retry = math.floor((need + limit - 1) / limit) end
		end

		local ends = now + lease
		if granted == 0 and not rate then redis.call('HDEL', key, me) else
			local text = int(granted) .. ' ' .. int(used) .. ' ' .. int(ends)
			if rate then text = text .. ' ' .. int(first) end
			redis.call('HSET', key, me, text)
			if c.next == 0 or ends < c.next then c.next = ends end
		end
		if rate then
			redis.call('HSET', key, 'taken', int(c.taken), 'level', int(c.level), 'at', int(now), 'next', int(c.next))
		else
			redis.call('HSET', key, 'taken', int(c.taken), 'used', int(c.used), 'next', int(c.next))
		end
		if kept > 0 then redis.call('PEXPIREAT', key, int(kept)) elseif kept < 0 then redis.call('PEXPIRE', key, int(-kept)) end

		reply[out], reply[out + 1] = granted, c.taken
		if rate then reply[out + 1] = c.taken + math.floor((c.level + 59999) / 60000) end
		if kind == 0 then reply[out + 2] = c.used end
		reply[out + 3], reply[out + 4] = c.credit, retry
	end
end
return reply
