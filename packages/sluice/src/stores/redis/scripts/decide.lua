-- Does a batch of operations, in order, at one instant. One that fails does not fail the others.
--
-- ARGV   now       ms since the epoch, or '' for the server's own time
--        p         how many policies follow
--        policies  `algorithm limit window bucket capacity`, windows and buckets in ms
--        runs      operations that follow one another and are alike are one run:
--          check n p1 c1 [p2 c2 ...]   n checks, each of these policies and costs; a key for each
--          peek n p1 c1 [p2 c2 ...]    the same without charging
--          once n p1 c1 [p2 c2 ...] m  n checks that are done once, and remembered for m ms: a key
--                                      for each limit, then one for its records; n ids follow
--          forget n p1 c1 [...] m      forgets n such checks; keys and ids as for `once`
--          adjust p at delta cost      changes by `delta` the `cost` that was charged at `at` ms
--          spend [p at delta cost ...] u m   several adjustments, once for a receipt, which is
--                                      remembered until u, at most 2m from now: a key for each, then
--                                      the one for the records; the receipt's id follows
--          unspend                     makes a receipt unused: the key for the records; its id follows
--          inspect p
--          reset n                     makes n keys new: each with its records
-- KEYS   those of the operations, in order
--
-- Reply: `now`, then for each operation
--          check, peek   for each limit: wait, free, reset; before them, if the limit was decided
--                        at a later time than now, by how much, as a negative number
--          once          1 if it was decided, 0 if it was remembered; then for each limit: at, wait,
--                        free, reset
--          adjust        the change made
--          spend         0 if the receipt has been used; else 1, and the change made by each
--          forget, unspend   how many records there were
--          inspect       expired or new: 0. Else 1, at, free, reset, three cells, how many entries
--                        count, and how many chunks with the newest of them follow. For each: its
--                        base, the total before it, and a list of times and totals (log-entries.lua)
--          reset         how many keys there were
--        or, for one that failed, the error as text after a `!`.
local reply, size = { now }, 1
local policies, nextKey, keys = {}, 1, KEYS

-- Some clients misread integers close to 2^53, so large ones go as text.
local LARGE = 2^52
-- At least so many entries are returned by `inspect`, if there are.
local MOST_INSPECTED = 1000
local function say(value)
  size = size + 1
  if type(value) == 'number' and (value > LARGE or value < -LARGE) then
    value = string.format('%.0f', value)
  end
  reply[size] = value
end

-- A list of numbers as it is: to look at each of 2,000 would take longer than all the rest.
local function sayList(numbers)
  local last = #numbers
  if max(numbers[last - 1], numbers[last]) > LARGE then
    for place = 1, last do numbers[place] = string.format('%.0f', numbers[place]) end
  end
  say(numbers)
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
    -- The largest cost whose product with the window is exact.
    most = floor(MOST / window),
  }
  if min(terms.limit, terms.window, terms.bucket, terms.capacity) < 1 then
    error('ERR expected a policy, got ' .. text)
  end
  return terms
end

local function policyAt(place)
  return policies[place] or error('ERR expected the place of a policy')
end

-- Fills `state` with what is known of a key; and the time of a decision about it: never before what
-- it knows. A state that lies more than a window ahead was written by a wrong clock, and counts as new.
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

-- Only numbers that were not written by this limiter make a wait that is none.
local function checkWait(wait, key)
  if not (wait == 0 or wait >= 1 and wait <= MOST) then
    error('ERR not a value of this limiter: ' .. key, 0)
  end
end

-- One limit alone, which most checks are. One table serves all of them, one after the other.
local scratch = {}
local function decideOne(first, legs, take, tell)
  local terms, key = legs[1], keys[first]
  local algorithm = terms.algorithm
  local state, time = open(key, terms, scratch)
  if not state then state = algorithm.blank(scratch, terms, time) end
  local wait, free, reset = algorithm.decide(state, terms, time, legs[2], take)
  if wait ~= 0 then checkWait(wait, key) end
  if take and wait == 0 then algorithm.write(key, state, terms) end
  tell(time, wait, free, reset)
  return wait == 0
end

-- Several limits: nothing is charged before all have said yes, and nothing can say no after that.
local function decideAll(first, legs, take, tell)
  local states, times, answers, fits = {}, {}, {}, true
  for leg = 1, #legs / 2 do
    local terms, state = legs[2 * leg - 1], {}
    local isHeld, time = open(keys[first + leg - 1], terms, state)
    if not isHeld then terms.algorithm.blank(state, terms, time) end
    states[leg], times[leg] = state, time
    answers[leg] = { terms.algorithm.decide(state, terms, time, legs[2 * leg], false) }
    checkWait(answers[leg][1], keys[first + leg - 1])
    fits = fits and answers[leg][1] == 0
  end
  -- All are charged before the first is written: a value that cannot be read charges none of them.
  for leg = 1, take and fits and #legs / 2 or 0 do
    local terms = legs[2 * leg - 1]
    answers[leg] = { terms.algorithm.decide(states[leg], terms, times[leg], legs[2 * leg], true) }
  end
  for leg = 1, #legs / 2 do
    local terms = legs[2 * leg - 1]
    if take and fits then terms.algorithm.write(keys[first + leg - 1], states[leg], terms) end
    tell(times[leg], unpack(answers[leg]))
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

-- An admission is remembered beside each of its limits, and returned again instead of repeated, if
-- it is the same call: the same id, limits and costs. All of its limits must remember it, so a
-- reset of one of them makes the id new.
local function decideOnce(first, legs, rememberMs, id)
  local count, isHeld = #legs / 2, true
  local name, held = nameOf('i', id, first, legs), {}
  for leg = 1, count do
    held[leg] = records.find(keys[first + count + leg - 1], name)
    isHeld = isHeld and held[leg]
  end
  if isHeld then
    say(0)
    for leg = 1, count do
      local at, free, reset = records.decided(keys[first + count + leg - 1], held[leg])
      sayTimed(at, 0, free, reset)
    end
    return
  end
  say(1)
  local before = size
  local kind = count == 1 and decideOne or decideAll
  if not kind(first, legs, true, sayTimed) then return end
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
  say(done)
end

-- The state after a change, or nil if nothing was changed; and the change.
local function changed(key, terms, charged, delta, cost)
  local state, time = open(key, terms, {})
  if not state then return nil, 0 end
  local change, isChanged = terms.algorithm.adjust(state, terms, time, charged, delta, cost)
  return (change ~= 0 or isChanged) and state, change
end

local function adjust(first, terms, charged, delta, cost)
  local state, change = changed(keys[first], terms, charged, delta, cost)
  if state then terms.algorithm.write(keys[first], state, terms) end
  say(change)
end

-- Everything is read before the first is written, so a value that cannot be read changes nothing.
local function spend(first, legs, untilMs, mostMs, id)
  local count, name, states, changes = #legs / 4, nameOf('r', id, first, {}), {}, {}
  local memory = keys[first + count]
  if records.find(memory, name) then return say(0) end
  for leg = 1, count do
    states[leg], changes[leg] = changed(keys[first + leg - 1], unpack(legs, 4 * leg - 3, 4 * leg))
  end
  -- After that the charges can change nothing any more.
  local expiresMs = min(untilMs, now + 2 * mostMs)
  if expiresMs > now and not records.store(memory, name, records.markBytes(expiresMs), expiresMs) then
    return say(0)
  end
  say(1)
  for leg = 1, count do
    local terms = legs[4 * leg - 3]
    if states[leg] then terms.algorithm.write(keys[first + leg - 1], states[leg], terms) end
    say(changes[leg])
  end
end

local function unspend(first, id)
  say(call('HDEL', keys[first], nameOf('r', id, first, {})))
end

local function inspect(key, terms)
  local state, time = open(keys[key], terms, {})
  local free, reset, _ = 0, 0, 0
  if state then _, free, reset = terms.algorithm.decide(state, terms, time, 0, false) end
  if reset == 0 then return say(0) end
  sayTimed(1, time, free, reset)
  local a, b, c = terms.algorithm.cells(state, terms)
  say(a)
  say(b)
  say(c)
  local count, parts = 0, {}
  if terms.algorithm.entries then
    count, parts = terms.algorithm.entries(state, terms, time, MOST_INSPECTED)
  end
  say(count)
  say(#parts)
  for _, part in ipairs(parts) do
    say(part.base)
    say(part.before)
    sayList(part.numbers)
  end
end

local function reset(first)
  say(call('UNLINK', keys[first], keys[first + 1]))
end

-- What an error says. Numbers that make no sense together are those of a value that was damaged.
local function wordsOf(problem, key)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  if string.find(text, 'bad argument') or string.find(text, 'attempt to') then
    return 'ERR not a value of this limiter: ' .. key .. ' (' .. text .. ')'
  end
  return text
end

-- Does `work(first key, ...)` `count` times, `each` keys on each time. One that fails says its error
-- instead of what it had begun to say, and the next one goes on.
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
      say('!' .. wordsOf(problem, keys[nextKey]))
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

-- Does the run at `place`; the place of the next one.
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
    repeatedly(numbers[1], #legs / 2, #legs == 2 and decideOne or decideAll, legs, kind == 'check', sayLimit)
  end
  return place + 1
end

local count = whole(ARGV[2])
for place = 1, count do policies[place] = policyOf(ARGV[2 + place]) end
local place = 3 + count
while place <= #ARGV do place = doRun(place) end
return reply
