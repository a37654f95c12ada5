-- The segments of a long log: chunks of up to 252 entries (log-entries.lua). Each segment is a
-- field of the key's hash, named by a number. The newest segment is open. The newest entries of the
-- log, the tail (sliding-log.lua), are appended to it as bytes, because the open segment and the
-- tail have the same base, origin and width. A full segment is closed and added to the directory,
-- which is two fields with these parts (sizes in bytes):
--
--   d    for each segment, oldest first: number 4 | base 7 | count 1 | width 1
--   t    for each segment: origin 7, the running total before its first entry
--
-- Times are absolute and totals are cumulative over all segments, so a binary search finds a
-- segment. A refund rewrites one segment and changes the origins of the later segments, with one
-- `unpack` and one `pack` per 500 segments. Entries of cost 0 are removed. Two adjacent segments
-- are merged if they fit in half a segment. So the number of segments is bounded by the number of
-- entries that count, however many entries are refunded.
--
-- The first `dead` segments have expired completely. The next segment is the head, of which the
-- first `skipped` entries have expired. The header of the log repeats the head's part of the
-- directory, so that most calls do not read the directory. Dead segments are deleted a few at a
-- time.
local function buildSegments(chunks)
  local at, seek = chunks.at, chunks.seek
  -- include shared/log-formats
  local RECORD, RECORD_SIZE, ORIGIN_SIZE = '>I4I7BB', 13, 7
  local FULL_SEGMENT, PURGED, SLICE = 252, 64, 500
  local segments = {}

  -- Reads the directory, unless it has been read.
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

  -- Returns the base and the origin of the chunk after the closed segment at `place`. The directory
  -- must be loaded, unless that chunk is the open segment or the tail.
  local function follows(log, place)
    if place + 1 == log.segments then
      return log.count + log.filed > 0 and log.base or MOST, log.origin
    end
    local _, base = fromBytes(RECORD, log.records, (place + 1) * RECORD_SIZE + 1)
    return base, originAt(log, place + 1)
  end

  -- Returns the segment at `place` of the directory as a chunk. The place after the last closed
  -- segment is the open segment.
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

  -- Returns `text`, a list of items of `size` bytes, with `count` items from `place` on replaced.
  local function splice(text, size, place, count, bytes)
    return string.sub(text, 1, place * size) .. bytes .. string.sub(text, (place + count) * size + 1)
  end

  -- Replaces `count` segments of the directory, from `place` on, by a chunk.
  local function store(log, place, count, chunk)
    load(log)
    local record = toBytes(RECORD, chunk.number, chunk.base, chunk.count, chunk.width)
    local at, origin = place * RECORD_SIZE, toBytes('>I7', chunk.origin)
    -- Comparing is faster than copying a long directory.
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

  -- Adds `by` to the origins from `place` on.
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

  -- Returns the number of expired entries of the segment at `place`.
  local function skippedAt(log, place)
    return place == log.dead and log.skipped or 0
  end

  -- Finds the first entry that is after the time `edge` and whose total is at least `needed`. Such
  -- an entry must exist. Returns its chunk and its index in the chunk.
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
    -- All entries after the segment at `high` match. So the result is in that segment, or it is the
    -- first entry after that segment.
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

  -- Makes entry `index` of a segment the oldest entry of the log.
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

  -- Merges the segments at `place` and `place + 1` if they have at most `most` entries together.
  -- Returns whether they were merged.
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

  -- Closes the open segment, if there is one. Repacks the tail in at least the given width.
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

  -- Moves the entries of the tail to the open segment.
  function segments.file(log)
    if not log.isLong then
      log.records, log.origins, log.segments, log.dead, log.number = '', '', 0, 0, 0
      log.written, log.deleted, log.filed, log.skipped, log.chunk = {}, {}, 0, 0, nil
      log.isLong, log.isFiled, log.isHash = true, false, false
      log.headNumber, log.headBase, log.headCount, log.headWidth, log.headOrigin = 0, 0, 0, 0, 0
    elseif log.filed + log.count > FULL_SEGMENT then
      -- The next segment will probably span a similar time and cost, so choose the width for that.
      segments.close(log, chunks.widthFor(1.25 * max(log.newest - log.base, log.total - log.origin)))
    end
    local bytes = log.filed > 0 and chunkAt(log, log.segments).bytes or ''
    log.written[log.number] = bytes .. string.sub(log.bytes, log.start + 1)
    log.filed, log.upTo, log.chunk = log.filed + log.count, log.total, nil
    log.bytes, log.start, log.count = '', 0, 0
  end

  -- Changes an entry of the open segment, and the totals of the tail, which has the same origin.
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

  -- Changes the cost of an entry by `by`. If `isGone`, removes the entry.
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

  -- Subtracts the running total before the oldest entry from all totals, so that they stay exact
  -- integers.
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

  -- Returns the number of entries in the log, counted from entry `index` of `chunk`.
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

  -- Returns the newest chunks, newest first: until they have at least `most` entries, or up to the
  -- chunk `oldest`.
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

  -- Removes some dead segments from the directory. `write` deletes their fields.
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

  -- Decodes the second part of the header into `log`. The tail follows it in the same field.
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
    -- include shared/log-long-text
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
