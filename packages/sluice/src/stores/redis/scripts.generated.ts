/** Made of scripts/*.lua by tools/embed-lua.mjs; a test says when it is out of date. */
export const SCRIPT_SHA = '478b9a84148524511d9ebba48337157de8abcc07';

export const SCRIPT = String.raw`local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call, pack, unpackAll = redis.call, cmsgpack.pack, cmsgpack.unpack
local MOST = 9007199254740991
local function isWhole(number)
return type(number) == 'number' and number % 1 == 0 and number >= -MOST and number <= MOST
end
local function whole(text)
local number = tonumber(text)
if isWhole(number) then return number end
error('ERR expected an integer, got ' .. tostring(text))
end
local now, outliveMs
if ARGV[1] == '' then
local time = call('TIME')
now, outliveMs = time[1] * 1000 + floor(time[2] / 1000), 0
else
now, outliveMs = whole(ARGV[1]), 3600000
end
local lastExpiresMs, lastLifetime
local function lifetime(expiresMs)
if expiresMs ~= lastExpiresMs then
lastExpiresMs = expiresMs
lastLifetime = string.format('%.0f', max(expiresMs - now, 1) + outliveMs)
end
return lastLifetime
end
local function readCells(key, state)
local value = call('GET', key)
if not value then
state.expires = nil
return nil
end
local a, b, c, more = unpackAll(value)
if more or not (isWhole(a) and isWhole(b) and isWhole(c)) then
error('ERR not a counter of this limiter: ' .. key)
end
return a, b, c
end
local function writeCells(key, state, expiresMs, a, b, c)
if state.expires == expiresMs then
call('SET', key, pack(a, b, c), 'KEEPTTL')
else
call('SET', key, pack(a, b, c), 'PX', lifetime(expiresMs))
end
end
local function adjusted(before, delta, terms)
local after = min(max(before + delta, 0), floor(MOST / terms.window))
return after, after - before
end
local build = {}
build['fixed-window'] = function()
local function expires(window, terms)
return (window + 1) * terms.window
end
return {
read = function(key, state, terms)
local window, used = readCells(key, state)
if not window then return nil end
state.window, state.used, state.expires = window, used, expires(window, terms)
return window * terms.window
end,
blank = function(state, terms, time)
state.window, state.used, state.expires = floor(time / terms.window), 0, nil
return state
end,
write = function(key, state, terms)
local window = state.window
writeCells(key, state, expires(window, terms), window, state.used, 0)
end,
decide = function(state, terms, time, cost, take)
local window = floor(time / terms.window)
local left = expires(window, terms) - time
local used = state.window == window and state.used or 0
local wait = 0
if used + cost > terms.limit then
wait = left
elseif take then
used = used + cost
state.window, state.used = window, used
end
return wait, terms.limit - used, used > 0 and left or 0
end,
adjust = function(state, terms, time, charged, delta)
local window = floor(charged / terms.window)
if window ~= state.window or expires(window, terms) <= time then return 0 end
local change
state.used, change = adjusted(state.used, delta, terms)
return change
end,
cells = function(state, terms)
return expires(state.window, terms), state.used, 0
end,
}
end
local function buildLog(stampOf, startOf)
local PIECE, SMALL_SLOTS, SLACK_MS = 8, 32, 900
local formats = {
[4] = { width = 4, size = 8, most = 4294967295, entry = '>I4I4', slots = 47,
header = '>BI6I4I4I4I4I4I4I4I4I4I4' },
[7] = { width = 7, size = 14, most = MOST, entry = '>I7I7', slots = 68,
header = '>BI6I4I4I4I7I7I7I7I7I7I7' },
}
local SMALL_END = formats[4].slots + SMALL_SLOTS * formats[4].size - 1
local toBytes, fromBytes = struct.pack, struct.unpack
local function headerOf(log)
local format, base = log.format, log.base
return toBytes(format.header, format.width, base, log.room, log.head, log.count,
log.expires - base, log.known - base, log.before, log.oldest - base, log.first,
log.newest - base, log.total)
end
local function readLog(key, log, terms)
local bytes = call('GETRANGE', key, '0', SMALL_END)
if bytes == '' then return nil end
local format = formats[string.byte(bytes)]
if not format or #bytes < format.slots then error('ERR not a log of this limiter: ' .. key) end
local _, base, room, head, count, expires, known, before, oldest, first, newest, total =
fromBytes(format.header, bytes)
local length = format.slots + room * format.size
local isCut = #bytes > SMALL_END
if room < 1 or head >= room or count > room or length < #bytes or not isCut and length ~= #bytes then
error('ERR not a log of this limiter: ' .. key)
end
log.key, log.format, log.base, log.room, log.head, log.count = key, format, base, room, head, count
log.expires, log.known, log.before = base + expires, base + known, before
log.oldest, log.first, log.newest, log.total = base + oldest, first, base + newest, total
log.whole = format.slots + room * format.size <= #bytes and bytes
log.from, log.upTo = 0, -1
return startOf(terms, log.known)
end
local function entryOf(log, place)
if place == 0 then return log.oldest, log.first end
local format = log.format
local size, slot = format.size, (log.head + place) % log.room
local time, total
if log.whole then
time, total = fromBytes(format.entry, log.whole, format.slots + slot * size + 1)
else
if slot < log.from or slot > log.upTo then
log.from, log.upTo = slot, min(slot + PIECE, log.room) - 1
local start = format.slots + slot * size
log.piece = call('GETRANGE', log.key, start, start + PIECE * size - 1)
end
time, total = fromBytes(format.entry, log.piece, (slot - log.from) * size + 1)
end
return log.base + time, total
end
local function firstAfter(log, place, edge, needed)
local low, high, stride, total = place - 1, log.count, 1, log.before
if place > 0 then
local _, upTo = entryOf(log, low)
total = upTo
end
while low + 1 < high do
local middle = min(low + stride, floor((low + high) / 2))
local time, upTo = entryOf(log, middle)
if time <= edge or upTo < needed then
low, stride, total = middle, stride * 2, upTo
elseif middle == low + 1 then
break
else
high, stride = middle, MOST
end
end
return low + 1, total
end
local function passed(log, edge)
if log.count == 0 or log.oldest > edge then return 0, log.before end
if log.newest <= edge then return log.count, log.total end
return firstAfter(log, 0, edge, 0)
end
local function bytesFrom(log, place)
if place >= log.count then return '' end
local size, slots = log.format.size, log.format.slots
local function slice(first, last)
local start, stop = slots + first * size, slots + last * size
if log.whole then return string.sub(log.whole, start + 1, stop) end
return call('GETRANGE', log.key, start, stop - 1)
end
local from, upTo = log.head + place, log.head + log.count
if from >= log.room then return slice(from - log.room, upTo - log.room) end
if upTo <= log.room then return slice(from, upTo) end
return slice(from, log.room) .. slice(0, upTo - log.room)
end
local function visit(log, place, see)
local bytes, format, before = bytesFrom(log, place), log.format, log.before
if place > 0 then
local _, upTo = entryOf(log, place - 1)
before = upTo
end
for at = 1, #bytes, format.size do
local time, total = fromBytes(format.entry, bytes, at)
see(log.base + time, total - before)
before = total
end
end
local function layOut(log, bytes, room)
if #bytes ~= log.count * log.format.size then error('ERR not a log of this limiter') end
log.room, log.head = room, 0
log.whole = string.rep('\0', log.format.slots) .. bytes
.. string.rep('\0', room * log.format.size - #bytes)
end
local function empty(log, time, room)
log.format, log.base, log.count, log.known, log.expires = formats[4], time, 0, time, time
log.before, log.oldest, log.first, log.newest, log.total = 0, time, 0, time, 0
layOut(log, '', room)
end
local function rebase(log, time, cost)
local base, kept = log.oldest, log.total - log.before
local isWide = time - base > formats[4].most / 2 or kept + cost > formats[4].most
local format, parts, total = formats[isWide and 7 or 4], {}, 0
visit(log, 0, function(at, of)
total = total + of
parts[#parts + 1] = toBytes(format.entry, at - base, total)
end)
log.first = log.first - log.before
log.format, log.base, log.before, log.total = format, base, 0, kept
layOut(log, table.concat(parts), log.room)
end
local function makeRoom(log, terms)
local isFull = log.count >= log.room
if not isFull and (log.room <= 2 * SMALL_SLOTS or log.count * 4 >= log.room) then return end
local most = isFull and max(terms.limit, log.count + 1) or log.room
layOut(log, bytesFrom(log, 0), min(floor(log.count * 1.2) + 4, most))
end
local function putSlots(log, slot, bytes)
local at = log.format.slots + slot * log.format.size
if log.whole then
log.whole = string.sub(log.whole, 1, at) .. bytes .. string.sub(log.whole, at + #bytes + 1)
else
call('SETRANGE', log.key, at, bytes)
end
log.from, log.upTo = 0, -1
end
local function drop(log, count, before)
if count == 0 then return end
local oldest, first = log.oldest, log.first
if count < log.count then oldest, first = entryOf(log, count) end
log.head, log.count, log.before = (log.head + count) % log.room, log.count - count, before
log.oldest, log.first = oldest, first
end
local function append(log, terms, stamp, cost)
if log.count == 0 then
empty(log, stamp, log.room > SMALL_SLOTS and 1 or log.room)
end
local expires = stamp + terms.window + SLACK_MS
if expires - log.base > log.format.most or log.total + cost > log.format.most then
rebase(log, expires, cost)
end
if log.count == 0 or log.newest ~= stamp then
makeRoom(log, terms)
log.count = log.count + 1
end
log.total = log.total + cost
log.newest, log.known = stamp, stamp
if log.count == 1 then log.oldest, log.first = stamp, log.total end
local bytes = toBytes(log.format.entry, stamp - log.base, log.total)
putSlots(log, (log.head + log.count - 1) % log.room, bytes)
end
local function change(log, stamp, delta)
local place, before = passed(log, stamp - 1)
if place >= log.count then return 0 end
local time, total = entryOf(log, place)
if time ~= stamp then return 0 end
local by = max(delta, before - total)
if by == 0 then return 0 end
if log.total + by > log.format.most then
rebase(log, log.expires, by)
place, before = passed(log, stamp - 1)
end
local parts, running, newest = {}, before, log.base
if place > 0 then newest = entryOf(log, place - 1) end
local count = place
visit(log, place, function(at, cost)
if at == stamp then cost = cost + by end
running = running + cost
if cost > 0 then
parts[#parts + 1] = toBytes(log.format.entry, at - log.base, running)
if count == 0 then log.oldest, log.first = at, running end
newest, count = at, count + 1
end
end)
log.total, log.newest, log.count = running, newest, count
local slot = (log.head + place) % log.room
local straight = min(#parts, log.room - slot)
if straight > 0 then putSlots(log, slot, table.concat(parts, '', 1, straight)) end
if straight < #parts then putSlots(log, 0, table.concat(parts, '', straight + 1)) end
return by
end
local function writeLog(key, log, terms)
local expires = log.known + terms.window
local isExtended = log.expires < expires
if isExtended then log.expires = expires + SLACK_MS end
if log.whole then
local bytes = headerOf(log) .. string.sub(log.whole, log.format.slots + 1)
if isExtended or not log.key then
call('SET', key, bytes, 'PX', lifetime(log.expires))
else
call('SET', key, bytes, 'KEEPTTL')
end
else
call('SETRANGE', key, '0', headerOf(log))
if isExtended then call('PEXPIRE', key, lifetime(log.expires)) end
end
end
return {
read = readLog,
write = writeLog,
blank = function(log, terms, time)
log.key = nil
empty(log, time, 1)
return log
end,
decide = function(log, terms, time, cost, take)
local limit, length = terms.limit, terms.window
local count, expired = passed(log, time - length)
local free = limit - (log.total - expired)
if cost > free then
local place = firstAfter(log, count, -1, log.total + (cost - limit))
return entryOf(log, place) + length - time, free, max(log.newest + length - time, 0)
end
if not take then
return 0, free, log.count > 0 and max(log.newest + length - time, 0) or 0
end
local stamp = stampOf(terms, time)
local start = startOf(terms, stamp)
if start < time then count, expired = passed(log, start - length) end
drop(log, count, expired)
append(log, terms, stamp, cost)
return 0, free - cost, stamp + length - time
end,
adjust = function(log, terms, time, charged, delta)
local stamp = stampOf(terms, charged)
if stamp + terms.window <= time then return 0 end
return change(log, stamp, min(delta, MOST - (log.total - log.before)))
end,
cells = function(log, terms)
return log.known + terms.window, log.total - log.before, 0
end,
entries = function(log, terms, time)
local parts = {}
visit(log, passed(log, time - terms.window), function(at, cost)
parts[#parts + 1] = string.format('%.0f:%.0f', at, cost)
end)
return table.concat(parts, ' ')
end,
}
end
build['sliding-log'] = function()
return buildLog(
function(_, time) return time end,
function(_, stamp) return stamp end
)
end
build['sliding-counter'] = function()
local function expires(window, terms)
return (window + 2) * terms.window
end
return {
read = function(key, state, terms)
local window, current, previous = readCells(key, state)
if not window then return nil end
state.window, state.current, state.previous = window, current, previous
state.expires = (window + 2) * terms.window
return window * terms.window
end,
blank = function(state, terms, time)
state.window, state.current, state.previous = floor(time / terms.window), 0, 0
state.expires = nil
return state
end,
write = function(key, state, terms)
local window = state.window
writeCells(key, state, expires(window, terms), window, state.current, state.previous)
end,
decide = function(state, terms, time, cost, take)
local limit, length = terms.limit, terms.window
local window = floor(time / length)
local left = (window + 1) * length - time
local current, previous = 0, 0
if state.window == window then
current, previous = state.current, state.previous
elseif state.window == window - 1 then
previous = state.current
end
local counting = current
if previous > 0 then counting = counting + ceil(previous * left / length) end
local wait = 0
if counting + cost > limit then
local room = limit - current - cost
if room >= 0 then
wait = left - floor(room * length / previous)
else
wait = left + length - floor((limit - cost) * length / current)
end
elseif take then
counting, current = counting + cost, current + cost
state.window, state.current, state.previous = window, current, previous
end
local reset = 0
if current > 0 then
reset = left + length
elseif previous > 0 then
reset = left
end
return wait, limit - counting, reset
end,
adjust = function(state, terms, time, charged, delta)
local window = floor(charged / terms.window)
if expires(window, terms) <= time then return 0 end
local change = 0
if window == state.window then
state.current, change = adjusted(state.current, delta, terms)
elseif window == state.window - 1 then
state.previous, change = adjusted(state.previous, delta, terms)
end
return change
end,
cells = function(state, terms)
return expires(state.window, terms), state.current, state.previous
end,
}
end
build['sliding-buckets'] = function()
return buildLog(
function(terms, time) return (floor(time / terms.bucket) + 1) * terms.bucket - 1 end,
function(terms, stamp) return stamp - terms.bucket + 1 end
)
end
build['token-bucket'] = function()
local function levelAt(state, terms, time)
return min(terms.capacity * terms.window, state.level + (time - state.charged) * terms.limit)
end
local function fullAt(state, terms)
return state.charged + ceil((terms.capacity * terms.window - state.level) / terms.limit)
end
return {
read = function(key, state, terms)
local charged, level = readCells(key, state)
if not charged then return nil end
state.charged, state.level = charged, level
state.expires = fullAt(state, terms)
return charged
end,
blank = function(state, terms, time)
state.charged, state.level, state.expires = time, terms.capacity * terms.window, nil
return state
end,
write = function(key, state, terms)
writeCells(key, state, fullAt(state, terms), state.charged, state.level, 0)
end,
decide = function(state, terms, time, cost, take)
local length = terms.window
local level = levelAt(state, terms, time)
local missing = cost * length - level
local wait = missing <= 0 and 0 or ceil(missing / terms.limit)
if take and wait == 0 then
level = level - cost * length
state.charged, state.level = time, level
end
return wait, floor(level / length), ceil((terms.capacity * length - level) / terms.limit)
end,
adjust = function(state, terms, time, charged, delta, cost)
local full = terms.capacity * terms.window
local deepest = full - MOST
local before = levelAt(state, terms, time)
local missing = max(cost * terms.window - (time - charged) * terms.limit, 0)
local change = max(delta * terms.window, -missing)
local level = max(state.level - change, deepest)
state.level = min(level, full)
return ceil((before - levelAt(state, terms, time)) / terms.window), true
end,
cells = function(state, terms)
return fullAt(state, terms), state.level, state.charged
end,
}
end
local reply, size = { now }, 1
local policies, nextKey, keys = {}, 1, KEYS
local LARGE = 2^52
local function say(value)
size = size + 1
if type(value) == 'number' and (value > LARGE or value < -LARGE) then
value = string.format('%.0f', value)
end
reply[size] = value
end
local built = {}
local function policyOf(text)
local name, limit, window, bucket, capacity =
string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+)$')
if not build[name] then error('ERR expected a policy, got ' .. text) end
built[name] = built[name] or build[name]()
local terms = {
limit = whole(limit), window = whole(window), bucket = whole(bucket),
capacity = whole(capacity), algorithm = built[name],
}
if min(terms.limit, terms.window, terms.bucket, terms.capacity) < 1 then
error('ERR expected a policy, got ' .. text)
end
return terms
end
local function policyAt(place)
return policies[place] or error('ERR expected the place of a policy')
end
local function open(key, terms, state)
local known = terms.algorithm.read(key, state, terms)
if not known then return nil, now end
if known <= now then return state, now end
if known - now > terms.window then return nil, now end
return state, known
end
local function sayLimit(time, wait, free, reset)
if time ~= now then say(now - time) end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
size = size + 3
else
say(wait)
say(free)
say(reset)
end
end
local function sayTimed(time, wait, free, reset)
say(time)
say(wait)
say(free)
say(reset)
end
local scratch = {}
local function decideOne(first, legs, take, tell)
local terms, key = legs[1], keys[first]
local algorithm = terms.algorithm
local state, time = open(key, terms, scratch)
if not state then state = algorithm.blank(scratch, terms, time) end
local wait, free, reset = algorithm.decide(state, terms, time, legs[2], take)
if take and wait == 0 then algorithm.write(key, state, terms) end
tell(time, wait, free, reset)
return wait == 0
end
local function decideAll(first, legs, take, tell)
local states, times, answers, fits = {}, {}, {}, true
for leg = 1, #legs / 2 do
local terms, state = legs[2 * leg - 1], {}
local isHeld, time = open(keys[first + leg - 1], terms, state)
if not isHeld then terms.algorithm.blank(state, terms, time) end
states[leg], times[leg] = state, time
answers[leg] = { terms.algorithm.decide(state, terms, time, legs[2 * leg], false) }
fits = fits and answers[leg][1] == 0
end
for leg = 1, #legs / 2 do
local terms, state = legs[2 * leg - 1], states[leg]
if take and fits then
answers[leg] = { terms.algorithm.decide(state, terms, times[leg], legs[2 * leg], true) }
terms.algorithm.write(keys[first + leg - 1], state, terms)
end
tell(times[leg], unpack(answers[leg]))
end
return fits
end
local function decideOnce(first, legs, rememberMs)
local parts, memory = {}, keys[first + #legs / 2]
for leg = 1, #legs / 2 do
parts[leg] = string.format('%s %.0f', keys[first + leg - 1], legs[2 * leg])
end
local wording = table.concat(parts, ' ')
local value = call('GET', memory)
if value then
local held = { unpackAll(value) }
if held[1] == wording and held[2] > now then
say(0)
for place = 3, #held do say(held[place]) end
return
end
end
say(1)
local before = size
local kind = #legs == 2 and decideOne or decideAll
if not kind(first, legs, true, sayTimed) then return end
local numbers = {}
for place = before + 1, size do numbers[#numbers + 1] = tonumber(reply[place]) end
local expiresMs = now + rememberMs
call('SET', memory, pack(wording, expiresMs, unpack(numbers)), 'PX', lifetime(expiresMs))
end
local function adjust(first, terms, charged, delta, cost)
local key = keys[first]
local state, time = open(key, terms, {})
local change, isChanged = 0, false
if state then
change, isChanged = terms.algorithm.adjust(state, terms, time, charged, delta, cost)
end
if change ~= 0 or isChanged then terms.algorithm.write(key, state, terms) end
say(change)
end
local function inspect(first, terms)
local state, time = open(keys[first], terms, {})
local free, reset, _ = 0, 0, 0
if state then _, free, reset = terms.algorithm.decide(state, terms, time, 0, false) end
if reset == 0 then return say(0) end
sayTimed(1, time, free, reset)
local a, b, c = terms.algorithm.cells(state, terms)
say(a)
say(b)
say(c)
local entries = terms.algorithm.entries
say(entries and entries(state, terms, time) or '')
end
local function reset(first)
say(call('DEL', keys[first]))
end
local function repeatedly(count, each, work, ...)
local done, before = 0, size
local function go(...)
while done < count do
before = size
work(nextKey, ...)
done, nextKey = done + 1, nextKey + each
end
end
while done < count do
local isDone, problem = pcall(go, ...)
if not isDone then
for place = before + 1, size do reply[place] = nil end
size = before
say('!' .. (type(problem) == 'table' and problem.err or tostring(problem)))
done, nextKey = done + 1, nextKey + each
end
end
end
local function doRun(text)
local kind, numbers = string.match(text, '^%l+'), {}
for word in string.gmatch(text, ' (%S+)') do numbers[#numbers + 1] = whole(word) end
if kind == 'reset' then return repeatedly(numbers[1], 1, reset) end
if kind == 'inspect' then return repeatedly(1, 1, inspect, policyAt(numbers[1])) end
if kind == 'adjust' then
return repeatedly(1, 1, adjust, policyAt(numbers[1]), numbers[2], numbers[3], numbers[4])
end
local legs, rememberMs = {}, kind == 'once' and table.remove(numbers)
for at = 2, #numbers, 2 do
if numbers[at + 1] < 0 then error('ERR expected a cost, got ' .. text) end
legs[at - 1], legs[at] = policyAt(numbers[at]), numbers[at + 1]
end
local each, decide = #legs / 2, #legs == 2 and decideOne or decideAll
if kind == 'once' then return repeatedly(numbers[1], each + 1, decideOnce, legs, rememberMs) end
repeatedly(numbers[1], each, decide, legs, kind == 'check', sayLimit)
end
local count = whole(ARGV[2])
for place = 1, count do policies[place] = policyOf(ARGV[2 + place]) end
for place = 3 + count, #ARGV do doRun(ARGV[place]) end
return reply`;
