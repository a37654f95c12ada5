/** Composed of the Lua files in scripts/ by tools/embed-lua.mjs. */
export interface Script {
  /** The SHA-1 under which Redis caches the script. */
  readonly sha: string;
  readonly text: string;
}

export const SCRIPTS = {
  general: {
    sha: 'c98e1629869184d85cf77539f2e574eeec583a8a',
    text: `local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call = redis.call
local MOST = 9007199254740991
local function whole(text)
local number = tonumber(text)
if number and number % 1 == 0 and number >= -MOST and number <= MOST then return number end
error('ERR expected an integer, got ' .. tostring(text))
end
local label = ''
local now, outliveMs = nil, 0
if ARGV[1] == '' then
local time = call('TIME')
local micros = time[2] + 0
now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
now, outliveMs = tonumber(ARGV[1]), 3600000
if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
error('ERR expected a time in ms, got ' .. ARGV[1])
end
end
local set, lastExpires, lastTtl = call, nil, nil
local function lifetime(expires)
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
return lastTtl
end
local function notCounter(key)
error('ERR not a counter of this limiter: ' .. key, 0)
end
local function notLog(key)
error('ERR not a log of this limiter: ' .. key, 0)
end
local function readCells(key)
local value = redis.pcall('GET', key)
if not value then return nil end
local isCells, a, b, c, more = pcall(cmsgpack.unpack, value)
isCells = isCells and more == nil
and type(a) == 'number' and type(b) == 'number' and type(c) == 'number'
and a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
and a % 1 + b % 1 + c % 1 == 0
if not isCells then notCounter(key) end
return a, b, c
end
local function writeCells(key, expired, expires, a, b, c)
local written
if expired == expires then
written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
end
local function adjusted(before, delta, params)
local after = min(max(before + delta, 0), params.most)
return after, after - before
end
local build = {}
build['fixed-window'] = function()
local function expires(window, params)
return (window + 1) * params.window
end
return {
read = function(key, state, params)
local a, b, c = readCells(key)
if not a then return nil end
local isCells, length, newest, used, known, expired = true, params.window, nil, nil, nil, nil
if isCells and b >= 0 and b * length <= MOST then
newest, used, known, expired = a, b, a * length, (a + 1) * length
else
isCells = false
end
if not isCells then notCounter(key) end
state.newest, state.used, state.expired = newest, used, expired
return known
end,
blank = function(state, params, time)
state.newest, state.used, state.expired = floor(time / params.window), 0, nil
return state
end,
write = function(key, state, params)
writeCells(key, state.expired, expires(state.newest, params), state.newest, state.used, 0)
end,
decide = function(state, params, time, cost, take)
local limit, length, newest, used = params.limit, params.window, state.newest, state.used
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then newest, used = window, 0 end
local wait = 0
if used + cost > limit then
wait = left
elseif take then
used = used + cost
end
local free, reset = limit - used, used > 0 and left or 0
if take and wait == 0 then state.newest, state.used = newest, used end
return wait, free, reset
end,
adjust = function(state, params, time, charged, delta)
local window = floor(charged / params.window)
if window ~= state.newest or expires(window, params) <= time then return 0 end
local change
state.used, change = adjusted(state.used, delta, params)
return change
end,
cells = function(state, params)
return expires(state.newest, params), state.used, 0
end,
}
end
local function buildChunks()
local FULL, MOST_IN_STRING, SLACK_MS, ROOM = 36, 252, 900, 4
local HEADER, HEADER_SIZE = '>BBI7I7I7I7', 30
local LONG_HEADER, LONG_HEADER_SIZE = '>BBI7I7I7I7I7I7I7', 51
local REST, REST_SIZE = '>I7I7I7I4I4I4BI4I7BBI7B', 55
local ENTRY_FORMATS = '>I1I1>I2I2>I3I3>I4I4>I5I5>I6I6>I7I7'
local toBytes, fromBytes = struct.pack, struct.unpack
local chunks = {}
function chunks.widthFor(number)
local width
width = 1
while width < 7 and number > 256 ^ width - 1 do width = width + 1 end
return width
end
function chunks.setWidth(chunk, width)
local isWidth, entrySize, format, largest
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
chunk.width, chunk.size, chunk.format, chunk.most = width, entrySize, format, largest
return isWidth
end
function chunks.at(chunk, index)
local time, total = fromBytes(chunk.format, chunk.bytes, chunk.start + index * chunk.size + 1)
return chunk.base + time, chunk.origin + total
end
function chunks.seek(chunk, index, edge, needed)
local bytes, from, entrySize, format = chunk.bytes, chunk.start + 1, chunk.size, chunk.format
local count, after = chunk.count, edge - chunk.base
needed = needed - chunk.origin
local low, high, stride = index - 1, count, 1
while low + 1 < high do
local middle = min(low + stride, floor((low + high) / 2))
local entryTime, entryTotal = fromBytes(format, bytes, from + middle * entrySize)
if entryTime <= after or entryTotal < needed then
low, stride = middle, stride * 2
elseif middle == low + 1 then
break
else
high, stride = middle, MOST
end
end
index = low + 1
return index
end
function chunks.numbers(chunk, index)
local count = 2 * (chunk.count - index)
if count == 0 then return {} end
local format = '>' .. string.rep('I' .. chunk.width, count)
local numbers = { fromBytes(format, chunk.bytes, chunk.start + index * chunk.size + 1) }
numbers[count + 1] = nil
return numbers
end
function chunks.pack(numbers, width)
return toBytes('>' .. string.rep('I' .. width, #numbers), unpack(numbers))
end
function chunks.fill(chunk, numbers)
local count = #numbers
chunks.setWidth(chunk, chunks.widthFor(max(numbers[count - 1], numbers[count])))
chunk.bytes, chunk.start, chunk.count = chunks.pack(numbers, chunk.width), 0, count / 2
end
function chunks.change(numbers, index, by, isGone)
for place = 2 * index + 2, #numbers, 2 do numbers[place] = numbers[place] + by end
if isGone then
table.remove(numbers, 2 * index + 1)
table.remove(numbers, 2 * index + 1)
end
end
return chunks
end
local function buildSegments(chunks)
local at, seek = chunks.at, chunks.seek
local FULL, MOST_IN_STRING, SLACK_MS, ROOM = 36, 252, 900, 4
local HEADER, HEADER_SIZE = '>BBI7I7I7I7', 30
local LONG_HEADER, LONG_HEADER_SIZE = '>BBI7I7I7I7I7I7I7', 51
local REST, REST_SIZE = '>I7I7I7I4I4I4BI4I7BBI7B', 55
local ENTRY_FORMATS = '>I1I1>I2I2>I3I3>I4I4>I5I5>I6I6>I7I7'
local toBytes, fromBytes = struct.pack, struct.unpack
local RECORD, RECORD_SIZE, ORIGIN_SIZE = '>I4I7BB', 13, 7
local FULL_SEGMENT, PURGED, SLICE = 252, 64, 500
local segments = {}
local function load(log)
if log.records then return end
if log.segments == 0 then
log.records, log.origins = '', ''
return
end
local both = call('HMGET', log.key, 'd', 't')
local records, origins = both[1], both[2]
if not records or not origins or #records ~= log.segments * RECORD_SIZE
or #origins ~= log.segments * ORIGIN_SIZE then
notLog(log.key)
end
log.records, log.origins = records, origins
end
local function originAt(log, place)
return (fromBytes('>I7', log.origins, place * ORIGIN_SIZE + 1))
end
local function follows(log, place)
if place + 1 == log.segments then
return log.count + log.filed > 0 and log.base or MOST, log.origin
end
local _, base = fromBytes(RECORD, log.records, (place + 1) * RECORD_SIZE + 1)
return base, originAt(log, place + 1)
end
local function chunkAt(log, place)
local chunk = log.chunk
if chunk and chunk.place == place then return chunk end
chunk = { place = place, start = 0 }
local width
if place == log.segments then
chunk.number, chunk.base, chunk.count, width = log.number, log.base, log.filed, log.width
chunk.origin = log.origin
elseif place == log.dead then
chunk.number, chunk.base, chunk.count = log.headNumber, log.headBase, log.headCount
chunk.origin, width = log.headOrigin, log.headWidth
else
load(log)
local record = place * RECORD_SIZE + 1
chunk.number, chunk.base, chunk.count, width = fromBytes(RECORD, log.records, record)
chunk.origin = originAt(log, place)
end
chunk.bytes = log.written[chunk.number] or call('HGET', log.key, chunk.number)
if not chunks.setWidth(chunk, width) or not chunk.bytes or chunk.count == 0
or #chunk.bytes ~= chunk.count * chunk.size then
notLog(log.key)
end
log.chunk = chunk
return chunk
end
local function setHead(log, chunk)
log.headNumber, log.headBase, log.headCount = chunk.number, chunk.base, chunk.count
log.headWidth, log.headOrigin = chunk.width, chunk.origin
end
local function splice(text, size, place, count, bytes)
return string.sub(text, 1, place * size) .. bytes .. string.sub(text, (place + count) * size + 1)
end
local function store(log, place, count, chunk)
load(log)
local record = toBytes(RECORD, chunk.number, chunk.base, chunk.count, chunk.width)
local at, origin = place * RECORD_SIZE, toBytes('>I7', chunk.origin)
if count ~= 1 or string.sub(log.records, at + 1, at + RECORD_SIZE) ~= record then
log.records = splice(log.records, RECORD_SIZE, place, count, record)
end
if count ~= 1 or originAt(log, place) ~= chunk.origin then
log.origins = splice(log.origins, ORIGIN_SIZE, place, count, origin)
end
log.written[chunk.number], log.isFiled = chunk.bytes, true
log.segments = log.segments + 1 - count
chunk.place, log.chunk = place, chunk
if place == log.dead then
setHead(log, chunk)
log.skipped = 0
end
end
local function remove(log, place, number)
log.records = splice(log.records, RECORD_SIZE, place, 1, '')
log.origins = splice(log.origins, ORIGIN_SIZE, place, 1, '')
log.segments, log.isFiled, log.chunk = log.segments - 1, true, nil
log.written[number] = nil
log.deleted[#log.deleted + 1] = number
end
local function addToOrigins(log, place, by)
local parts = { string.sub(log.origins, 1, place * ORIGIN_SIZE) }
while place < log.segments do
local count = min(log.segments - place, SLICE)
local format = '>' .. string.rep('I7', count)
local numbers = { fromBytes(format, log.origins, place * ORIGIN_SIZE + 1) }
numbers[count + 1] = nil
for index = 1, count do numbers[index] = numbers[index] + by end
parts[#parts + 1] = toBytes(format, unpack(numbers))
place = place + count
end
log.origins, log.isFiled, log.chunk = table.concat(parts), true, nil
end
local function skippedAt(log, place)
return place == log.dead and log.skipped or 0
end
function segments.find(log, edge, needed)
local chunk = chunkAt(log, log.dead)
local index = seek(chunk, log.skipped, edge, needed)
if index < chunk.count then return chunk, index end
index = seek(log, 0, edge, needed)
if index > 0 or log.dead == log.segments then return log, index end
local low, high = log.dead, log.segments
if high - low > 1 then load(log) end
while low + 1 < high do
local middle = floor((low + high) / 2)
local base, origin = follows(log, middle)
if base > edge and origin >= needed then high = middle else low = middle end
end
if high < log.segments then
chunk = chunkAt(log, high)
index = seek(chunk, 0, edge, needed)
if index < chunk.count then return chunk, index end
if high + 1 < log.segments then return chunkAt(log, high + 1), 0 end
end
if log.filed > 0 then
chunk = chunkAt(log, log.segments)
index = seek(chunk, 0, edge, needed)
if index < chunk.count then return chunk, index end
end
return log, 0
end
function segments.moveHead(log, chunk, index)
log.dead, log.skipped = chunk.place, index
if chunk.place < log.segments then setHead(log, chunk) end
end
function segments.oldest(log)
return at(chunkAt(log, log.dead), log.skipped)
end
function segments.newest(log)
local chunk = chunkAt(log, log.filed > 0 and log.segments or log.segments - 1)
return at(chunk, chunk.count - 1)
end
local function merge(log, place, most)
if place < log.dead or place + 1 >= log.segments then return false end
local one = chunkAt(log, place)
local skipped = skippedAt(log, place)
local _, _, count = fromBytes(RECORD, log.records, (place + 1) * RECORD_SIZE + 1)
if one.count - skipped + count > most then return false end
local other, numbers = chunkAt(log, place + 1), chunks.numbers(one, skipped)
local later, more = other.base - one.base, other.origin - one.origin
local added = chunks.numbers(other, 0)
for index = 1, #added, 2 do
numbers[#numbers + 1] = added[index] + later
numbers[#numbers + 1] = added[index + 1] + more
end
remove(log, place + 1, other.number)
chunks.fill(one, numbers)
store(log, place, 1, one)
return true
end
function segments.close(log, width)
local numbers, less = chunks.numbers(log, 0), log.upTo - log.origin
local later = numbers[1] or 0
if log.filed > 0 then
load(log)
local chunk = {
number = log.number, base = log.base, origin = log.origin, count = log.filed, width = log.width,
}
if log.dead == log.segments then setHead(log, chunk) end
log.records = log.records
.. toBytes(RECORD, chunk.number, chunk.base, chunk.count, chunk.width)
log.origins = log.origins .. toBytes('>I7', chunk.origin)
log.number, log.segments, log.filed = log.number + 1, log.segments + 1, 0
log.isFiled, log.chunk = true, nil
merge(log, log.segments - 2, FULL_SEGMENT / 2)
end
for index = 1, #numbers, 2 do
numbers[index], numbers[index + 1] = numbers[index] - later, numbers[index + 1] - less
end
log.base, log.origin = log.base + later, log.upTo
local most = max(numbers[#numbers - 1] or 0, numbers[#numbers] or 0)
chunks.setWidth(log, max(width, chunks.widthFor(most)))
log.bytes, log.start = chunks.pack(numbers, log.width), 0
end
function segments.file(log)
if not log.isLong then
log.records, log.origins, log.segments, log.dead, log.number = '', '', 0, 0, 0
log.written, log.deleted, log.filed, log.skipped, log.chunk = {}, {}, 0, 0, nil
log.isLong, log.isFiled, log.isHash = true, false, false
log.headNumber, log.headBase, log.headCount, log.headWidth, log.headOrigin = 0, 0, 0, 0, 0
elseif log.filed + log.count > FULL_SEGMENT then
segments.close(log, chunks.widthFor(1.25 * max(log.newest - log.base, log.total - log.origin)))
end
local bytes = log.filed > 0 and chunkAt(log, log.segments).bytes or ''
log.written[log.number] = bytes .. string.sub(log.bytes, log.start + 1)
log.filed, log.upTo, log.chunk = log.filed + log.count, log.total, nil
log.bytes, log.start, log.count = '', 0, 0
end
local function changeOpen(log, chunk, index, by, isGone)
local skipped = skippedAt(log, chunk.place)
local numbers, tail = chunks.numbers(chunk, skipped), chunks.numbers(log, 0)
chunks.change(numbers, index - skipped, by, isGone)
chunks.change(tail, 0, by, false)
log.bytes, log.start = chunks.pack(tail, log.width), 0
log.filed, log.upTo, log.chunk = #numbers / 2, log.upTo + by, nil
if log.dead == log.segments then log.skipped = 0 end
if log.filed > 0 then
log.written[chunk.number] = chunks.pack(numbers, log.width)
else
log.written[chunk.number] = nil
log.deleted[#log.deleted + 1], log.number = chunk.number, log.number + 1
end
end
function segments.change(log, chunk, index, by, isGone)
if chunk.place == log.segments then return changeOpen(log, chunk, index, by, isGone) end
load(log)
local place, skipped = chunk.place, skippedAt(log, chunk.place)
local numbers = chunks.numbers(chunk, skipped)
chunks.change(numbers, index - skipped, by, isGone)
addToOrigins(log, place + 1, by)
log.origin, log.upTo = log.origin + by, log.upTo + by
if #numbers > 0 then
chunks.fill(chunk, numbers)
store(log, place, 1, chunk)
if isGone and not merge(log, place, FULL_SEGMENT / 2) then merge(log, place - 1, FULL_SEGMENT / 2) end
else
remove(log, place, chunk.number)
if place == log.dead then log.skipped = 0 end
if place == log.dead and place < log.segments then
local number, base, count, width = fromBytes(RECORD, log.records, place * RECORD_SIZE + 1)
local origin = originAt(log, place)
setHead(log, { number = number, base = base, count = count, width = width, origin = origin })
end
end
end
function segments.rebase(log)
segments.close(log, log.width)
load(log)
local head, before = chunkAt(log, log.dead), log.before
local numbers = chunks.numbers(head, log.skipped)
for index = 2, #numbers, 2 do numbers[index] = numbers[index] + head.origin - before end
head.origin = before
chunks.fill(head, numbers)
store(log, log.dead, 1, head)
addToOrigins(log, log.dead, -before)
log.headOrigin, log.origin, log.upTo = 0, log.origin - before, log.upTo - before
end
function segments.countFrom(log, chunk, index)
if chunk == log then return log.count - index end
local count = chunk.count - index + log.count
if chunk.place == log.segments then return count end
load(log)
count = count + log.filed
for place = chunk.place + 1, log.segments - 1 do
count = count + string.byte(log.records, place * RECORD_SIZE + 12)
end
return count
end
function segments.newestChunks(log, oldest, most)
local found, count = { log }, log.count
local last = oldest == log and log.segments + 1 or oldest.place
for place = log.filed > 0 and log.segments or log.segments - 1, last, -1 do
if count >= most then break end
local chunk = place == oldest.place and oldest or chunkAt(log, place)
found[#found + 1], count = chunk, count + chunk.count
end
return found
end
local function purge(log)
load(log)
local count = min(log.dead, PURGED)
for place = 0, count - 1 do
log.deleted[#log.deleted + 1] = (fromBytes('>I4', log.records, place * RECORD_SIZE + 1))
end
log.records = string.sub(log.records, count * RECORD_SIZE + 1)
log.origins = string.sub(log.origins, count * ORIGIN_SIZE + 1)
log.segments, log.dead, log.isFiled, log.chunk = log.segments - count, log.dead - count, true, nil
end
function segments.unfold(log)
if #log.bytes < log.start + REST_SIZE then notLog(log.key) end
log.base, log.origin, log.upTo, log.segments, log.dead, log.number, log.filed, log.headNumber,
log.headBase, log.headCount, log.headWidth, log.headOrigin, log.skipped =
fromBytes(REST, log.bytes, log.start + 1)
log.start, log.isFiled = log.start + REST_SIZE, false
log.records, log.origins, log.chunk, log.written, log.deleted = nil, nil, nil, {}, {}
local count = log.dead == log.segments and log.filed or log.headCount
if log.dead > log.segments or log.skipped >= count then notLog(log.key) end
end
function segments.write(key, log, isExtended)
if log.dead > 0 then purge(log) end
local width, expires, latest, before = log.width, log.expires, log.known, log.before
local oldest, first, newest, total = log.oldest, log.first, log.newest, log.total
local base, origin, upTo, segments, dead = log.base, log.origin, log.upTo, log.segments, log.dead
local number, filed, closedNumber, closedBase = log.number, log.filed, log.headNumber, log.headBase
local closedCount, closedWidth = log.headCount, log.headWidth
local closedOrigin, skipped = log.headOrigin, log.skipped
local entries = string.sub(log.bytes, log.start + 1)
local text = toBytes(LONG_HEADER, 104, width, expires, latest, before, oldest, first, newest, total)
.. toBytes(REST, base, origin, upTo, segments, dead, number, filed, closedNumber, closedBase,
closedCount, closedWidth, closedOrigin, skipped)
.. entries
local fields = { 'h', text }
if log.isFiled then
fields[3], fields[4], fields[5], fields[6] = 'd', log.records, 't', log.origins
end
for number, bytes in pairs(log.written) do
fields[#fields + 1], fields[#fields + 2] = number, bytes
end
if log.isHash then
if #log.deleted > 0 then call('HDEL', key, unpack(log.deleted)) end
elseif log.stored then
call('UNLINK', key)
end
call('HSET', key, unpack(fields))
if isExtended or not log.isHash then call('PEXPIRE', key, lifetime(log.expires)) end
end
return segments
end
local function buildLog(bucketOf)
local FULL, MOST_IN_STRING, SLACK_MS, ROOM = 36, 252, 900, 4
local HEADER, HEADER_SIZE = '>BBI7I7I7I7', 30
local LONG_HEADER, LONG_HEADER_SIZE = '>BBI7I7I7I7I7I7I7', 51
local REST, REST_SIZE = '>I7I7I7I4I4I4BI4I7BBI7B', 55
local ENTRY_FORMATS = '>I1I1>I2I2>I3I3>I4I4>I5I5>I6I6>I7I7'
local toBytes, fromBytes = struct.pack, struct.unpack
local chunks, segments = buildChunks(), nil
local at = chunks.at
local function stampOf(params, time)
local bucket = bucketOf(params)
local stamp = (floor(time / bucket) + 1) * bucket - 1
return stamp
end
local function startOf(params, stamp)
local bucket = bucketOf(params)
local start = stamp - bucket + 1
return start
end
local function makeString(log)
log.isLong, log.isHash, log.filed = false, false, 0
end
local function isEmpty(log)
return not log.isLong and log.count == 0
end
local function setChunk(log, width)
if not chunks.setWidth(log, width) then notLog(log.key) end
log.count = (#log.bytes - log.start) / log.size
if log.count % 1 ~= 0 or log.count > MOST_IN_STRING then notLog(log.key) end
end
local function unfold(log)
if not log.isFolded then return end
log.isFolded = false
segments = segments or buildSegments(chunks)
segments.unfold(log)
setChunk(log, log.width)
end
local function readString(log, bytes)
local isLog, width, entrySize, format, largest, base, count
local expired, latest, before, oldest, first, newest, total
local mark, isWidth
isLog = #bytes >= HEADER_SIZE
if isLog then
mark, width, expired, latest, base, before = fromBytes(HEADER, bytes)
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
count = (#bytes - HEADER_SIZE) / entrySize
isLog = mark == 115 and isWidth and count % 1 == 0 and count <= MOST_IN_STRING
end
if isLog then
oldest, first, newest, total = latest, before, latest, before
if count > 0 then
oldest, first = fromBytes(format, bytes, HEADER_SIZE + 1)
newest, total = fromBytes(format, bytes, #bytes - entrySize + 1)
oldest, newest = base + oldest, base + newest
end
isLog = isLog and before <= first and first <= total and total <= MOST
and oldest <= newest and newest <= latest and latest <= MOST
end
if not isLog then notLog(log.key) end
log.width, log.size, log.format, log.most = width, entrySize, format, largest
log.expires, log.known, log.base, log.before = expired, latest, base, before
log.oldest, log.first, log.newest, log.total = oldest, first, newest, total
log.bytes, log.start, log.count, log.origin, log.filed = bytes, HEADER_SIZE, count, 0, 0
log.isLong, log.isHash, log.isFolded = false, false, false
end
local function readHash(log, bytes)
local isLog, width, expired, latest, before, oldest, first, newest, total
local mark
isLog = #bytes >= LONG_HEADER_SIZE
if isLog then
mark, width, expired, latest, before, oldest, first, newest, total = fromBytes(LONG_HEADER, bytes)
isLog = mark == 104
isLog = isLog and before <= first and first <= total and total <= MOST
and oldest <= newest and newest <= latest and latest <= MOST
end
if not isLog then notLog(log.key) end
log.width, log.expires, log.known, log.before = width, expired, latest, before
log.oldest, log.first, log.newest, log.total = oldest, first, newest, total
log.bytes, log.start = bytes, LONG_HEADER_SIZE
log.isLong, log.isHash, log.isFolded = true, true, true
end
local function readLog(key, log, params)
log.key, log.stored, log.edge = key, nil, nil
local bytes = call('MGET', key)[1]
if bytes then
readString(log, bytes)
log.stored = 's'
else
bytes = redis.pcall('HGET', key, 'h')
if not bytes and call('EXISTS', key) == 0 then return nil end
if type(bytes) ~= 'string' then notLog(key) end
readHash(log, bytes)
log.stored = 'h'
end
return startOf(params, log.known)
end
local function find(log, edge, needed)
local chunk, index
if log.isLong then
unfold(log)
chunk, index = segments.find(log, edge, needed)
else
chunk, index = log, chunks.seek(log, 0, edge, needed)
end
if index >= chunk.count then notLog(log.key) end
local before, time, total = chunk.origin, at(chunk, index)
if time == log.oldest then
before = log.before
elseif index > 0 then
local _, upTo = at(chunk, index - 1)
before = upTo
elseif chunk == log then
before = log.upTo
end
return chunk, index, before, time, total
end
local function passed(log, edge)
if isEmpty(log) or log.oldest > edge then return log.before end
if log.newest <= edge then return log.total end
if log.edge ~= edge then
log.edge = edge
log.edgeChunk, log.edgeIndex, log.edgeBefore, log.edgeTime, log.edgeTotal = find(log, edge, 0)
end
return log.edgeBefore
end
local function empty(log, time)
log.bytes, log.start, log.count, log.isFolded = '', 0, 0, false
log.origin, log.upTo, log.before, log.total = 0, 0, 0, 0
log.oldest, log.first, log.newest = time, 0, time
makeString(log)
end
local function drop(log, edge)
if isEmpty(log) or log.oldest > edge then return end
if log.newest <= edge then return empty(log, log.newest) end
passed(log, edge)
local chunk, index = log.edgeChunk, log.edgeIndex
if chunk == log then
log.start, log.count = log.start + index * log.size, log.count - index
makeString(log)
else
segments.moveHead(log, chunk, index)
end
log.before, log.oldest, log.first, log.edge = log.edgeBefore, log.edgeTime, log.edgeTotal, nil
end
local function rebase(log)
if log.isLong then segments.rebase(log) else log.origin = log.origin - log.before end
log.first, log.total, log.before = log.first - log.before, log.total - log.before, 0
end
local function widen(log, time, cost)
if log.filed > 0 then segments.close(log, log.width + 1) end
local numbers = chunks.numbers(log, 0)
local later, more, room = numbers[1] or 0, 0, 1
if not log.isLong then
rebase(log)
more, room = -log.origin, ROOM
log.origin = 0
end
for index = 1, #numbers, 2 do
numbers[index], numbers[index + 1] = numbers[index] - later, numbers[index + 1] - more
end
log.base = log.base + later
local most = max(time - log.base, log.total - log.origin + cost)
chunks.setWidth(log, chunks.widthFor(room * most))
log.bytes, log.start = chunks.pack(numbers, log.width), 0
end
local function canBecomeHash(log)
if type(redis.pcall('EXISTS', log.key .. '+')) == 'number' then return true end
if log.count < MOST_IN_STRING then return false end
error('TRYAGAIN the slot of ' .. log.key .. ' is being migrated', 0)
end
local function append(log, params, stamp, cost)
if isEmpty(log) then
empty(log, stamp)
chunks.setWidth(log, chunks.widthFor(ROOM * max(params.window, params.limit)))
end
if log.total + cost > MOST then rebase(log) end
local isSame = log.count > 0 and log.newest == stamp
if not isSame and log.count >= FULL and (log.isLong or canBecomeHash(log)) then
segments = segments or buildSegments(chunks)
segments.file(log)
end
if log.count + log.filed == 0 then
log.base, log.origin, log.upTo = stamp, log.total, log.total
end
if stamp - log.base > log.most or log.total - log.origin + cost > log.most then
widen(log, stamp, cost)
end
log.total = log.total + cost
local entry = toBytes(log.format, stamp - log.base, log.total - log.origin)
if isSame then
log.bytes = string.sub(log.bytes, 1, -1 - log.size) .. entry
else
log.bytes, log.count = log.bytes .. entry, log.count + 1
end
log.newest, log.known = stamp, stamp
if log.count == 1 and not log.isLong then log.oldest, log.first = stamp, log.total end
end
local function changeTail(log, index, by, isGone)
if log.total - log.origin + by > log.most then widen(log, log.newest, by) end
local numbers = chunks.numbers(log, index)
chunks.change(numbers, 0, by, isGone)
log.bytes = string.sub(log.bytes, log.start + 1, log.start + index * log.size)
.. chunks.pack(numbers, log.width)
log.start, log.count = 0, index + #numbers / 2
end
local function change(log, stamp, delta)
if isEmpty(log) or stamp < log.oldest or stamp > log.newest then return 0 end
unfold(log)
local chunk, index, before, time, total = find(log, stamp - 1, 0)
if time ~= stamp then return 0 end
local by = max(delta, before - total)
if by == 0 then return 0 end
local isGone = total - before == -by
if log.total + by > MOST then
rebase(log)
chunk, index = find(log, stamp - 1, 0)
end
local isOpen = chunk ~= log and chunk.place == log.segments
if isOpen and log.total - log.origin + by > log.most then
segments.close(log, log.width)
chunk, index = find(log, stamp - 1, 0)
end
if chunk == log then
changeTail(log, index, by, isGone)
else
segments.change(log, chunk, index, by, isGone)
if log.segments == log.dead and log.filed == 0 then makeString(log) end
end
log.total = log.total + by
if isEmpty(log) then
empty(log, log.known)
elseif not isGone then
if stamp == log.oldest then log.first = log.first + by end
elseif stamp == log.oldest then
local read = log.isLong and segments.oldest or at
log.oldest, log.first = read(log, 0)
elseif stamp == log.newest then
local read = log.count > 0 and at or segments.newest
log.newest = read(log, log.count - 1)
end
return by
end
local function writeLog(key, log, params)
local latest, length, expired = log.known, params.window, log.expires
local expires, isExtended = expired, expired < latest + length
if isExtended then expires = latest + length + SLACK_MS end
log.expires = expires
if log.isLong then return segments.write(key, log, isExtended) end
local width, base, before, isStored = log.width, log.base, log.before - log.origin, log.stored == 's'
local entries = string.sub(log.bytes, log.start + 1)
local written
local text = toBytes(HEADER, 115, width, expires, latest, base, before) .. entries
if isExtended or not isStored then
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, text, 'PX', lastTtl)
else
written = set('SET', key, text, 'KEEPTTL')
end
end
local function entriesOf(log, params, time, most)
local edge, parts = time - params.window, {}
if isEmpty(log) or log.newest <= edge then return 0, parts end
local oldest, index, before = find(log, edge, 0)
local count, listed = log.count - index, { log }
if log.isLong then
count, listed = segments.countFrom(log, oldest, index), segments.newestChunks(log, oldest, most)
end
for place = #listed, 1, -1 do
local chunk, from, upTo = listed[place], 0, 0
if chunk == oldest then
from, upTo = index, before - chunk.origin
elseif chunk == log then
upTo = log.upTo - log.origin
end
local numbers = chunks.numbers(chunk, from)
if #numbers > 0 then
parts[#parts + 1] = { base = chunk.base, before = upTo, numbers = numbers }
end
end
return count, parts
end
return {
read = readLog,
write = writeLog,
blank = function(log, params, time)
empty(log, time)
log.known, log.expires, log.base = time, time, time
return log
end,
decide = function(log, params, time, cost, take)
local limit, length = params.limit, params.window
local edge, isEmpty = time - length, isEmpty(log)
local passed, total, newest = passed(log, edge), log.total, log.newest
local oldest, first = log.oldest, log.first
local free, wait, needed = limit - (total - passed), 0, nil
local reset = isEmpty and 0 or max(newest + length - time, 0)
if cost > free then
needed = total + (cost - limit)
if oldest > edge and first >= needed then wait, needed = oldest + length - time, nil end
end
if needed then
local _, _, _, found = find(log, edge, needed)
wait = found + length - time
end
if wait ~= 0 or not take then return wait, free, reset end
unfold(log)
local stamp = stampOf(params, time)
drop(log, startOf(params, stamp) - length)
append(log, params, stamp, cost)
return 0, free - cost, stamp + length - time
end,
record = function(log, params, time, cost)
unfold(log)
local stamp = max(stampOf(params, time), log.known)
drop(log, startOf(params, stamp) - params.window)
local added = min(cost, MOST - (log.total - log.before))
append(log, params, stamp, added)
log.edge = nil
return added
end,
removeOldest = function(log, params, time, cost)
local edge, left = time - params.window, cost
while left > 0 and not isEmpty(log) and log.newest > edge do
local _, _, _, stamp = find(log, edge, 0)
local change = change(log, stamp, -left)
log.edge = nil
if change == 0 then break end
left = left + change
end
return left - cost
end,
leaves = function(params, time)
return stampOf(params, time) + params.window
end,
adjust = function(log, params, time, charged, delta)
local stamp = stampOf(params, charged)
if stamp + params.window <= time then return 0 end
return change(log, stamp, min(delta, MOST - (log.total - log.before)))
end,
cells = function(log, params)
return log.known + params.window, log.total - log.before, 0
end,
entries = entriesOf,
}
end
build['sliding-log'] = function()
return buildLog(function() return 1 end)
end
build['sliding-counter'] = function()
local function expires(window, params)
return (window + 2) * params.window
end
return {
read = function(key, state, params)
local a, b, c = readCells(key)
if not a then return nil end
local isCells, length = true, params.window
local newest, current, previous, known, expired
if isCells and b >= 0 and b * length <= MOST and c * length <= MOST then
newest, current, previous, known, expired = a, b, c, a * length, (a + 2) * length
else
isCells = false
end
if not isCells then notCounter(key) end
state.newest, state.current, state.previous, state.expired = newest, current, previous, expired
return known
end,
blank = function(state, params, time)
state.newest, state.current, state.previous = floor(time / params.window), 0, 0
state.expired = nil
return state
end,
write = function(key, state, params)
local newest = state.newest
writeCells(key, state.expired, expires(newest, params), newest, state.current, state.previous)
end,
decide = function(state, params, time, cost, take)
local limit, length = params.limit, params.window
local newest, current, previous = state.newest, state.current, state.previous
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then
previous = newest == window - 1 and current or 0
newest, current = window, 0
end
local counting, wait = current, 0
if previous > 0 then counting = counting + ceil(previous * left / length) end
if counting + cost > limit then
local room = limit - current - cost
if room >= 0 then
wait = left - floor(room * length / previous)
else
wait = left + length - floor((limit - cost) * length / current)
end
elseif take then
counting, current = counting + cost, current + cost
end
local free, reset = limit - counting, 0
if current > 0 then
reset = left + length
elseif previous > 0 then
reset = left
end
if take and wait == 0 then
state.newest, state.current, state.previous = newest, current, previous
end
return wait, free, reset
end,
adjust = function(state, params, time, charged, delta)
local window = floor(charged / params.window)
if expires(window, params) <= time then return 0 end
local change = 0
if window == state.newest then
state.current, change = adjusted(state.current, delta, params)
elseif window == state.newest - 1 then
state.previous, change = adjusted(state.previous, delta, params)
end
return change
end,
cells = function(state, params)
return expires(state.newest, params), state.current, state.previous
end,
}
end
build['sliding-buckets'] = function()
return buildLog(function(params) return params.bucket end)
end
build['token-bucket'] = function()
local function levelAt(state, params, time)
return min(params.capacity * params.window, state.level + (time - state.charged) * params.limit)
end
local function fullAt(state, params)
local charged, level, capacity = state.charged, state.level, params.capacity
local length, limit = params.window, params.limit
local full = charged + ceil((capacity * length - level) / limit)
return full
end
return {
read = function(key, state, params)
local charged, level, lasts = readCells(key)
if not charged then return nil end
local expired = charged + lasts
state.charged, state.level, state.expired = charged, level, expired
local full = fullAt(state, params)
if expired < full and full > now then
local expires = full
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
set('PEXPIRE', key, lastTtl)
end
return charged
end,
blank = function(state, params, time)
state.charged, state.level, state.expired = time, params.capacity * params.window, nil
return state
end,
write = function(key, state, params)
local full = fullAt(state, params)
local lasts = min(full - state.charged, MOST)
writeCells(key, state.expired, full, state.charged, state.level, lasts)
end,
decide = function(state, params, time, cost, take)
local limit, length, capacity = params.limit, params.window, params.capacity
local charged, level = state.charged, state.level
local filled = min(capacity * length, level + (time - charged) * limit)
local missing = cost * length - filled
local wait = missing <= 0 and 0 or ceil(missing / limit)
if take and wait == 0 then
filled = filled - cost * length
charged, level = time, filled
end
local free, reset = floor(filled / length), ceil((capacity * length - filled) / limit)
state.charged, state.level = charged, level
return wait, free, reset
end,
adjust = function(state, params, time, charged, delta, cost)
local full = params.capacity * params.window
local deepest = full - MOST
local before = levelAt(state, params, time)
local missing = max(cost * params.window - (time - charged) * params.limit, 0)
local change = max(delta * params.window, -missing)
local level = max(state.level - change, deepest)
state.level = min(level, full)
return ceil((before - levelAt(state, params, time)) / params.window), true
end,
cells = function(state, params)
return fullAt(state, params), state.level, state.charged
end,
}
end
build.concurrency = function()
local FENCES_PER_MS, CHUNK, FEW, OWN_MEMBERS = 1024, 1000, 16, 3
local format, match = string.format, string.match
local function notHolds(key)
error('ERR not holds of this limiter: ' .. key, 0)
end
local function numberOf(key, score, sign)
local number = (sign or -1) * tonumber(score)
if number % 1 ~= 0 or number < 0 or number > MOST then notHolds(key) end
return number + 0
end
local function parse(key, member)
local fence, cost = match(member, '^(%d+):?(%d*)$')
if not fence then notHolds(key) end
cost = cost == '' and 1 or tonumber(cost)
if cost < 1 or cost > MOST then notHolds(key) end
return fence, cost
end
local function memberOf(fence, cost)
return cost == 1 and format('%.0f', fence) or format('%.0f:%.0f', fence, cost)
end
local function findLabel(key, fence)
for _, member in ipairs(call('ZRANGEBYSCORE', key, '-' .. fence, '-' .. fence)) do
local text = match(member, '^' .. fence .. '=(.*)$')
if text then return member, text end
end
end
local function isPlain(state)
return call('ZCOUNT', state.key, 1, '+inf') == state.total
end
local function passedAt(state, params, time)
if state.passedAt == time then return state.passed end
state.passedAt, state.passed, state.hasExpired = time, 0, false
if state.isStored and state.known + params.window <= time then
state.passed = state.total
elseif state.isStored then
local count = call('ZCOUNT', state.key, 1, time)
state.hasExpired = count > 0
if count > 0 and isPlain(state) then
state.passed = count
elseif count > 0 then
for _, member in ipairs(call('ZRANGEBYSCORE', state.key, 1, time)) do
local _, cost = parse(state.key, member)
state.passed = state.passed + cost
end
end
if state.passed > state.total then notHolds(state.key) end
end
return state.passed
end
local function waitFor(state, time, needed)
local freed, seen = 0, 0
if needed > FEW and isPlain(state) then freed, seen = needed - 1, needed - 1 end
while state.isStored do
local some = call('ZRANGEBYSCORE', state.key, time + 1, '+inf', 'WITHSCORES', 'LIMIT', seen,
min(needed - freed, CHUNK))
for place = 1, #some, 2 do
local _, cost = parse(state.key, some[place])
freed = freed + cost
if freed >= needed then return numberOf(state.key, some[place + 1], 1) - time end
end
if #some == 0 then break end
seen = seen + #some / 2
end
notHolds(state.key)
end
local function resetOf(state, time)
if state.total == state.passed then return 0 end
local newest = call('ZREVRANGEBYSCORE', state.key, '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
return max(numberOf(state.key, newest[2], 1) - time, 0)
end
local function hold(state, params, time, member)
local passed = passedAt(state, params, time)
state.isReplaced = state.isReplaced or state.isStored and passed == state.total
state.total, state.known, state.member = state.total - passed, time, member
end
local function deleteExpired(key, state)
if call('ZCOUNT', key, '-inf', 0) > OWN_MEMBERS then
for _, member in ipairs(call('ZRANGEBYSCORE', key, 1, state.passedAt)) do
local label = findLabel(key, (parse(key, member)))
if label then call('ZREM', key, label) end
end
end
call('ZREMRANGEBYSCORE', key, 1, state.passedAt)
end
local function publish(key, params)
redis.pcall('PUBLISH', params.rest, match(key, '{.*$') or key)
end
return {
read = function(key, state)
local scores = redis.pcall('ZMSCORE', key, 't', 'f', 'k')
if scores.err then notHolds(key) end
local total, fence, known = scores[1], scores[2], scores[3]
state.key, state.isStored, state.isReplaced = key, false, false
state.passedAt, state.hasExpired, state.member = nil, false, nil
state.released, state.label, state.total = nil, nil, 0
state.fence = fence and numberOf(key, fence) or 0
if not total or not known then
local isEmpty = call('EXISTS', key) == 0 or fence and call('ZCOUNT', key, '-inf', '+inf') == 1
if not isEmpty then notHolds(key) end
return nil
end
state.isStored, state.total, state.known = true, numberOf(key, total), numberOf(key, known)
return state.known
end,
blank = function(state, params, time)
state.isReplaced, state.isStored, state.total, state.known = state.isStored, false, 0, time
return state
end,
decide = function(state, params, time, cost, take)
local free = params.limit - (state.total - passedAt(state, params, time))
if cost > free then
return waitFor(state, time, cost - free), free, resetOf(state, time), 0
end
if not take then return 0, free, resetOf(state, time), 0 end
state.fence = max(state.fence + 1, time * FENCES_PER_MS)
hold(state, params, time, memberOf(state.fence, cost))
state.total = state.total + cost
if label ~= '' then state.label = format('%.0f=', state.fence) .. label end
return 0, free - cost, params.window, state.fence
end,
adjust = function(state, params, time, _, delta, cost, fence)
local member = memberOf(fence, cost)
local expires = call('ZMSCORE', state.key, member)[1]
if not expires or tonumber(expires) <= time then return 0 end
if cost > state.total then notHolds(state.key) end
if delta == 0 then
hold(state, params, time, member)
return cost
end
state.released, state.total = member, state.total - cost
return -cost
end,
write = function(key, state, params)
if state.released then
call('ZREM', key, state.released, findLabel(key, (parse(key, state.released))) or '')
call('ZADD', key, 0 - state.total, 't')
return publish(key, params)
end
if state.isReplaced then
call('UNLINK', key)
elseif state.hasExpired then
deleteExpired(key, state)
end
local expires = state.known + params.window
local own = { expires, state.member, 0 - state.total, 't', 0 - state.fence, 'f', 0 - state.known, 'k' }
if state.label then own[9], own[10] = 0 - state.fence, state.label end
call('ZADD', key, unpack(own))
call('PEXPIRE', key, lifetime(expires))
end,
reset = function(key, params)
local fence = redis.pcall('ZMSCORE', key, 'f')[1]
local isDeleted = call('UNLINK', key)
if type(fence) ~= 'string' then return isDeleted end
call('ZADD', key, fence, 'f')
call('PEXPIRE', key, lifetime(now + params.window))
publish(key, params)
return isDeleted
end,
cells = function(state, params)
return state.known + params.window, state.total, 0
end,
holds = function(state, time, most)
if not state.isStored then return 0, {} end
local count = call('ZCOUNT', state.key, time + 1, '+inf')
local newest = call('ZREVRANGEBYSCORE', state.key, '+inf', time + 1, 'WITHSCORES', 'LIMIT', 0, most)
local isLabelled, list = call('ZCOUNT', state.key, '-inf', 0) > OWN_MEMBERS, {}
for place = 1, #newest, 2 do
local fence, cost = parse(state.key, newest[place])
local expires, text, _ = numberOf(state.key, newest[place + 1], 1), nil, nil
if isLabelled then _, text = findLabel(state.key, fence) end
list[#list + 1] = fence
list[#list + 1] = format('%.0f', cost)
list[#list + 1] = format('%.0f', expires)
list[#list + 1] = text or ''
end
return count, list
end,
}
end
local function buildRecords()
local MOST_RECORDS, FEW_RECORDS, SAMPLED, SAMPLED_IF_FULL = 10000, 64, 3, 32
local ID, ID_SIZE, MARK, MARK_SIZE = '>BI7I7I7I7', 29, '>BI7', 8
local HOLD_ID, HOLD_ID_SIZE = '>BI7I7I7I7I7', 36
local BLOCK, BLOCK_SIZE, BLOCK_FIELD, MOST_BLOCKS = '>BI7I7I7I4', 26, 'b', 2 ^ 32 - 1
local LEASES, LEASE, LEASE_SIZE, LEASES_FIELD = 108, '>I6I7I7I7I7I7I7', 48, 'l'
local toBytes, fromBytes = struct.pack, struct.unpack
local records = {}
local function notRecords(key)
error('ERR not records of this limiter: ' .. key, 0)
end
function records.name(text)
local hex = redis.sha1hex(text)
local one, other = tonumber(string.sub(hex, 1, 12), 16), tonumber(string.sub(hex, 13, 24), 16)
return toBytes('>I6I6', one, other)
end
function records.idBytes(expiresMs, at, free, reset, fence)
if fence then return toBytes(HOLD_ID, 105, expiresMs, at, free, reset, fence) end
return toBytes(ID, 105, expiresMs, at, free, reset)
end
function records.markBytes(expiresMs)
return toBytes(MARK, 114, expiresMs)
end
local isSize = { [ID_SIZE] = true, [HOLD_ID_SIZE] = true, [MARK_SIZE] = true, [BLOCK_SIZE] = true }
local function isLeases(value)
return string.byte(value) == LEASES and (#value - MARK_SIZE) % LEASE_SIZE == 0
end
local function untilOf(key, value)
if not isSize[#value] and not isLeases(value) then notRecords(key) end
local _, expiresMs = fromBytes(MARK, value)
return expiresMs
end
function records.find(key, name)
local value = redis.pcall('HGET', key, name)
if not value then return nil end
if type(value) ~= 'string' then notRecords(key) end
return untilOf(key, value) > now and value or nil
end
function records.decided(key, value, isHold)
if #value ~= (isHold and HOLD_ID_SIZE or ID_SIZE) then notRecords(key) end
local _, _, at, free, reset, fence = fromBytes(isHold and HOLD_ID or ID, value)
return at, free, reset, isHold and fence or nil
end
local function makeRoom(key, count)
local isFull = count >= MOST_RECORDS
local some = call('HRANDFIELD', key, isFull and SAMPLED_IF_FULL or SAMPLED, 'WITHVALUES')
local expired, id = {}, nil
for place = 1, #some, 2 do
local value = some[place + 1]
if untilOf(key, value) <= now then
expired[#expired + 1] = some[place]
elseif #value == ID_SIZE or #value == HOLD_ID_SIZE then
id = some[place]
end
end
if isFull and #expired == 0 then expired[1] = id end
if #expired > 0 then call('HDEL', key, unpack(expired)) end
return not isFull or #expired > 0
end
local function write(key, name, value, expiresMs)
call('HSET', key, name, value)
local ttl = lifetime(expiresMs)
if call('PTTL', key) < tonumber(ttl) then call('PEXPIRE', key, ttl) end
end
function records.store(key, name, value, expiresMs)
local count = call('HLEN', key)
if count > FEW_RECORDS and not makeRoom(key, count) then return false end
write(key, name, value, expiresMs)
return true
end
function records.block(key)
local value = redis.pcall('HGET', key, BLOCK_FIELD)
if not value then return nil end
if type(value) ~= 'string' or #value ~= BLOCK_SIZE then notRecords(key) end
local _, _, startMs, endMs, count = fromBytes(BLOCK, value)
return startMs, endMs, count
end
function records.storeBlock(key, startMs, endMs, count, expiresMs)
local value = toBytes(BLOCK, 98, expiresMs, startMs, endMs, min(count, MOST_BLOCKS))
write(key, BLOCK_FIELD, value, expiresMs)
end
function records.leases(key)
local value = redis.pcall('HGET', key, LEASES_FIELD)
if not value then return nil end
if type(value) ~= 'string' or not isLeases(value) then notRecords(key) end
local leases = {}
for from = MARK_SIZE + 1, #value, LEASE_SIZE do
local id, units, refunded, reported, start, ends, number = fromBytes(LEASE, value, from)
leases[#leases + 1] = {
id = id, units = units, refunded = refunded, reported = reported, start = start, ends = ends,
number = number,
}
end
return leases
end
function records.storeLeases(key, leases, params)
if #leases == 0 then return call('HDEL', key, LEASES_FIELD) end
local expiresMs = params.algorithm.leaves(params, leases[#leases].ends)
local parts = { toBytes(MARK, LEASES, expiresMs) }
for _, lease in ipairs(leases) do
parts[#parts + 1] = toBytes(
LEASE, lease.id, lease.units, lease.refunded, lease.reported, lease.start, lease.ends,
lease.number
)
end
write(key, LEASES_FIELD, table.concat(parts), expiresMs)
end
function records.deleteBlock(key)
return call('HDEL', key, BLOCK_FIELD)
end
return records
end
local policies, built = {}, {}
local function blockOf(text)
local first, factor, longest, forget = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
if not first then error('ERR expected the numbers of blocks, got ' .. text) end
return { first = whole(first), factor = whole(factor), longest = whole(longest), forget = whole(forget) }
end
local function policyOf(text)
local name, limit, window, bucket, capacity, rest =
string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+) ?(.*)$')
if not build[name] then error('ERR expected a policy, got ' .. text) end
built[name] = built[name] or build[name]()
local params = {
limit = whole(limit), window = whole(window), bucket = whole(bucket),
capacity = whole(capacity), algorithm = built[name],
most = floor(MOST / window), rest = rest,
}
if rest == 'lease' then
params.isLeased = true
elseif rest ~= '' and name ~= 'concurrency' then
params.block = blockOf(rest)
end
params.hasRecords = params.block ~= nil or params.isLeased
if min(params.limit, params.window, params.bucket, params.capacity) < 1 then
error('ERR expected a policy, got ' .. text)
end
return params
end
local function policyAt(place)
return policies[place] or error('ERR expected the place of a policy')
end
local reply, size = { now }, 1
local nextKey, keys = 1, KEYS
local LARGE = 2^52
local MOST_INSPECTED = 1000
local function addReply(value)
size = size + 1
if type(value) == 'number' and (value > LARGE or value < -LARGE) then
value = string.format('%.0f', value)
end
reply[size] = value
end
local function replyList(numbers)
local last = #numbers
if max(numbers[last - 1], numbers[last]) > LARGE then
for place = 1, last do numbers[place] = string.format('%.0f', numbers[place]) end
end
addReply(numbers)
end
local function open(key, params, state)
local known, length = params.algorithm.read(key, state, params), params.window
local time, isHeld = now, known ~= nil
if isHeld and known > now then
if known - now > length then isHeld = false else time = known end
end
return isHeld and state or nil, time
end
local function replyLimit(time, wait, free, reset, more)
if time ~= now then addReply(now - time) end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
reply[size + 1] = string.format('%.0f', wait)
reply[size + 2] = string.format('%.0f', free)
reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
if more then addReply(more) end
end
local function replyTimed(time, wait, free, reset, more)
addReply(time)
addReply(wait)
addReply(free)
addReply(reset)
if more then addReply(more) end
end
local function checkWait(wait, key)
if not (wait == 0 or wait >= 1 and wait <= MOST) then
error('ERR not a value of this limiter: ' .. key, 0)
end
end
local records
local function findBlock(name, params, time)
records = records or buildRecords()
local startMs, endMs, count = records.block(name)
if not startMs or startMs - time > params.window or time - endMs > params.block.forget then
return 0, 0
end
return endMs, count
end
local function lengthOf(block, count)
local length = block.first
if block.factor > 1 then
for _ = 1, count do
if length >= block.longest then break end
length = length * block.factor
end
end
return min(length, block.longest)
end
local function storeBlock(name, params, startMs, endMs, count)
records.storeBlock(name, startMs, endMs, count, endMs + params.block.forget + 1)
end
local function withBlock(endMs, time, wait, free, reset)
if endMs <= time then return wait, free, reset, 0 end
return max(wait, endMs - time), 0, max(reset, endMs - time), endMs
end
local function startBlock(name, params, time, count)
local endMs = time + lengthOf(params.block, count)
storeBlock(name, params, time, endMs, count + 1)
return endMs
end
local MOST_LEASES = 128
local function openLeases(name, state, params, time)
records = records or buildRecords()
local stored = records.leases(name)
if not stored then return state, nil end
local live, units, isChanged, isRecorded = {}, 0, false, false
for _, lease in ipairs(stored) do
if lease.ends - time > params.window then
isChanged = true
elseif lease.ends > time then
live[#live + 1], units = lease, units + lease.units - lease.refunded
else
isChanged = true
local spent = lease.units - lease.refunded
if spent > 0 and params.algorithm.leaves(params, lease.ends) > time then
state = state or params.algorithm.blank({}, params, lease.ends)
params.algorithm.record(state, params, lease.ends, spent)
isRecorded = true
end
end
end
return state, { list = live, units = units, isChanged = isChanged, isRecorded = isRecorded }
end
local function writeLeased(key, name, state, params, leases)
if leases.isRecorded then params.algorithm.write(key, state, params) end
if leases.isChanged then records.storeLeases(name, leases.list, params) end
end
local function decideLeased(state, params, time, cost, take, leases)
local algorithm = params.algorithm
if not leases or leases.units == 0 then return algorithm.decide(state, params, time, cost, take) end
local rest = setmetatable({ limit = params.limit - leases.units }, { __index = params })
local fits = cost <= rest.limit
local wait, free, reset = algorithm.decide(state, rest, time, fits and cost or 0, take and fits)
local last = 0
local lent = leases.units
for _, lease in ipairs(leases.list) do
last = algorithm.leaves(params, lease.ends) - time
if not fits and lent > params.limit - cost then wait = last end
lent = lent - (lease.units - lease.refunded)
end
return wait, free, max(reset, last)
end
local function findLease(leases, id)
for place, lease in ipairs(leases and leases.list or {}) do
if lease.id == id then return place, lease end
end
end
local function openLeased(first, params)
local state, time = open(keys[first], params, {})
local leases
state, leases = openLeases(keys[first + 1], state, params, time)
state = state or params.algorithm.blank({}, params, time)
return state, time, leases or { list = {}, units = 0 }
end
local function lend(first, params, id, number, want, length, thousandths, spent, acked, ends)
local state, time, leases = openLeased(first, params)
local place, lease = findLease(leases, id)
if lease and number <= lease.number then
addReply(number == lease.number and lease.units or 0)
return addReply(lease.start)
end
local used, kept = 0, 0
if lease then
table.remove(leases.list, place)
leases.units = leases.units - (lease.units - lease.refunded)
leases.isChanged, used = true, min(max(spent - lease.reported, 0), lease.units)
kept = min(lease.units - used, want)
used = max(used - lease.refunded, 0)
elseif ends >= time then
used = max(spent - acked, 0)
end
if used > 0 then
params.algorithm.record(state, params, time, used)
leases.isRecorded = true
end
leases.units = leases.units + kept
local _, free = decideLeased(state, params, time, 0, false, leases)
local units = kept + max(min(want - kept, floor(free * thousandths / 1000)), 0)
if #leases.list >= MOST_LEASES then units = 0 end
if units > 0 then
local own = { id = id, units = units, refunded = 0, reported = spent, number = number }
own.start, own.ends = time, time + length
leases.list[#leases.list + 1], leases.isChanged = own, true
table.sort(leases.list, function(a, b) return a.ends < b.ends end)
end
writeLeased(keys[first], keys[first + 1], state, params, leases)
addReply(units)
addReply(time)
end
local function adjustLeased(state, params, time, charged, delta, id, leases)
if params.algorithm.leaves(params, charged) <= time then return 0 end
if delta > 0 then
leases.isRecorded = true
return params.algorithm.record(state, params, time, delta)
end
local _, lease = findLease(leases, id)
if lease and charged > lease.start then
local units = min(-delta, lease.units - lease.refunded)
lease.refunded, leases.isChanged = lease.refunded + units, true
return -units
end
local change = params.algorithm.removeOldest(state, params, time, -delta)
leases.isRecorded = leases.isRecorded or change < 0
return change
end
local function resetLeased(first, params)
local _, time, leases = openLeased(first, params)
local deleted = call('UNLINK', keys[first], keys[first + 1])
records.storeLeases(keys[first + 1], leases.list, params)
return deleted
end
local scratch = {}
local denial = {}
local function decideOne(first, legs, take, addResult)
local params, key = legs[1], keys[first]
if denial.legs == legs and denial.key == key then
addResult(denial.time, denial.wait, denial.free, denial.reset)
return false
end
local algorithm = params.algorithm
local state, time = open(key, params, scratch)
local leases
if params.isLeased then state, leases = openLeases(keys[first + 1], state, params, time) end
if not state then state = algorithm.blank(scratch, params, time) end
local endMs, blocks = 0, 0
if params.block then endMs, blocks = findBlock(keys[first + 1], params, time) end
take = take and endMs <= time
local wait, free, reset, more = decideLeased(state, params, time, legs[2], take, leases)
if wait ~= 0 then checkWait(wait, key) end
if take and wait == 0 then
algorithm.write(key, state, params)
if leases then writeLeased(key, keys[first + 1], state, params, leases) end
end
if params.block then
if take and wait ~= 0 then endMs = startBlock(keys[first + 1], params, time, blocks) end
wait, free, reset, more = withBlock(endMs, time, wait, free, reset)
end
if params.isLeased and wait ~= 0 then
denial = { legs = legs, key = key, time = time, wait = wait, free = free, reset = reset }
end
addResult(time, wait, free, reset, more)
return wait == 0
end
local function decideAll(first, legs, take, addResult)
local states, times, results, fits, count = {}, {}, {}, true, #legs / 2
local blocks, leases = {}, {}
for leg = 1, count do
local params, name, into = legs[2 * leg - 1], keys[first + count + leg - 1], {}
local state, time = open(keys[first + leg - 1], params, into)
if params.isLeased then state, leases[leg] = openLeases(name, state, params, time) end
state = state or params.algorithm.blank(into, params, time)
states[leg], times[leg] = state, time
results[leg] = { decideLeased(state, params, time, legs[2 * leg], false, leases[leg]) }
checkWait(results[leg][1], keys[first + leg - 1])
if params.block then
local endMs, inRow = findBlock(name, params, time)
results[leg] = { withBlock(endMs, time, unpack(results[leg])) }
blocks[leg] = endMs <= time and inRow or nil
end
fits = fits and results[leg][1] == 0
end
for leg, inRow in pairs(take and not fits and blocks or {}) do
if results[leg][1] > 0 then
local endMs = startBlock(keys[first + count + leg - 1], legs[2 * leg - 1], times[leg], inRow)
results[leg] = { withBlock(endMs, times[leg], unpack(results[leg])) }
end
end
for leg = 1, take and fits and count or 0 do
local params = legs[2 * leg - 1]
results[leg] = { decideLeased(states[leg], params, times[leg], legs[2 * leg], true, leases[leg]) }
if params.block then results[leg][4] = 0 end
end
for leg = 1, count do
local params, key = legs[2 * leg - 1], keys[first + leg - 1]
if take and fits then
params.algorithm.write(key, states[leg], params)
if leases[leg] then
writeLeased(key, keys[first + count + leg - 1], states[leg], params, leases[leg])
end
end
addResult(times[leg], unpack(results[leg]))
end
return fits
end
local function nameOf(kind, id, first, legs)
records = records or buildRecords()
local parts = { kind, #id, ':', id }
for leg = 1, #legs / 2 do
local key = keys[first + leg - 1]
parts[#parts + 1] = string.format(' %d:%s %.0f', #key, key, legs[2 * leg])
end
return records.name(table.concat(parts))
end
local function decideOnce(first, legs, rememberMs, id)
local count, isHeld = #legs / 2, true
local name, held = nameOf('i', id, first, legs), {}
for leg = 1, count do
held[leg] = records.find(keys[first + count + leg - 1], name)
isHeld = isHeld and held[leg]
end
if isHeld then
addReply(0)
for leg = 1, count do
local params = legs[2 * leg - 1]
local at, free, reset, fence =
records.decided(keys[first + count + leg - 1], held[leg], params.algorithm.holds)
replyTimed(at, 0, free, reset, fence or params.block and 0)
end
return
end
addReply(1)
local results = {}
local function addResult(...)
results[#results + 1] = { ... }
replyTimed(...)
end
local kind = count == 1 and decideOne or decideAll
if not kind(first, legs, true, addResult) then return end
local expiresMs = now + rememberMs
for leg = 1, count do
local time, _, free, reset, more = unpack(results[leg])
local fence = legs[2 * leg - 1].algorithm.holds and more
local value = records.idBytes(expiresMs, time, free, reset, fence)
records.store(keys[first + count + leg - 1], name, value, expiresMs)
end
end
local function forget(first, legs, _, id)
local count, name, done = #legs / 2, nameOf('i', id, first, legs), 0
for leg = 1, count do done = done + call('HDEL', keys[first + count + leg - 1], name) end
addReply(done)
end
local function changed(key, name, params, charged, delta, cost, fence)
local state, time = open(key, params, {})
if params.isLeased and fence ~= 0 then
local leases
state, leases = openLeases(name, state, params, time)
state, leases = state or params.algorithm.blank({}, params, time), leases or { list = {}, units = 0 }
local change = adjustLeased(state, params, time, charged, delta, fence, leases)
return function() writeLeased(key, name, state, params, leases) end, change
end
if not state then return nil, 0 end
local change, isChanged = params.algorithm.adjust(state, params, time, charged, delta, cost, fence)
if change == 0 and not isChanged then return nil, 0 end
return function() params.algorithm.write(key, state, params) end, change
end
local function adjust(first, params, charged, delta, cost, fence)
local write, change = changed(keys[first], keys[first + 1], params, charged, delta, cost, fence)
if write then write() end
addReply(change)
end
local function spend(first, legs, untilMs, mostMs, id)
local count, name, writes, changes = #legs / 5, nameOf('r', id, first, {}), {}, {}
local memory = keys[first + count]
if records.find(memory, name) then return addReply(0) end
for leg = 1, count do
local key, own = keys[first + leg - 1], keys[first + count + leg - 1]
writes[leg], changes[leg] = changed(key, own, unpack(legs, 5 * leg - 4, 5 * leg))
end
local expiresMs = min(untilMs, now + 2 * mostMs)
if expiresMs > now and not records.store(memory, name, records.markBytes(expiresMs), expiresMs) then
return addReply(0)
end
addReply(1)
for leg = 1, count do
if writes[leg] then writes[leg]() end
addReply(changes[leg])
end
end
local function unspend(first, id)
addReply(call('HDEL', keys[first], nameOf('r', id, first, {})))
end
local function inspect(first, params)
local state, time = open(keys[first], params, {})
local leases
if params.isLeased then state, leases = openLeases(keys[first + 1], state, params, time) end
if leases and leases.units > 0 then state = state or params.algorithm.blank({}, params, time) end
local free, reset, _, endMs, blocks = 0, 0, 0, 0, 0
if params.block then endMs, blocks = findBlock(keys[first + 1], params, time) end
if endMs > 0 and not state then state = params.algorithm.blank({}, params, time) end
if state then _, free, reset = decideLeased(state, params, time, 0, false, leases) end
if reset == 0 and endMs == 0 then return addReply(0) end
replyTimed(1, time, free, reset)
local a, b, c = params.algorithm.cells(state, params)
addReply(a)
addReply(b)
addReply(c)
local count, parts = 0, {}
if params.algorithm.entries then
count, parts = params.algorithm.entries(state, params, time, MOST_INSPECTED)
end
addReply(count)
addReply(#parts)
for _, part in ipairs(parts) do
addReply(part.base)
addReply(part.before)
replyList(part.numbers)
end
if params.algorithm.holds then
local holds, newest = params.algorithm.holds(state, time, MOST_INSPECTED)
addReply(holds)
addReply(newest)
elseif params.block then
addReply(endMs)
addReply(blocks)
elseif params.isLeased then
local lent = {}
for _, lease in ipairs(leases and leases.list or {}) do
for _, number in ipairs({ lease.id, lease.units - lease.refunded, lease.ends }) do
lent[#lent + 1] = string.format('%.0f', number)
end
end
addReply(lent)
end
end
local function reset(first, params)
if not params then return addReply(call('UNLINK', keys[first], keys[first + 1])) end
if params.isLeased then return addReply(resetLeased(first, params)) end
addReply(params.algorithm.reset(keys[first], params) + call('UNLINK', keys[first + 1]))
end
local function block(first, params, length)
records = records or buildRecords()
if length == 0 then return addReply(records.deleteBlock(keys[first])) end
local _, count = findBlock(keys[first], params, now)
storeBlock(keys[first], params, now, now + length, count)
addReply(1)
end
local function errorText(problem, key)
local text = type(problem) == 'table' and problem.err or tostring(problem)
if string.find(text, 'bad argument') or string.find(text, 'attempt to') then
return 'ERR not a value of this limiter: ' .. key .. ' (' .. text .. ')'
end
return text
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
addReply('!' .. errorText(problem, keys[nextKey]))
done, nextKey = done + 1, nextKey + each
end
end
end
local function legsOf(numbers, from, size)
local legs = {}
for at = from, #numbers, size do
legs[#legs + 1] = policyAt(numbers[at])
for place = at + 1, at + size - 1 do legs[#legs + 1] = numbers[place] end
if size == 2 and numbers[at + 1] < 0 then error('ERR expected a cost, got ' .. numbers[at + 1]) end
end
return legs
end
local function doRun(place)
local text, numbers = ARGV[place], {}
local kind = string.match(text, '^%l+')
for word in string.gmatch(text, ' (%S+)') do numbers[#numbers + 1] = whole(word) end
if kind == 'reset' then
repeatedly(numbers[1], 2, reset, numbers[2] and policyAt(numbers[2]))
elseif kind == 'inspect' then
local params = policyAt(numbers[1])
repeatedly(1, params.hasRecords and 2 or 1, inspect, params)
elseif kind == 'lend' then
repeatedly(1, 2, lend, policyAt(numbers[1]), unpack(numbers, 2, 9))
elseif kind == 'block' then
repeatedly(1, 1, block, policyAt(numbers[1]), numbers[2])
elseif kind == 'label' then
label = ARGV[place + 1]
return place + 2
elseif kind == 'adjust' then
local params = policyAt(numbers[1])
repeatedly(1, params.isLeased and 2 or 1, adjust, params, unpack(numbers, 2, 5))
elseif kind == 'unspend' then
repeatedly(1, 1, unspend, ARGV[place + 1])
return place + 2
elseif kind == 'spend' then
local mostMs, untilMs = table.remove(numbers), table.remove(numbers)
local legs, count, isLeased = legsOf(numbers, 1, 5), #numbers / 5, false
for leg = 1, count do isLeased = isLeased or legs[5 * leg - 4].isLeased end
local each = isLeased and 2 * count or count + 1
repeatedly(1, each, spend, legs, untilMs, mostMs, ARGV[place + 1])
return place + 2
elseif kind == 'once' or kind == 'forget' then
local rememberMs, legs = table.remove(numbers), nil
legs = legsOf(numbers, 2, 2)
for number = 1, numbers[1] do
repeatedly(1, #legs, kind == 'once' and decideOnce or forget, legs, rememberMs, ARGV[place + number])
end
return place + numbers[1] + 1
else
local legs, hasRecords = legsOf(numbers, 2, 2), false
for leg = 1, #legs / 2 do hasRecords = hasRecords or legs[2 * leg - 1].hasRecords end
repeatedly(numbers[1], hasRecords and #legs or #legs / 2, #legs == 2 and decideOne or decideAll, legs, kind == 'check', replyLimit)
end
return place + 1
end
local count = whole(ARGV[2])
for place = 1, count do policies[place] = policyOf(ARGV[2 + place]) end
local place = 3 + count
while place <= #ARGV do place = doRun(place) end
return reply`,
  },
  fixedWindow: {
    sha: '83f62bfdf632bd199b66af1a1dd5d07804681607',
    text: `local MOST, LARGE = 9007199254740991, 2 ^ 52
local KEYS, ARGV, math, call, set = KEYS, ARGV, math, redis.call, redis.pcall
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local now, outliveMs = nil, 0
if ARGV[1] == '' then
local time = call('TIME')
local micros = time[2] + 0
now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
now, outliveMs = tonumber(ARGV[1]), 3600000
if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
error('ERR expected a time in ms, got ' .. ARGV[1])
end
end
local length = tonumber(ARGV[2])
if not (length and length % 1 == 0 and length >= 1 and length <= MOST) then
error('ERR expected a window in ms, got ' .. ARGV[2])
end
local reply, size = { now, nil, nil, nil }, 1
local lastExpires, lastTtl
local limit, cost, third, take, isValid
local handed
local each = 2
for place = 1, #KEYS do
local key = KEYS[place]
if place == 1 or #ARGV > 2 + each then
local at = 3 + (place - 1) * each
limit, cost, third = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), each < 3 and 1 or tonumber(ARGV[at + 2])
isValid = limit and limit % 1 == 0 and limit >= 1 and limit <= MOST
and cost and cost % 1 == 0 and cost <= MOST and cost >= -1 - MOST
and third and third % 1 == 0 and third >= 1 and third <= MOST
take = isValid and cost >= 0
if isValid and not take then cost = -1 - cost end
end
local isFast = isValid and not (handed and handed[key])
local known, newest, used, expired
if isFast then
local value = set('GET', key)
if value then
local isCells, a, b, c, more = pcall(cmsgpack.unpack, value)
isCells = isCells and more == nil
and type(a) == 'number' and type(b) == 'number' and type(c) == 'number'
and a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
and a % 1 + b % 1 + c % 1 == 0
if isCells and b >= 0 and b * length <= MOST then
newest, used, known, expired = a, b, a * length, (a + 1) * length
else
isCells = false
end
isFast = isCells
end
end
if isFast then
local time, isHeld = now, known ~= nil
if isHeld and known > now then
if known - now > length then isHeld = false else time = known end
end
if not isHeld then newest, used, expired = floor(time / length), 0, nil end
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then newest, used = window, 0 end
local wait = 0
if used + cost > limit then
wait = left
elseif take then
used = used + cost
end
local free, reset = limit - used, used > 0 and left or 0
if take and wait == 0 then
local a, b, c, expires = newest, used, 0, (newest + 1) * length
local written
if expired == expires then
written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
isFast = not written.err
end
isFast = isFast and (wait == 0 or wait >= 1 and wait <= MOST)
if isFast then
if time ~= now then
size = size + 1
reply[size] = now - time
end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
reply[size + 1] = string.format('%.0f', wait)
reply[size + 2] = string.format('%.0f', free)
reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
end
end
if not isFast then
handed = handed or {}
handed[key] = true
size = size + 1
reply[size] = '>'
end
end
return reply`,
  },
  slidingCounter: {
    sha: '7024f60ef28e543764b3ef105ea8ef07fe717978',
    text: `local MOST, LARGE = 9007199254740991, 2 ^ 52
local KEYS, ARGV, math, call, set = KEYS, ARGV, math, redis.call, redis.pcall
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local now, outliveMs = nil, 0
if ARGV[1] == '' then
local time = call('TIME')
local micros = time[2] + 0
now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
now, outliveMs = tonumber(ARGV[1]), 3600000
if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
error('ERR expected a time in ms, got ' .. ARGV[1])
end
end
local length = tonumber(ARGV[2])
if not (length and length % 1 == 0 and length >= 1 and length <= MOST) then
error('ERR expected a window in ms, got ' .. ARGV[2])
end
local reply, size = { now, nil, nil, nil }, 1
local lastExpires, lastTtl
local limit, cost, third, take, isValid
local handed
local each = 2
for place = 1, #KEYS do
local key = KEYS[place]
if place == 1 or #ARGV > 2 + each then
local at = 3 + (place - 1) * each
limit, cost, third = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), each < 3 and 1 or tonumber(ARGV[at + 2])
isValid = limit and limit % 1 == 0 and limit >= 1 and limit <= MOST
and cost and cost % 1 == 0 and cost <= MOST and cost >= -1 - MOST
and third and third % 1 == 0 and third >= 1 and third <= MOST
take = isValid and cost >= 0
if isValid and not take then cost = -1 - cost end
end
local isFast = isValid and not (handed and handed[key])
local known, newest, current, previous, expired
if isFast then
local value = set('GET', key)
if value then
local isCells, a, b, c, more = pcall(cmsgpack.unpack, value)
isCells = isCells and more == nil
and type(a) == 'number' and type(b) == 'number' and type(c) == 'number'
and a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
and a % 1 + b % 1 + c % 1 == 0
if isCells and b >= 0 and b * length <= MOST and c * length <= MOST then
newest, current, previous, known, expired = a, b, c, a * length, (a + 2) * length
else
isCells = false
end
isFast = isCells
end
end
if isFast then
local time, isHeld = now, known ~= nil
if isHeld and known > now then
if known - now > length then isHeld = false else time = known end
end
if not isHeld then newest, current, previous, expired = floor(time / length), 0, 0, nil end
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then
previous = newest == window - 1 and current or 0
newest, current = window, 0
end
local counting, wait = current, 0
if previous > 0 then counting = counting + ceil(previous * left / length) end
if counting + cost > limit then
local room = limit - current - cost
if room >= 0 then
wait = left - floor(room * length / previous)
else
wait = left + length - floor((limit - cost) * length / current)
end
elseif take then
counting, current = counting + cost, current + cost
end
local free, reset = limit - counting, 0
if current > 0 then
reset = left + length
elseif previous > 0 then
reset = left
end
if take and wait == 0 then
local a, b, c, expires = newest, current, previous, (newest + 2) * length
local written
if expired == expires then
written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
isFast = not written.err
end
isFast = isFast and (wait == 0 or wait >= 1 and wait <= MOST)
if isFast then
if time ~= now then
size = size + 1
reply[size] = now - time
end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
reply[size + 1] = string.format('%.0f', wait)
reply[size + 2] = string.format('%.0f', free)
reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
end
end
if not isFast then
handed = handed or {}
handed[key] = true
size = size + 1
reply[size] = '>'
end
end
return reply`,
  },
  tokenBucket: {
    sha: '46e4ff010cfdd709366a1cfd3f93f4cae0378ec7',
    text: `local MOST, LARGE = 9007199254740991, 2 ^ 52
local KEYS, ARGV, math, call, set = KEYS, ARGV, math, redis.call, redis.pcall
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local now, outliveMs = nil, 0
if ARGV[1] == '' then
local time = call('TIME')
local micros = time[2] + 0
now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
now, outliveMs = tonumber(ARGV[1]), 3600000
if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
error('ERR expected a time in ms, got ' .. ARGV[1])
end
end
local length = tonumber(ARGV[2])
if not (length and length % 1 == 0 and length >= 1 and length <= MOST) then
error('ERR expected a window in ms, got ' .. ARGV[2])
end
local reply, size = { now, nil, nil, nil }, 1
local lastExpires, lastTtl
local limit, cost, third, take, isValid
local handed
local each = 3
for place = 1, #KEYS do
local key = KEYS[place]
if place == 1 or #ARGV > 2 + each then
local at = 3 + (place - 1) * each
limit, cost, third = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), each < 3 and 1 or tonumber(ARGV[at + 2])
isValid = limit and limit % 1 == 0 and limit >= 1 and limit <= MOST
and cost and cost % 1 == 0 and cost <= MOST and cost >= -1 - MOST
and third and third % 1 == 0 and third >= 1 and third <= MOST
take = isValid and cost >= 0
if isValid and not take then cost = -1 - cost end
end
local isFast = isValid and not (handed and handed[key])
local capacity, known, charged, level, expired = third, nil, nil, nil, nil
if isFast then
local value = set('GET', key)
if value then
local isCells, a, b, c, more = pcall(cmsgpack.unpack, value)
isCells = isCells and more == nil
and type(a) == 'number' and type(b) == 'number' and type(c) == 'number'
and a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
and a % 1 + b % 1 + c % 1 == 0
isFast = isCells
if isCells then
charged, level, known, expired = a, b, a, a + c
local full = charged + ceil((capacity * length - level) / limit)
if expired < full and full > now then
local expires = full
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
set('PEXPIRE', key, lastTtl)
end
end
end
end
if isFast then
local time, isHeld = now, known ~= nil
if isHeld and known > now then
if known - now > length then isHeld = false else time = known end
end
if not isHeld then charged, level, expired = time, capacity * length, nil end
local filled = min(capacity * length, level + (time - charged) * limit)
local missing = cost * length - filled
local wait = missing <= 0 and 0 or ceil(missing / limit)
if take and wait == 0 then
filled = filled - cost * length
charged, level = time, filled
end
local free, reset = floor(filled / length), ceil((capacity * length - filled) / limit)
if take and wait == 0 then
local full = charged + ceil((capacity * length - level) / limit)
local a, b, c, expires = charged, level, min(full - charged, MOST), full
local written
if expired == expires then
written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
isFast = not written.err
end
isFast = isFast and (wait == 0 or wait >= 1 and wait <= MOST)
if isFast then
if time ~= now then
size = size + 1
reply[size] = now - time
end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
reply[size + 1] = string.format('%.0f', wait)
reply[size + 2] = string.format('%.0f', free)
reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
end
end
if not isFast then
handed = handed or {}
handed[key] = true
size = size + 1
reply[size] = '>'
end
end
return reply`,
  },
  log: {
    sha: '4464b98012f9446630e706e013c1cf8083c705da',
    text: `local MOST, LARGE = 9007199254740991, 2 ^ 52
local KEYS, ARGV, math, call, set = KEYS, ARGV, math, redis.call, redis.pcall
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local now, outliveMs = nil, 0
if ARGV[1] == '' then
local time = call('TIME')
local micros = time[2] + 0
now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
now, outliveMs = tonumber(ARGV[1]), 3600000
if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
error('ERR expected a time in ms, got ' .. ARGV[1])
end
end
local length = tonumber(ARGV[2])
if not (length and length % 1 == 0 and length >= 1 and length <= MOST) then
error('ERR expected a window in ms, got ' .. ARGV[2])
end
local reply, size = { now, nil, nil, nil }, 1
local lastExpires, lastTtl
local limit, cost, third, take, isValid
local handed
local FULL, MOST_IN_STRING, SLACK_MS, ROOM = 36, 252, 900, 4
local HEADER, HEADER_SIZE = '>BBI7I7I7I7', 30
local LONG_HEADER, LONG_HEADER_SIZE = '>BBI7I7I7I7I7I7I7', 51
local REST, REST_SIZE = '>I7I7I7I4I4I4BI4I7BBI7B', 55
local ENTRY_FORMATS = '>I1I1>I2I2>I3I3>I4I4>I5I5>I6I6>I7I7'
local toBytes, fromBytes = struct.pack, struct.unpack
local each = 3
for place = 1, #KEYS do
local key = KEYS[place]
if place == 1 or #ARGV > 2 + each then
local at = 3 + (place - 1) * each
limit, cost, third = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), each < 3 and 1 or tonumber(ARGV[at + 2])
isValid = limit and limit % 1 == 0 and limit >= 1 and limit <= MOST
and cost and cost % 1 == 0 and cost <= MOST and cost >= -1 - MOST
and third and third % 1 == 0 and third >= 1 and third <= MOST
take = isValid and cost >= 0
if isValid and not take then cost = -1 - cost end
end
local isFast = isValid and not (handed and handed[key])
local bucket, known = third, nil
local isLog, isLong, isStored, bytes = true, false, false, nil
local width, entrySize, format, largest, base, count
local expired, latest, before, oldest, first, newest, total
if isFast then
bytes = set('MGET', key)[1]
if bytes then
isStored = true
local mark, isWidth
isLog = #bytes >= HEADER_SIZE
if isLog then
mark, width, expired, latest, base, before = fromBytes(HEADER, bytes)
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
count = (#bytes - HEADER_SIZE) / entrySize
isLog = mark == 115 and isWidth and count % 1 == 0 and count <= MOST_IN_STRING
end
if isLog then
oldest, first, newest, total = latest, before, latest, before
if count > 0 then
oldest, first = fromBytes(format, bytes, HEADER_SIZE + 1)
newest, total = fromBytes(format, bytes, #bytes - entrySize + 1)
oldest, newest = base + oldest, base + newest
end
isLog = isLog and before <= first and first <= total and total <= MOST
and oldest <= newest and newest <= latest and latest <= MOST
end
else
bytes = set('HGET', key, 'h')
isLong = type(bytes) == 'string'
if isLong then
local mark
isLog = #bytes >= LONG_HEADER_SIZE
if isLog then
mark, width, expired, latest, before, oldest, first, newest, total = fromBytes(LONG_HEADER, bytes)
isLog = mark == 104
isLog = isLog and before <= first and first <= total and total <= MOST
and oldest <= newest and newest <= latest and latest <= MOST
end
else
isLog = not bytes and set('EXISTS', key) == 0
end
end
isFast = isLog
if isLog and latest then
local stamp = latest
local start = stamp - bucket + 1
known = start
end
end
if isFast then
local time, isHeld = now, known ~= nil
if isHeld and known > now then
if known - now > length then isHeld = false else time = known end
end
if not isHeld then
isLong, isStored, count, expired = false, false, 0, time
before, oldest, first, newest, total = 0, time, 0, time, 0
end
local edge = time - length
local isEmpty = not isLong and count == 0
local isPassed = not isEmpty and newest <= edge
local hasPassed = not isEmpty and oldest <= edge
local headBytes, headFrom, headSize, headFormat, headCount = bytes, HEADER_SIZE + 1, entrySize, format, count
local headBase, headOrigin, skipped = base, 0, 0
local origin, upTo, segments, dead, number, filed = 0, nil, nil, nil, nil, 0
local closedNumber, closedBase, closedCount, closedWidth, closedOrigin
if isLong and (hasPassed and not isPassed or take and cost <= limit - (total - before)) then
isFast = #bytes >= LONG_HEADER_SIZE + REST_SIZE and not isPassed
if isFast then
base, origin, upTo, segments, dead, number, filed, closedNumber, closedBase, closedCount,
closedWidth, closedOrigin, skipped = fromBytes(REST, bytes, LONG_HEADER_SIZE + 1)
local isWidth
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
count = (#bytes - LONG_HEADER_SIZE - REST_SIZE) / entrySize
isFast = isWidth and count % 1 == 0 and count <= MOST_IN_STRING and dead == 0
end
if isFast and hasPassed then
local headNumber, headWidth = closedNumber, closedWidth
headBase, headOrigin, headCount = closedBase, closedOrigin, closedCount
if segments == 0 then
headNumber, headWidth, headBase, headOrigin, headCount = number, width, base, origin, filed
end
headBytes, headFrom, headSize = set('HGET', key, headNumber), 1, 2 * headWidth
headFormat = string.sub(ENTRY_FORMATS, 5 * headWidth - 4, 5 * headWidth)
isFast = type(headBytes) == 'string' and headWidth >= 1 and headWidth <= 7
and skipped < headCount and #headBytes == headCount * headSize
end
end
local passed, index = before, skipped
if isFast and isPassed then
passed = total
elseif isFast and hasPassed then
local bytes, from, entrySize, format, count = headBytes, headFrom, headSize, headFormat, headCount
local after, needed = edge - headBase, 0
local low, high, stride = index - 1, count, 1
while low + 1 < high do
local middle = min(low + stride, floor((low + high) / 2))
local entryTime, entryTotal = fromBytes(format, bytes, from + middle * entrySize)
if entryTime <= after or entryTotal < needed then
low, stride = middle, stride * 2
elseif middle == low + 1 then
break
else
high, stride = middle, MOST
end
end
index = low + 1
isFast = index > skipped and index < count
if isFast then
local _, stored = fromBytes(format, bytes, from + (index - 1) * entrySize)
passed = headOrigin + stored
end
end
local free, wait, needed = limit - (total - passed), 0, nil
local reset = isEmpty and 0 or max(newest + length - time, 0)
if cost > free then
needed = total + (cost - limit)
if oldest > edge and first >= needed then wait, needed = oldest + length - time, nil end
end
if isFast and needed then
isFast = not isLong
if isFast then
local from, index, after = HEADER_SIZE + 1, 0, edge - base
local low, high, stride = index - 1, count, 1
while low + 1 < high do
local middle = min(low + stride, floor((low + high) / 2))
local entryTime, entryTotal = fromBytes(format, bytes, from + middle * entrySize)
if entryTime <= after or entryTotal < needed then
low, stride = middle, stride * 2
elseif middle == low + 1 then
break
else
high, stride = middle, MOST
end
end
index = low + 1
isFast = index < count
if isFast then
wait = base + fromBytes(format, bytes, from + index * entrySize) + length - time
end
end
elseif isFast and take and wait == 0 then
local stamp = (floor(time / bucket) + 1) * bucket - 1
local start = stamp - bucket + 1
local dropEdge = start - length
local entries, isSame = '', false
if isEmpty or newest <= dropEdge then
local number = ROOM * max(length, limit)
width = 1
while width < 7 and number > 256 ^ width - 1 do width = width + 1 end
local isWidth
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
base, before, total, count, isFast = stamp, 0, 0, 0, not isLong
else
local kept = isLong and LONG_HEADER_SIZE + REST_SIZE or HEADER_SIZE
if oldest <= dropEdge then
local bytes, from, entrySize, format, count = headBytes, headFrom, headSize, headFormat, headCount
if dropEdge ~= edge then
local after, needed = dropEdge - headBase, 0
index = skipped
local low, high, stride = index - 1, count, 1
while low + 1 < high do
local middle = min(low + stride, floor((low + high) / 2))
local entryTime, entryTotal = fromBytes(format, bytes, from + middle * entrySize)
if entryTime <= after or entryTotal < needed then
low, stride = middle, stride * 2
elseif middle == low + 1 then
break
else
high, stride = middle, MOST
end
end
index = low + 1
isFast = index > skipped and index < count
end
if isFast then
local _, stored = fromBytes(format, bytes, from + (index - 1) * entrySize)
before = headOrigin + stored
oldest, first = fromBytes(format, bytes, from + index * entrySize)
oldest, first = headBase + oldest, headOrigin + first
end
else
index = skipped
end
if not isLong then kept, count = kept + index * entrySize, count - index end
isSame = count > 0 and newest == stamp
isFast = isFast and total + cost <= MOST and count + filed > 0 and (isSame or count < FULL)
and stamp - base <= largest and total - origin + cost <= largest
if isFast then entries = string.sub(bytes, kept + 1, isSame and -1 - entrySize or -1) end
end
if isFast then
total, latest = total + cost, stamp
entries = entries .. toBytes(format, stamp - base, total - origin)
local expires, isExtended = expired, expired < latest + length
if isExtended then expires = latest + length + SLACK_MS end
if isLong then
newest, skipped = stamp, index
local text = toBytes(LONG_HEADER, 104, width, expires, latest, before, oldest, first, newest, total)
.. toBytes(REST, base, origin, upTo, segments, dead, number, filed, closedNumber, closedBase,
closedCount, closedWidth, closedOrigin, skipped)
.. entries
isFast = type(set('HSET', key, 'h', text)) == 'number'
if isFast and isExtended then
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
set('PEXPIRE', key, lastTtl)
end
else
local written
local text = toBytes(HEADER, 115, width, expires, latest, base, before) .. entries
if isExtended or not isStored then
if expires ~= lastExpires then
lastExpires = expires
lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
written = set('SET', key, text, 'PX', lastTtl)
else
written = set('SET', key, text, 'KEEPTTL')
end
isFast = not written.err
end
free, reset = free - cost, stamp + length - time
end
end
isFast = isFast and (wait == 0 or wait >= 1 and wait <= MOST)
if isFast then
if time ~= now then
size = size + 1
reply[size] = now - time
end
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
reply[size + 1] = string.format('%.0f', wait)
reply[size + 2] = string.format('%.0f', free)
reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
end
end
if not isFast then
handed = handed or {}
handed[key] = true
size = size + 1
reply[size] = '>'
end
end
return reply`,
  },
} satisfies Readonly<Record<string, Script>>;
