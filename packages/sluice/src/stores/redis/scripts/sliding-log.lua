-- sliding-log: an admission at t counts while `t > now - W`. A cost c fits when
-- `cost(counting admissions) + c <= L`. Admissions in the same millisecond share an entry.
--
-- Up to 36 entries are stored as one string: a header and a chunk (log-entries.lua). While the
-- Cluster slot of the key is being migrated, the string may have up to 252 entries, see
-- `canBecomeHash`. Sizes in bytes:
--
--   's' 1 | width 1 | until 7 | known 7 | base 7 | before 7 | entries
--
-- `known` is the latest time ever written; a refund does not change it. `until` is when the key
-- expires: up to 0.9 s later than necessary, which avoids setting the TTL of a busy key with every
-- call. `before` is the running total before the oldest entry: the cost of expired entries.
--
-- A longer log is a hash. Its field `h` has a header, of which a denial reads only the first part:
--
--   'h' 1 | width 1 | until 7 | known 7 | before 7 | oldest 7 | first 7 | newest 7 | total 7
--
-- `first` is the running total up to and including the oldest entry, `total` up to and including
-- the newest. In the same field follow the second part of the header (REST in
-- shared/log-formats.lua) and the newest entries, the tail. A tail of 36 entries is moved to a
-- segment (log-segments.lua). So most admissions write only `h`, and read the oldest segment only
-- if entries have expired. No check takes more than a few hundred small steps, however long the log
-- is. When all its segments have expired, the log becomes a string again.
--
-- sliding-log and sliding-buckets differ only in the length of a bucket, in ms, which
-- `bucketOf(params)` returns. Admissions of one bucket share an entry. shared/log-decide.lua has
-- the formula of a decision, and shared/log-stamp.lua computes the time of an entry.
local function buildLog(bucketOf)
  -- include shared/log-formats
  local chunks, segments = buildChunks(), nil
  local at = chunks.at

  local function stampOf(params, time)
    local bucket = bucketOf(params)
    -- include shared/log-stamp
    return stamp
  end

  local function startOf(params, stamp)
    local bucket = bucketOf(params)
    -- include shared/log-stamp-start
    return start
  end

  -- Changes the log to the string form, which has no segments.
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

  -- Reads the second part of the header of a long log, which a denial does not need.
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
    -- include shared/log-string
    if not isLog then notLog(log.key) end
    log.width, log.size, log.format, log.most = width, entrySize, format, largest
    log.expires, log.known, log.base, log.before = expired, latest, base, before
    log.oldest, log.first, log.newest, log.total = oldest, first, newest, total
    log.bytes, log.start, log.count, log.origin, log.filed = bytes, HEADER_SIZE, count, 0, 0
    log.isLong, log.isHash, log.isFolded = false, false, false
  end

  local function readHash(log, bytes)
    local isLog, width, expired, latest, before, oldest, first, newest, total
    -- include shared/log-long
    if not isLog then notLog(log.key) end
    log.width, log.expires, log.known, log.before = width, expired, latest, before
    log.oldest, log.first, log.newest, log.total = oldest, first, newest, total
    log.bytes, log.start = bytes, LONG_HEADER_SIZE
    log.isLong, log.isHash, log.isFolded = true, true, true
  end

  local function readLog(key, log, params)
    log.key, log.stored, log.edge = key, nil, nil
    -- MGET, because it does not fail if the key holds a hash.
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

  -- Finds the first entry that is after the time `edge` and whose total is at least `needed`. The
  -- newest entry must meet both conditions. Returns the chunk of the found entry, its index in the
  -- chunk, the running total before it, its time and its total.
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

  -- Returns the running total of the entries up to `edge`. Caches the first entry after `edge`,
  -- which `drop` needs.
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

  -- Deletes the entries up to `edge`.
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

  -- Subtracts the running total before the oldest entry from all totals.
  local function rebase(log)
    if log.isLong then segments.rebase(log) else log.origin = log.origin - log.before end
    log.first, log.total, log.before = log.first - log.before, log.total - log.before, 0
  end

  -- Packs the tail again, in a width with room for an entry with `cost` at `time`. A log without
  -- segments is also rebased, and gets a width for numbers four times as large, so that its width
  -- rarely changes.
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

  -- Returns whether the string may be replaced by a hash. The string is deleted before the hash is
  -- written. But a node that migrates a slot rejects every access to a missing key of that slot, so
  -- the log would be lost in between. To find out whether this node migrates the slot, accesses a
  -- key that never exists. Raises an error if it does and the string is full.
  local function canBecomeHash(log)
    if type(redis.pcall('EXISTS', log.key .. '+')) == 'number' then return true end
    if log.count < MOST_IN_STRING then return false end
    error('TRYAGAIN the slot of ' .. log.key .. ' is being migrated', 0)
  end

  -- Adds `cost` to the entry at `stamp`, which is the newest entry or a new one.
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

  -- Changes the cost of the entry at `stamp` by up to `delta`, not below zero. Returns the change
  -- made.
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
    -- include shared/log-expiry
    log.expires = expires
    if log.isLong then return segments.write(key, log, isExtended) end
    local width, base, before, isStored = log.width, log.base, log.before - log.origin, log.stored == 's'
    local entries = string.sub(log.bytes, log.start + 1)
    -- include shared/log-write-string
  end

  -- Returns the number of entries that count, and chunks with at least the newest `most` entries,
  -- oldest first. Each chunk has its base, the stored total before its first entry, and its stored
  -- numbers.
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
      -- include shared/log-decide
      if needed then
        local _, _, _, found = find(log, edge, needed)
        wait = found + length - time
      end
      if wait ~= 0 or not take then return wait, free, reset end
      unfold(log)
      local stamp = stampOf(params, time)
      -- If the clock steps back, the next decision may be as early as the start of this entry. So
      -- keep the entries that count at that time.
      drop(log, startOf(params, stamp) - length)
      append(log, params, stamp, cost)
      return 0, free - cost, stamp + length - time
    end,

    -- Adds `cost` at `time`, or at the latest time of the log if that is later, also above the
    -- limit. Returns the cost added.
    record = function(log, params, time, cost)
      unfold(log)
      local stamp = max(stampOf(params, time), log.known)
      drop(log, startOf(params, stamp) - params.window)
      -- The summed cost must stay an exact integer.
      local added = min(cost, MOST - (log.total - log.before))
      append(log, params, stamp, added)
      log.edge = nil
      return added
    end,

    -- Removes up to `cost` from the oldest entries that count. Returns the change made.
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

    -- Returns when an admission at `time` leaves the window.
    leaves = function(params, time)
      return stampOf(params, time) + params.window
    end,

    adjust = function(log, params, time, charged, delta)
      local stamp = stampOf(params, charged)
      if stamp + params.window <= time then return 0 end
      -- Limits an overcharge, so that the summed cost stays an exact integer.
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
