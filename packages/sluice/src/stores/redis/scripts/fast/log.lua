-- Fast script of sliding-log and sliding-buckets. KEYS, ARGV and reply: shared/fast-begin.lua; the
-- third number of a check is the length of a bucket in ms, 1 for a sliding log. Value of a key:
-- sliding-log.lua.
--
-- Decides checks that need only the string or, if the log is a hash, its header and its oldest
-- segment. Hands over the rare cases to the general script: a string that becomes a hash, a hash
-- that becomes a string, a full tail (each 36th admission of a long log), a head segment that has
-- expired completely, entries that need wider numbers, and totals that must be rebased.
-- include shared/fast-begin
-- include shared/log-formats
local each = 3
for place = 1, #KEYS do
  -- include shared/fast-numbers
  local bucket, known = third, nil
  local isLog, isLong, isStored, bytes = true, false, false, nil
  local width, entrySize, format, largest, base, count
  local expired, latest, before, oldest, first, newest, total
  -- 1. Read the log, or the first part of its header if it is a hash.
  if isFast then
    -- MGET, because it does not fail if the key holds a hash.
    bytes = set('MGET', key)[1]
    if bytes then
      isStored = true
      -- include shared/log-string
    else
      bytes = set('HGET', key, 'h')
      isLong = type(bytes) == 'string'
      if isLong then
        -- include shared/log-long
      else
        isLog = not bytes and set('EXISTS', key) == 0
      end
    end
    isFast = isLog
    if isLog and latest then
      local stamp = latest
      -- include shared/log-stamp-start
      known = start
    end
  end
  if isFast then
    -- include shared/moment
    if not isHeld then
      isLong, isStored, count, expired = false, false, 0, time
      before, oldest, first, newest, total = 0, time, 0, time, 0
    end
    local edge = time - length
    local isEmpty = not isLong and count == 0
    local isPassed = not isEmpty and newest <= edge
    local hasPassed = not isEmpty and oldest <= edge
    -- 2. Find the chunk with the oldest entry: the string itself, or the head segment of a hash.
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
        -- include shared/width
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
    -- 3. Compute `passed`, the running total of the entries that have left the window.
    local passed, index = before, skipped
    if isFast and isPassed then
      passed = total
    elseif isFast and hasPassed then
      local bytes, from, entrySize, format, count = headBytes, headFrom, headSize, headFormat, headCount
      local after, needed = edge - headBase, 0
      -- include shared/log-seek
      isFast = index > skipped and index < count
      if isFast then
        local _, stored = fromBytes(format, bytes, from + (index - 1) * entrySize)
        passed = headOrigin + stored
      end
    end
    -- 4. Decide.
    -- include shared/log-decide
    if isFast and needed then
      isFast = not isLong
      if isFast then
        local from, index, after = HEADER_SIZE + 1, 0, edge - base
        -- include shared/log-seek
        isFast = index < count
        if isFast then
          wait = base + fromBytes(format, bytes, from + index * entrySize) + length - time
        end
      end
    elseif isFast and take and wait == 0 then
      -- 5. Drop the entries that cannot count again. If the clock steps back, the next decision may
      --    be as early as the start of this entry.
      -- include shared/log-stamp
      -- include shared/log-stamp-start
      local dropEdge = start - length
      local entries, isSame = '', false
      if isEmpty or newest <= dropEdge then
        local number = ROOM * max(length, limit)
        -- include shared/width-for
        local isWidth
        -- include shared/width
        base, before, total, count, isFast = stamp, 0, 0, 0, not isLong
      else
        local kept = isLong and LONG_HEADER_SIZE + REST_SIZE or HEADER_SIZE
        if oldest <= dropEdge then
          local bytes, from, entrySize, format, count = headBytes, headFrom, headSize, headFormat, headCount
          if dropEdge ~= edge then
            local after, needed = dropEdge - headBase, 0
            index = skipped
            -- include shared/log-seek
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
      -- 6. Append the cost, and write.
      if isFast then
        total, latest = total + cost, stamp
        entries = entries .. toBytes(format, stamp - base, total - origin)
        -- include shared/log-expiry
        if isLong then
          newest, skipped = stamp, index
          -- include shared/log-long-text
          isFast = type(set('HSET', key, 'h', text)) == 'number'
          if isFast and isExtended then
            -- include shared/ttl
            set('PEXPIRE', key, lastTtl)
          end
        else
          -- include shared/log-write-string
          isFast = not written.err
        end
        free, reset = free - cost, stamp + length - time
      end
    end
    -- include shared/fast-reply
  end
  -- include shared/fast-hand-over
end
return reply
