-- The part of a long log that lies in segments: chunks of up to 254 entries, each a field of the
-- key's hash, named by a number.
--
--   d    for each segment, oldest first: number 4 | base 7 | count 1 | width 1
--   t    for each segment: origin 7, the running total before it
--
-- Times are absolute and totals run on from segment to segment, so a segment is found by halving.
-- A refund rewrites one segment and adds to the origins of those after it, all in one `unpack` and
-- one `pack`. Entries of cost 0 are removed, and two neighbours that fit in half a segment become
-- one: so the segments are bounded by the entries that count, whatever is refunded.
--
-- The first `dead` segments have expired as a whole, and the first `skipped` entries of the next,
-- the head. The header repeats the head's record, so that a log that slides needs no directory.
-- Dead segments are deleted some at a time.
local function buildSegments(chunks)
  local toBytes, fromBytes, at, seek = struct.pack, struct.unpack, chunks.at, chunks.seek
  local RECORD, RECORD_SIZE, ORIGIN_SIZE = '>I4I7BB', 13, 7
  local FULL, PURGED, SLICE = 254, 64, 500
  local segments = {}

  local function load(log)
    if log.records then return end
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

  -- Where the segment at `place` ends: the base and the origin of what follows it.
  local function follows(log, place)
    if place + 1 == log.segments then return log.count > 0 and log.base or MOST, log.origin end
    local _, base = fromBytes(RECORD, log.records, (place + 1) * RECORD_SIZE + 1)
    return base, originAt(log, place + 1)
  end

  local function chunkAt(log, place)
    local chunk = log.chunk
    if chunk and chunk.place == place then return chunk end
    chunk = { place = place, start = 0 }
    local width
    if place == log.dead then
      chunk.number, chunk.base, chunk.count, width = log.headNumber, log.headBase, log.headCount, log.headWidth
      chunk.origin = log.headOrigin
    else
      load(log)
      chunk.number, chunk.base, chunk.count, width = fromBytes(RECORD, log.records, place * RECORD_SIZE + 1)
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

  -- Puts a chunk where `count` segments were.
  local function store(log, place, count, chunk)
    load(log)
    local record = toBytes(RECORD, chunk.number, chunk.base, chunk.count, chunk.width)
    log.records = splice(log.records, RECORD_SIZE, place, count, record)
    log.origins = splice(log.origins, ORIGIN_SIZE, place, count, toBytes('>I7', chunk.origin))
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

  -- Adds to the origins from `place` on.
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

  -- How many entries of the segment at `place` have expired.
  local function skippedAt(log, place)
    return place == log.dead and log.skipped or 0
  end

  -- The chunk of the first entry that is after `edge` and whose total is at least `needed`, and its
  -- place in the chunk. There is one.
  function segments.find(log, edge, needed)
    local chunk = chunkAt(log, log.dead)
    local index = seek(chunk, log.skipped, edge, needed)
    if index < chunk.count then return chunk, index end
    local low, high = log.dead, log.segments
    if high - low > 1 then load(log) end
    while low + 1 < high do
      local middle = floor((low + high) / 2)
      local base, origin = follows(log, middle)
      if base > edge and origin >= needed then high = middle else low = middle end
    end
    -- What follows the segment fits, so either an entry of the segment does or the next one.
    if high < log.segments then
      chunk = chunkAt(log, high)
      index = seek(chunk, 0, edge, needed)
      if index < chunk.count then return chunk, index end
      if high + 1 < log.segments then return chunkAt(log, high + 1), 0 end
    end
    return log, seek(log, 0, edge, needed)
  end

  -- Makes an entry of a segment the oldest of the log.
  function segments.moveHead(log, chunk, index)
    log.dead, log.skipped = chunk.place, index
    setHead(log, chunk)
  end

  function segments.oldest(log)
    return at(chunkAt(log, log.dead), log.skipped)
  end

  function segments.newest(log)
    local chunk = chunkAt(log, log.segments - 1)
    return at(chunk, chunk.count - 1)
  end

  -- The entries of two neighbours become one segment, if they are at most so many.
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

  -- Makes the tail, which is full, a segment, or a part of the newest one.
  function segments.file(log)
    if log.segments == 0 then
      log.records, log.origins, log.dead, log.number = '', '', 0, 0
      log.written, log.deleted = {}, {}
    end
    store(log, log.segments, 0, {
      number = log.number, base = log.base, origin = log.origin, count = log.count, width = log.width,
      bytes = string.sub(log.bytes, log.start + 1), start = 0, size = log.size, format = log.format,
    })
    log.number = log.number + 1
    merge(log, log.segments - 2, FULL)
    -- The next one will be much like this one.
    chunks.setWidth(log, chunks.widthFor(max(log.newest - log.base, log.total - log.origin)))
    log.bytes, log.start, log.count, log.origin = '', 0, 0, log.total
  end

  -- Changes the cost of an entry by `by`; removes it if `isGone`.
  function segments.change(log, chunk, index, by, isGone)
    load(log)
    local place, skipped = chunk.place, skippedAt(log, chunk.place)
    local numbers = chunks.numbers(chunk, skipped)
    chunks.change(numbers, index - skipped, by, isGone)
    addToOrigins(log, place + 1, by)
    log.origin = log.origin + by
    if #numbers > 0 then
      chunks.fill(chunk, numbers)
      store(log, place, 1, chunk)
      if isGone and not merge(log, place, FULL / 2) then merge(log, place - 1, FULL / 2) end
    else
      remove(log, place, chunk.number)
      if place == log.dead and place < log.segments then
        log.skipped = 0
        local number, base, count, width = fromBytes(RECORD, log.records, place * RECORD_SIZE + 1)
        setHead(log, { number = number, base = base, count = count, width = width, origin = originAt(log, place) })
      end
    end
  end

  -- Counts totals from the oldest entry again, which keeps them exact integers.
  function segments.rebase(log)
    load(log)
    local head, before = chunkAt(log, log.dead), log.before
    local numbers = chunks.numbers(head, log.skipped)
    for index = 2, #numbers, 2 do numbers[index] = numbers[index] + head.origin - before end
    head.origin = before
    chunks.fill(head, numbers)
    store(log, log.dead, 1, head)
    addToOrigins(log, log.dead, -before)
    log.headOrigin, log.origin = 0, log.origin - before
  end

  -- How many entries there are from one on.
  function segments.countFrom(log, chunk, index)
    if chunk == log then return log.count - index end
    load(log)
    local count = chunk.count - index + log.count
    for place = chunk.place + 1, log.segments - 1 do
      count = count + string.byte(log.records, place * RECORD_SIZE + 12)
    end
    return count
  end

  -- The chunks with the newest entries, newest chunk first, up to about `most` entries.
  function segments.newestChunks(log, most)
    local found, count = { log }, log.count
    for place = log.segments - 1, log.dead, -1 do
      if count >= most then break end
      local chunk = chunkAt(log, place)
      found[#found + 1], count = chunk, count + chunk.count
    end
    return found
  end

  -- Takes some of the dead segments out of the directory; their fields are deleted with the rest.
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

  local HEADER, HEADER_SIZE = '>BBI7I7I7I7I7I7I7I7I4I4I4I4I7BBBI7', 91

  -- Fills `log` from the header, which the tail follows.
  function segments.read(log, bytes)
    if #bytes < HEADER_SIZE then notLog(log.key) end
    local _, width
    _, width, log.expires, log.known, log.base, log.before, log.origin, log.oldest, log.first,
      log.newest, log.segments, log.dead, log.number, log.headNumber, log.headBase, log.headCount,
      log.headWidth, log.skipped, log.headOrigin = fromBytes(HEADER, bytes)
    log.start = HEADER_SIZE
    if log.dead >= log.segments or log.skipped >= log.headCount then notLog(log.key) end
    return width
  end

  function segments.write(key, log, isExtended)
    if log.dead > 0 then purge(log) end
    local header = toBytes(HEADER, 104, log.width, log.expires, log.known, log.base, log.before,
      log.origin, log.oldest, log.first, log.newest, log.segments, log.dead, log.number,
      log.headNumber, log.headBase, log.headCount, log.headWidth, log.skipped, log.headOrigin)
    local fields = { 'h', header .. string.sub(log.bytes, log.start + 1) }
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
