-- sliding-log: an admission at t counts while `t > now - W`; a cost c fits when
-- `cost(counting) + c <= L`. Admissions in the same millisecond are one entry, whatever their cost.
--
-- Value: a header, and a ring of `room` slots, one for each entry.
--
--   width 1 | base 6 | room 4 | head 4 | count 4 | until w | known w | before w
--           | oldest w | first w | newest w | total w | slots
--   slot:  time w | total w                                                  (w = width = 4 or 7)
--
-- Times are milliseconds since `base`. The `total` of an entry is the summed cost of everything
-- admitted since `base`, up to and including it. So the cost of any stretch is one subtraction, and
-- both searches (how much has expired, when enough will have) halve their way through however many
-- entries: work a call is bounded even when 10^5 of them expire at once. The header repeats what
-- most calls need: `oldest` and `first` are the time and the total of the oldest entry, `newest` and
-- `total` of the newest, `before` the total before the oldest. `known` is the newest time ever
-- written, which a refund does not take back. `until` is when the key goes: a little later than it
-- must, so that a busy key is not given a new TTL with every call.
--
-- A string of up to 32 slots is read and written whole. A longer one is read in pieces of 8 slots
-- and written in place with SETRANGE, which does not copy it. Growing by a fifth and shrinking to
-- a quarter copy it in one go, which is rare enough to cost nothing on average. A ring wastes
-- nothing at its head, and SET allocates exactly, while APPEND would take up to twice as much.
--
-- A refund changes the totals of all entries after its own: as much work as there are such.
--
-- `stampOf(terms, time)` is the time under which an admission is written down, and `startOf(terms, stamp)`
-- the earliest time that is written down under it: that is all that sets one log apart from another.
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
    -- A header that does not fit its value would make endless work of it.
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

  -- The time and the running total of entry `place`, counted from the oldest, which is 0.
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

  -- The first entry, from `place` on, that is stamped after `edge` and whose total is at least
  -- `needed`: both are true of the newer ones and false of the older ones. And the running total
  -- before it. Strides double, then halve.
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

  -- How many entries are stamped at `edge` or earlier, and the running total up to there.
  local function passed(log, edge)
    if log.count == 0 or log.oldest > edge then return 0, log.before end
    if log.newest <= edge then return log.count, log.total end
    return firstAfter(log, 0, edge, 0)
  end

  -- The bytes of the entries from `place` on, in order.
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

  -- Calls `see(time, cost)` for the entries from `place` on.
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

  -- Lays the ring out anew, from the oldest entry on, with so much room.
  local function layOut(log, bytes, room)
    if #bytes ~= log.count * log.format.size then error('ERR not a log of this limiter') end
    log.room, log.head = room, 0
    log.whole = string.rep('\0', log.format.slots) .. bytes
      .. string.rep('\0', room * log.format.size - #bytes)
  end

  -- An empty log that begins at `time`.
  local function empty(log, time, room)
    log.format, log.base, log.count, log.known, log.expires = formats[4], time, 0, time, time
    log.before, log.oldest, log.first, log.newest, log.total = 0, time, 0, time, 0
    layOut(log, '', room)
  end

  -- Counts times and totals from the oldest entry again, in the width that `cost` more at `time` need.
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

  -- Puts bytes at a slot; in place unless the whole log is at hand.
  local function putSlots(log, slot, bytes)
    local at = log.format.slots + slot * log.format.size
    if log.whole then
      log.whole = string.sub(log.whole, 1, at) .. bytes .. string.sub(log.whole, at + #bytes + 1)
    else
      call('SETRANGE', log.key, at, bytes)
    end
    log.from, log.upTo = 0, -1
  end

  -- Forgets the oldest entries, `count` of them, up to the running total `before`.
  local function drop(log, count, before)
    if count == 0 then return end
    local oldest, first = log.oldest, log.first
    if count < log.count then oldest, first = entryOf(log, count) end
    log.head, log.count, log.before = (log.head + count) % log.room, log.count - count, before
    log.oldest, log.first = oldest, first
  end

  -- Writes an admission down at `stamp`. What no clock that steps back could ask for has been dropped.
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

  -- Changes the cost at `stamp` by up to `delta`, not below zero; the change made.
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
    -- The ring may wrap round between two of them.
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
        -- Counted from the oldest entry kept, this much has to expire before the cost fits.
        local place = firstAfter(log, count, -1, log.total + (cost - limit))
        return entryOf(log, place) + length - time, free, max(log.newest + length - time, 0)
      end
      if not take then
        return 0, free, log.count > 0 and max(log.newest + length - time, 0) or 0
      end
      local stamp = stampOf(terms, time)
      local start = startOf(terms, stamp)
      -- The clock may still step back to where the entry starts, so what counts there is kept.
      if start < time then count, expired = passed(log, start - length) end
      drop(log, count, expired)
      append(log, terms, stamp, cost)
      return 0, free - cost, stamp + length - time
    end,

    adjust = function(log, terms, time, charged, delta)
      local stamp = stampOf(terms, charged)
      if stamp + terms.window <= time then return 0 end
      -- A debt is kept as far as the sum stays an exact integer.
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
