-- Does a batch of operations, in order, at one instant. One that fails does not fail the others.
--
-- ARGV   now       ms since the epoch, or '' for the server's own time
--        p         how many policies follow
--        policies  `algorithm limit window bucket capacity`, windows and buckets in ms
--        runs      operations that follow one another and are alike are one run:
--          check n p1 c1 [p2 c2 ...]   n checks, each of these policies and costs; a key for each
--          peek n p1 c1 [p2 c2 ...]    the same without charging
--          once n p1 c1 [p2 c2 ...] m  n checks that are done once: a further key remembers each
--                                      for m ms
--          adjust p charged delta cost   changes by `delta` the `cost` that was charged at `charged` ms
--          inspect p
--          reset n                     makes n keys new
-- KEYS   those of the operations, in order
--
-- Reply: `now`, then for each operation
--          check, peek   for each limit: wait, free, reset; before them, if the limit was decided
--                        at a later time than now, by how much, as a negative number
--          once          1 if it was decided, 0 if it was remembered; then for each limit: at, wait,
--                        free, reset
--          adjust        the change made
--          inspect       expired or new: 0. Else 1, at, free, reset, three cells, how many entries
--                        count, how many of them follow, and their times and costs
--          reset         how many keys there were
--        or, for one that failed, the error as text after a `!`.
local reply, size = { now }, 1
local policies, nextKey, keys = {}, 1, KEYS

-- Some clients misread integers close to 2^53, so large ones go as text.
local LARGE = 2^52
-- As many entries as `inspect` returns.
local MOST_INSPECTED = 1000
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
  if wait ~= 0 and not (wait >= 1 and wait <= MOST) then
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
  checkWait(wait, key)
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

-- An admission is remembered, and answered again instead of repeated: if it is the same call, of the
-- same limits and costs. Another call under the same id is one of its own.
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
  local count, entries = 0, {}
  if terms.algorithm.entries then
    count, entries = terms.algorithm.entries(state, terms, time, MOST_INSPECTED)
  end
  local first = max(#entries - 2 * MOST_INSPECTED, 0) + 1
  say(count)
  say((#entries + 1 - first) / 2)
  for place = first, #entries do
    local number = entries[place]
    if number < LARGE then
      size = size + 1
      reply[size] = number
    else
      say(number)
    end
  end
end

local function reset(first)
  say(call('UNLINK', keys[first]))
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
return reply
