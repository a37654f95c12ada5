-- The main part of the general script. Executes a batch of operations in order, atomically. An
-- operation that fails does not affect the others.
--
-- ARGV   now       ms since the epoch, or '' for the server's own time
--        p         the number of policies that follow
--        policies  `algorithm limit window bucket capacity`, windows and buckets in ms. Then, for
--                  concurrency, the channel on which releases are published; for a policy with
--                  blocks, `for factor max forget`; for a policy with leases, `lease`
--        runs      consecutive operations that differ only in their keys and ids are one run. p is
--                  the place of a policy in `policies`, counted from 1, and c is a cost:
--          check n p1 c1 [p2 c2 ...]   n checks of these policies and costs; keys: one per limit
--          peek n p1 c1 [p2 c2 ...]    n checks without charging; keys: one per limit
--          once n p1 c1 [p2 c2 ...] m  n checks with an idempotency id, recorded for m ms; keys:
--                                      one per limit, then one per limit for its records
--                                      (records.lua); n ids follow the run
--          label                       the holds of the runs from here on get the label that follows
--          forget n p1 c1 [...] m      deletes the records of n such checks; keys and ids as above
--          adjust p at delta cost f    changes by `delta` the `cost` that was charged at `at` ms; f is
--                                      the fence of a hold, or the id of a lease, or 0. A delta of 0
--                                      renews the hold
--          spend [p at delta cost f ...] u m   applies the adjustments of a receipt, and records
--                                      it as used until u, at most 2m ms from now; keys: one per
--                                      adjustment, then the key of the records, of each limit if one
--                                      of them has leases; the id follows
--          lend p id number want length part spent acked ends   renews or begins a lease (leases.lua); keys:
--                                      that of the limit, then that of its records
--          unspend                     marks a receipt as unused; key: that of the records; the id
--                                      of the receipt follows
--          inspect p                   reads the state of a key
--          reset n [p 0]               deletes n keys, each with its records; p for concurrency and
--                                      for leases
--          block p m                   blocks for m ms, or ends the block if m is 0: the key for
--                                      records
-- KEYS   the keys of all operations, in order. If a limit of a check, peek, adjustment or inspection
--        has blocks or leases, the keys of its limits are followed by the key for the records of each.
--        An adjustment of a limit with blocks has one key
--
-- Reply: `now`, then for each operation
--          check, peek   for each limit: wait, free, reset. If the limit was decided at a later
--                        time than `now`, these numbers are preceded by `now` minus that time. They
--                        are followed by the fence of the hold (concurrency), or by the end of the
--                        running block, or 0 (policies with blocks)
--          once          1 if the check was decided now, 0 if its decision was recorded before;
--                        then for each limit: the time of the decision, wait, free, reset, and the
--                        fence or the end of a block
--          adjust        the change made
--          lend          the number of units lent, and the time of the decision
--          spend         0 if the receipt was used before; else 1, and each change made
--          forget, unspend   the number of records deleted
--          inspect       0 if nothing counts. Else 1, the time, free, reset, three cells, the
--                        number of entries that count, and the number of chunks that follow, which
--                        contain the newest entries. For each chunk: its base, the total before it,
--                        and a list of times and totals (log-entries.lua). For concurrency, the number of holds that count and a
--                        list of the newest follow: fence, cost, expiry and label of each. For a
--                        policy with blocks: the end of the last block and the number of blocks in a
--                        row, or 0 and 0. For a policy with leases: a list with the id, the units and
--                        the end of each
--          reset         the number of keys deleted
--          block         1 if a block was stored or deleted, else 0
--        or, for an operation that failed, `!` followed by the error as text.
-- Decides a check of one limit, which is the most frequent kind. All such checks reuse the table
-- `scratch`, which avoids allocating one. `legs` has two values for each limit: its params and the
-- cost. `first` is the index of the first key.
local scratch = {}
-- The last denial of a limit with leases. It changes nothing, so the next checks of the same key in
-- its run, which has its own `legs`, have the same result. A hot key has many checks in a run.
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

-- Decides a check of several limits. The limits are charged only if all of them have room.
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
  -- Limits without a running block that do not fit by themselves start one.
  for leg, inRow in pairs(take and not fits and blocks or {}) do
    if results[leg][1] > 0 then
      local endMs = startBlock(keys[first + count + leg - 1], legs[2 * leg - 1], times[leg], inRow)
      results[leg] = { withBlock(endMs, times[leg], unpack(results[leg])) }
    end
  end
  -- Charges all states before it writes the first one, so that an invalid value of one key raises
  -- an error before anything is written.
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

-- Decides a check with an idempotency id. An admission is recorded with each of its limits, and
-- returned again for the same id, keys and costs. The record must exist for all limits, so a reset
-- of one limit makes the id new.
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

-- Returns a function that writes the adjusted state (nil if there is nothing to write), and the
-- change made. `name` is the key of the records, and `fence` may be the id of a lease.
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

-- Applies the adjustments of a receipt, unless the receipt is recorded as used. Reads all keys
-- before the first write, so that an invalid value of one key changes nothing.
local function spend(first, legs, untilMs, mostMs, id)
  local count, name, writes, changes = #legs / 5, nameOf('r', id, first, {}), {}, {}
  local memory = keys[first + count]
  if records.find(memory, name) then return addReply(0) end
  for leg = 1, count do
    local key, own = keys[first + leg - 1], keys[first + count + leg - 1]
    writes[leg], changes[leg] = changed(key, own, unpack(legs, 5 * leg - 4, 5 * leg))
  end
  -- After this time, adjustments of these charges have no effect.
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
  -- A block is reported even if nothing of the key counts.
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

-- Returns the text of an error. Errors that Lua itself raises are caused by a damaged value.
local function errorText(problem, key)
  local text = type(problem) == 'table' and problem.err or tostring(problem)
  if string.find(text, 'bad argument') or string.find(text, 'attempt to') then
    return 'ERR not a value of this limiter: ' .. key .. ' (' .. text .. ')'
  end
  return text
end

-- Calls `work(index of its first key, ...)` `count` times, advancing by `each` keys. If a call
-- fails, the error replaces the values that the call has added to the reply.
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

-- Returns the numbers of a run from index `from` on, in groups of `size`. The first number of each
-- group is replaced by the params of that policy.
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
return reply
