-- sliding-log: an admission at t counts while `t > now - W`; a cost c fits when
-- `cost(counting) + c <= L`. Admissions in the same millisecond are one entry, whatever their cost.
--
-- Value: a header, and a ring of `room` slots, one for each entry.
--
--   width 1 | base 6 | room 4 | head 4 | count 4 | known w | newest w | before w | total w | slots
--   slot:  time w | total w                                                  (w = width = 4 or 7)
--
-- Times are kept as milliseconds since `base`. `total` is the summed cost of everything admitted
-- since `base`, up to and including its entry; in the header up to the newest, and `before` up to
-- the oldest entry exclusive. So the cost of any stretch is one subtraction, and both searches (how
-- much has expired, when enough will have) halve their way through however many entries: work a
-- call is bounded even when 10^5 of them expire at once. `known` is the newest time ever written,
-- `newest` that of the newest entry, which differ after a refund.
--
-- A string of up to 32 slots is read and written whole. A longer one is read in pieces of 8 slots
-- and written in place with SETRANGE, which does not copy it. Growing by a fifth and shrinking to
-- a quarter copy it in one go, which is rare enough to cost nothing on average. A ring wastes
-- nothing at its head, and SET allocates exactly, while APPEND would take up to twice as much.
--
-- A refund changes the totals of all entries after its own: as much work as there are such.
local PIECE, SMALL_SLOTS = 8, 32
local formats = {
  [4] = { width = 4, most = 4294967295, entry = '>I4I4', header = '>BI6I4I4I4I4I4I4I4', slots = 35 },
  [7] = { width = 7, most = MOST, entry = '>I7I7', header = '>BI6I4I4I4I7I7I7I7', slots = 47 },
}
local SMALL_BYTES = formats[4].slots + SMALL_SLOTS * 8

local function headerOf(log)
  return struct.pack(log.format.header, log.format.width, log.base, log.room, log.head, log.count,
    log.known - log.base, log.newest - log.base, log.before, log.total)
end

local function readLog(key)
  local bytes = call('GETRANGE', key, 0, SMALL_BYTES - 1)
  if bytes == '' then return nil end
  local format = formats[string.byte(bytes)]
  if not format then error('ERR not a log of this limiter: ' .. key) end
  local _, base, room, head, count, known, newest, before, total =
    struct.unpack(format.header, bytes)
  return {
    key = key, format = format, base = base, room = room, head = head, count = count,
    known = base + known, newest = base + newest, before = before, total = total,
    whole = format.slots + room * 2 * format.width <= #bytes and bytes, first = 0, last = -1,
  }
end

-- The time and the running total of entry `place`, counted from the oldest, which is 0.
local function entryOf(log, place)
  local format = log.format
  local size, slot = 2 * format.width, (log.head + place) % log.room
  local time, total
  if log.whole then
    time, total = struct.unpack(format.entry, log.whole, format.slots + slot * size + 1)
  else
    if slot < log.first or slot > log.last then
      log.first, log.last = slot, min(slot + PIECE, log.room) - 1
      local from = format.slots + slot * size
      log.piece = call('GETRANGE', log.key, from, from + PIECE * size - 1)
    end
    time, total = struct.unpack(format.entry, log.piece, (slot - log.first) * size + 1)
  end
  return log.base + time, total
end

-- The first entry, from `place` on, that fails `test`, which is true of the older ones and false of
-- the newer ones, and the running total up to there. Strides double, then halve.
local function passing(log, place, test)
  local low, high, stride, total = place - 1, log.count, 1, log.before
  if place > 0 then
    local _, upTo = entryOf(log, place - 1)
    total = upTo
  end
  while low + 1 < high do
    local middle = min(low + stride, floor((low + high) / 2))
    local time, upTo = entryOf(log, middle)
    if test(time, upTo) then
      low, stride, total = middle, stride * 2, upTo
    else
      high, stride = middle, stride > 1 and MOST or 1
      if middle == low + 1 then break end
    end
  end
  return low + 1, total
end

-- How many entries are stamped at `edge` or earlier, and the running total up to there.
local function passed(log, edge)
  if log.count == 0 then return 0, log.before end
  if log.newest <= edge then return log.count, log.total end
  return passing(log, 0, function(time) return time <= edge end)
end

-- The bytes of the entries from `place` on, in order.
local function bytesFrom(log, place)
  local size, slots = 2 * log.format.width, log.format.slots
  local from, upTo = (log.head + place) % log.room, log.head + log.count
  if place >= log.count then return '' end
  local function slice(first, last)
    local start, stop = slots + first * size, slots + last * size
    if log.whole then return string.sub(log.whole, start + 1, stop) end
    return call('GETRANGE', log.key, start, stop - 1)
  end
  if log.head + place >= log.room then return slice(from, upTo - log.room) end
  if upTo <= log.room then return slice(from, upTo) end
  return slice(from, log.room) .. slice(0, upTo - log.room)
end

-- Calls `see(time, cost)` for the entries from `place` on, many at a time.
local function visit(log, place, see)
  local bytes, size = bytesFrom(log, place), 2 * log.format.width
  local _, before = 0, log.before
  if place > 0 then _, before = entryOf(log, place - 1) end
  for at = 1, #bytes, size do
    local time, total = struct.unpack(log.format.entry, bytes, at)
    see(log.base + time, total - before)
    before = total
  end
end

-- Lays the ring out anew, from the oldest entry on, with so much room.
local function layOut(log, bytes, room)
  log.room, log.head = room, 0
  log.whole = string.rep('\0', log.format.slots) .. bytes
    .. string.rep('\0', room * 2 * log.format.width - #bytes)
  log.rewritten = true
end

-- Counts times and totals from the oldest entry again, in the width that `cost` more at `time` need.
local function rebase(log, time, cost)
  local base = log.count > 0 and entryOf(log, 0) or min(time, log.known)
  local kept = log.total - log.before
  local isWide = time - base > formats[4].most or kept + cost > formats[4].most
  local format, parts, total = formats[isWide and 7 or 4], {}, 0
  visit(log, 0, function(at, of)
    total = total + of
    parts[#parts + 1] = struct.pack(format.entry, at - base, total)
  end)
  log.format, log.base, log.before, log.total = format, base, 0, kept
  layOut(log, table.concat(parts), max(log.room, 1))
end

local function makeRoom(log, terms)
  local isFull = log.count >= log.room
  if not isFull and (log.room <= 2 * SMALL_SLOTS or log.count * 4 >= log.room) then return end
  local most = isFull and max(terms.limit, log.count + 1) or log.room
  layOut(log, bytesFrom(log, 0), min(floor(log.count * 1.2) + 4, most))
end

-- Puts bytes at a slot; in place unless the whole log is at hand.
local function putSlots(log, slot, bytes)
  local at = log.format.slots + slot * 2 * log.format.width
  if log.whole then
    log.whole = string.sub(log.whole, 1, at) .. bytes .. string.sub(log.whole, at + #bytes + 1)
  else
    call('SETRANGE', log.key, at, bytes)
  end
  log.first, log.last = 0, -1
end

local function putEntry(log, place, time, total)
  local bytes = struct.pack(log.format.entry, time - log.base, total)
  putSlots(log, (log.head + place) % log.room, bytes)
end

-- Writes an admission down, and forgets what no clock that steps back could ask for.
local function append(log, terms, stamp, start, cost)
  local count, before = passed(log, start - terms.window)
  log.head, log.count, log.before = (log.head + count) % log.room, log.count - count, before
  if log.count == 0 then
    log.format, log.base, log.before, log.total, log.newest = formats[4], stamp, 0, 0, -1
    if log.room > SMALL_SLOTS then log.room = 0 end
    layOut(log, '', max(log.room, 1))
  end
  if stamp - log.base > log.format.most or log.total + cost > log.format.most then
    rebase(log, stamp, cost)
  end
  if log.newest ~= stamp then
    makeRoom(log, terms)
    log.count = log.count + 1
  end
  log.total = log.total + cost
  log.newest, log.known = stamp, stamp
  putEntry(log, log.count - 1, stamp, log.total)
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
    rebase(log, log.newest, by)
    place, before = passed(log, stamp - 1)
    time, total = entryOf(log, place)
  end
  local isGone = total + by == before
  local parts, running, newest = {}, before, log.base
  if place > 0 then newest = entryOf(log, place - 1) end
  visit(log, place, function(at, cost)
    if at == stamp then cost = cost + by end
    running = running + cost
    if cost > 0 then
      parts[#parts + 1] = struct.pack(log.format.entry, at - log.base, running)
      newest = at
    end
  end)
  log.total, log.newest = running, newest
  if isGone then log.count = log.count - 1 end
  -- The ring may wrap round between two of them.
  local slot = (log.head + place) % log.room
  local straight = min(#parts, log.room - slot)
  if straight > 0 then putSlots(log, slot, table.concat(parts, '', 1, straight)) end
  if straight < #parts then putSlots(log, 0, table.concat(parts, '', straight + 1)) end
  return by
end

-- What sets one log apart from another: the time under which an admission is written down, and the
-- earliest time that is written down under it.
local function logAlgorithm(stampOf, startOf)
  local function stampKnown(log, terms)
    return log.known + terms.window
  end

  return {
    read = readLog,
    expires = stampKnown,

    blank = function(terms, time)
      local log = { format = formats[4], base = time, room = 1, head = 0, count = 0, known = time,
        newest = time, before = 0, total = 0, first = 0, last = -1 }
      layOut(log, '', 1)
      return log
    end,

    known = function(log, terms)
      return startOf(terms, log.known)
    end,

    write = function(key, log, terms)
      if log.whole then
        local bytes = headerOf(log) .. string.sub(log.whole, log.format.slots + 1)
        call('SET', key, bytes, 'PX', lifetime(stampKnown(log, terms)))
      else
        call('SETRANGE', key, 0, headerOf(log))
        call('PEXPIRE', key, lifetime(stampKnown(log, terms)))
      end
    end,

    decide = function(log, terms, time, cost, take)
      local limit, length = terms.limit, terms.window
      local count, expired = passed(log, time - length)
      local free = limit - (log.total - expired)
      if cost > free then
        -- Counted from the oldest entry kept, this much has to expire before the cost fits.
        local needed = log.total + cost - limit
        local place = passing(log, count, function(_, total) return total < needed end)
        return entryOf(log, place) + length - time, free, max(log.newest + length - time, 0)
      end
      if not take then
        return 0, free, log.count > 0 and max(log.newest + length - time, 0) or 0
      end
      local stamp = stampOf(terms, time)
      append(log, terms, stamp, startOf(terms, stamp), cost)
      return 0, free - cost, stamp + length - time
    end,

    adjust = function(log, terms, time, charged, delta)
      local stamp = stampOf(terms, charged)
      if stamp + terms.window <= time then return 0 end
      -- A debt is kept as far as the sum stays an exact integer.
      return change(log, stamp, min(delta, MOST - (log.total - log.before)))
    end,

    cells = function(log, terms)
      return stampKnown(log, terms), log.total - log.before, 0
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

algorithms['sliding-log'] = logAlgorithm(
  function(_, time) return time end,
  function(_, stamp) return stamp end
)
