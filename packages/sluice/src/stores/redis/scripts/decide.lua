-- Executes a batch of operations in order, atomically. An operation that fails does not affect the
-- others.
--
-- ARGV   now       ms since the epoch, or '' for the server's own time
--        p         the number of policies that follow
--        policies  `algorithm limit window bucket capacity`, windows and buckets in ms
--        runs      consecutive operations that differ only in their keys and ids are one run:
--          check n p1 c1 [p2 c2 ...]   n checks of these policies and costs, with a key for each
--          peek n p1 c1 [p2 c2 ...]    the same without charging
--          once n p1 c1 [p2 c2 ...] m  n checks with an idempotency id, recorded for m ms: a key for
--                                      each limit, then a key for its records; n ids follow the run
--          forget n p1 c1 [...] m      deletes the records of n such checks; keys and ids as above
--          adjust p at delta cost      changes by `delta` the `cost` that was charged at `at` ms
--          spend [p at delta cost ...] u m   adjustments that use a receipt, which is recorded until
--                                      u, at most 2m ms from now: a key for each, then the key for
--                                      the records; the receipt's id follows
--          unspend                     marks a receipt as unused: the key for records; the id follows
--          inspect p                   reads the state of a key
--          reset n                     deletes n keys, each with its records
-- KEYS   the keys of all operations, in order
--
-- Reply: `now`, then for each operation
--          check, peek   for each limit: wait, free, reset. If the limit was decided at a later time
--                        than now, the difference precedes them as a negative number
--          once          1 if it was decided now, 0 if the decision was recorded before; then for
--                        each limit: at, wait, free, reset
--          adjust        the change made
--          spend         0 if the receipt was used before; else 1, and each change made
--          forget, unspend   the number of records deleted
--          inspect       0 if nothing counts. Else 1, at, free, reset, three cells, the number of
--                        entries that count, and the number of chunks with the newest of them. For
--                        each chunk: its base, the total before it, and a list of times and totals
--                        (log-entries.lua)
--          reset         the number of keys deleted
--        or, for an operation that failed, `!` followed by the error as text.
local reply, size = { now }, 1
local policies, nextKey, keys = {}, 1, KEYS

-- Some clients round integers close to 2^53, so larger integers than this are sent as text.
local LARGE = 2^52
-- `inspect` returns at least this many of the newest entries, or all if there are fewer.
local MOST_INSPECTED = 1000
local function addReply(value)
  size = size + 1
  if type(value) == 'number' and (value > LARGE or value < -LARGE) then
    value = string.format('%.0f', value)
  end
  reply[size] = value
end

-- Adds a list of ascending times and totals. Checks only its last two numbers, which are the
-- largest: checking each of 2,000 would be slow.
local function replyList(numbers)
  local last = #numbers
  if max(numbers[last - 1], numbers[last]) > LARGE then
    for place = 1, last do numbers[place] = string.format('%.0f', numbers[place]) end
  end
  addReply(numbers)
end

local built = {}
local function policyOf(text)
  local name, limit, window, bucket, capacity =
    string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+)$')
  if not build[name] then error('ERR expected a policy, got ' .. text) end
  built[name] = built[name] or build[name]()
  local params = {
    limit = whole(limit), window = whole(window), bucket = whole(bucket),
    capacity = whole(capacity), algorithm = built[name],
    -- The largest cost whose product with the window is exact.
    most = floor(MOST / window),
  }
  if min(params.limit, params.window, params.bucket, params.capacity) < 1 then
    error('ERR expected a policy, got ' .. text)
  end
  return params
end

local function policyAt(place)
  return policies[place] or error('ERR expected the place of a policy')
end

-- Reads a key into `state`. Returns the state and the time of a decision, which is never before the
-- latest time in the state. Returns nil and `now` for a new key, and for a state that is more than
-- a window ahead, which a wrong clock has written.
local function open(key, params, state)
  local known, length = params.algorithm.read(key, state, params), params.window
  -- include shared/moment
  return isHeld and state or nil, time
end

local function replyLimit(time, wait, free, reset)
  if time ~= now then addReply(now - time) end
  -- include shared/reply
end

local function replyTimed(time, wait, free, reset)
  addReply(time)
  addReply(wait)
  addReply(free)
  addReply(reset)
end

-- Raises an error for an invalid wait, which only a damaged value can cause.
local function checkWait(wait, key)
  if not (wait == 0 or wait >= 1 and wait <= MOST) then
    error('ERR not a value of this limiter: ' .. key, 0)
  end
end

-- Decides a check of one limit, which is the most frequent kind. All such checks reuse one table.
-- `legs` has two values for each limit: its params and the cost.
local scratch = {}
local function decideOne(first, legs, take, addResult)
  local params, key = legs[1], keys[first]
  local algorithm = params.algorithm
  local state, time = open(key, params, scratch)
  if not state then state = algorithm.blank(scratch, params, time) end
  local wait, free, reset = algorithm.decide(state, params, time, legs[2], take)
  if wait ~= 0 then checkWait(wait, key) end
  if take and wait == 0 then algorithm.write(key, state, params) end
  addResult(time, wait, free, reset)
  return wait == 0
end

-- Decides a check of several limits: they are charged only if all of them have room.
local function decideAll(first, legs, take, addResult)
  local states, times, results, fits = {}, {}, {}, true
  for leg = 1, #legs / 2 do
    local params, state = legs[2 * leg - 1], {}
    local isHeld, time = open(keys[first + leg - 1], params, state)
    if not isHeld then params.algorithm.blank(state, params, time) end
    states[leg], times[leg] = state, time
    results[leg] = { params.algorithm.decide(state, params, time, legs[2 * leg], false) }
    checkWait(results[leg][1], keys[first + leg - 1])
    fits = fits and results[leg][1] == 0
  end
  -- All limits are charged before the first is written, so that an invalid value of one key charges
  -- none of them.
  for leg = 1, take and fits and #legs / 2 or 0 do
    local params = legs[2 * leg - 1]
    results[leg] = { params.algorithm.decide(states[leg], params, times[leg], legs[2 * leg], true) }
  end
  for leg = 1, #legs / 2 do
    local params = legs[2 * leg - 1]
    if take and fits then params.algorithm.write(keys[first + leg - 1], states[leg], params) end
    addResult(times[leg], unpack(results[leg]))
  end
  return fits
end

local records
local function nameOf(kind, id, first, legs)
  records = records or buildRecords()
  local parts = { kind, #id, ':', id }
  for leg = 1, #legs / 2 do
    local key = keys[first + leg - 1]
    parts[#parts + 1] = string.format(' %d:%s %.0f', #key, key, legs[2 * leg])
  end
  return records.name(table.concat(parts))
end

-- Decides a check with an idempotency id. An admission is recorded with each of its limits, and
-- returned again for the same id, keys and costs. All limits must have the record, so a reset of
-- one of them makes the id new.
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
      local at, free, reset = records.decided(keys[first + count + leg - 1], held[leg])
      replyTimed(at, 0, free, reset)
    end
    return
  end
  addReply(1)
  local before = size
  local kind = count == 1 and decideOne or decideAll
  if not kind(first, legs, true, replyTimed) then return end
  local expiresMs = now + rememberMs
  for leg = 1, count do
    local at = before + 4 * leg - 3
    local value = records.idBytes(expiresMs, tonumber(reply[at]), tonumber(reply[at + 2]), tonumber(reply[at + 3]))
    records.store(keys[first + count + leg - 1], name, value, expiresMs)
  end
end

local function forget(first, legs, _, id)
  local count, name, done = #legs / 2, nameOf('i', id, first, legs), 0
  for leg = 1, count do done = done + call('HDEL', keys[first + count + leg - 1], name) end
  addReply(done)
end

-- Returns the adjusted state, or a false value if there is nothing to write, and the change made.
local function changed(key, params, charged, delta, cost)
  local state, time = open(key, params, {})
  if not state then return nil, 0 end
  local change, isChanged = params.algorithm.adjust(state, params, time, charged, delta, cost)
  return (change ~= 0 or isChanged) and state, change
end

local function adjust(first, params, charged, delta, cost)
  local state, change = changed(keys[first], params, charged, delta, cost)
  if state then params.algorithm.write(keys[first], state, params) end
  addReply(change)
end

-- Uses a receipt: applies its adjustments, unless it is recorded as used. Reads all keys before the
-- first write, so that an invalid value of one key changes nothing.
local function spend(first, legs, untilMs, mostMs, id)
  local count, name, states, changes = #legs / 4, nameOf('r', id, first, {}), {}, {}
  local memory = keys[first + count]
  if records.find(memory, name) then return addReply(0) end
  for leg = 1, count do
    states[leg], changes[leg] = changed(keys[first + leg - 1], unpack(legs, 4 * leg - 3, 4 * leg))
  end
  -- After this time, adjustments of these charges have no effect.
  local expiresMs = min(untilMs, now + 2 * mostMs)
  if expiresMs > now and not records.store(memory, name, records.markBytes(expiresMs), expiresMs) then
    return addReply(0)
  end
  addReply(1)
  for leg = 1, count do
    local params = legs[4 * leg - 3]
    if states[leg] then params.algorithm.write(keys[first + leg - 1], states[leg], params) end
    addReply(changes[leg])
  end
end

local function unspend(first, id)
  addReply(call('HDEL', keys[first], nameOf('r', id, first, {})))
end

local function inspect(key, params)
  local state, time = open(keys[key], params, {})
  local free, reset, _ = 0, 0, 0
  if state then _, free, reset = params.algorithm.decide(state, params, time, 0, false) end
  if reset == 0 then return addReply(0) end
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
end

local function reset(first)
  addReply(call('UNLINK', keys[first], keys[first + 1]))
end

-- Returns the text of an error. Errors of Lua itself come from a damaged value.
local function errorText(problem, key)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  if string.find(text, 'bad argument') or string.find(text, 'attempt to') then
    return 'ERR not a value of this limiter: ' .. key .. ' (' .. text .. ')'
  end
  return text
end

-- Calls `work(index of its first key, ...)` `count` times, advancing by `each` keys. If a call
-- fails, its error replaces its part of the reply, and the next call follows.
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

-- Executes the run at ARGV[place]. Returns the index of the next run.
local function doRun(place)
  local text, numbers = ARGV[place], {}
  local kind = string.match(text, '^%l+')
  for word in string.gmatch(text, ' (%S+)') do numbers[#numbers + 1] = whole(word) end
  if kind == 'reset' then
    repeatedly(numbers[1], 2, reset)
  elseif kind == 'inspect' then
    repeatedly(1, 1, inspect, policyAt(numbers[1]))
  elseif kind == 'adjust' then
    repeatedly(1, 1, adjust, policyAt(numbers[1]), numbers[2], numbers[3], numbers[4])
  elseif kind == 'unspend' then
    repeatedly(1, 1, unspend, ARGV[place + 1])
    return place + 2
  elseif kind == 'spend' then
    local mostMs, untilMs = table.remove(numbers), table.remove(numbers)
    local legs = legsOf(numbers, 1, 4)
    repeatedly(1, #legs / 4 + 1, spend, legs, untilMs, mostMs, ARGV[place + 1])
    return place + 2
  elseif kind == 'once' or kind == 'forget' then
    local rememberMs, legs = table.remove(numbers), nil
    legs = legsOf(numbers, 2, 2)
    for number = 1, numbers[1] do
      repeatedly(1, #legs, kind == 'once' and decideOnce or forget, legs, rememberMs, ARGV[place + number])
    end
    return place + numbers[1] + 1
  else
    local legs = legsOf(numbers, 2, 2)
    repeatedly(numbers[1], #legs / 2, #legs == 2 and decideOne or decideAll, legs, kind == 'check', replyLimit)
  end
  return place + 1
end

local count = whole(ARGV[2])
for place = 1, count do policies[place] = policyOf(ARGV[2 + place]) end
local place = 3 + count
while place <= #ARGV do place = doRun(place) end
return reply
