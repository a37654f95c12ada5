-- Leases: units of a log that processes have borrowed to admit calls on their own. Until a lease is
-- returned or has ended, all its units count. A holder reports how many units it has spent; these
-- become an entry of the log, dated at the report. If a lease ends without a report, all its units
-- become an entry dated at its end. So an entry is never older than the admissions that it stands
-- for, and no window contains more than the limit.
--
-- The leases of a limit are the field `l` of its records (records.lua), ordered by their ends. Sizes
-- in bytes; `units` have not been reported as spent, `refunded` are units that were spent, not yet
-- reported and refunded, `reported` is the total that the holder has reported, and `number` that of
-- the newest request, which was decided at `start`:
--
--   'l' 1 | until 7 | for each lease: id 6 | units 7 | refunded 7 | reported 7 | start 7 | end 7 |
--   number 7
local MOST_LEASES = 128

-- Adds the leases of a limit to the log in `state`: those that have ended become entries. Returns the
-- state, and a table with the leases that have not ended and their units; nil without leases.
local function openLeases(name, state, params, time)
  records = records or buildRecords()
  local stored = records.leases(name)
  if not stored then return state, nil end
  local live, units, isChanged, isRecorded = {}, 0, false, false
  for _, lease in ipairs(stored) do
    if lease.ends - time > params.window then
      -- A wrong clock has written it.
      isChanged = true
    elseif lease.ends > time then
      live[#live + 1], units = lease, units + lease.units - lease.refunded
    else
      isChanged = true
      local spent = lease.units - lease.refunded
      if spent > 0 and params.algorithm.leaves(params, lease.ends) > time then
        state = state or params.algorithm.blank({}, params, lease.ends)
        params.algorithm.record(state, params, lease.ends, spent)
        isRecorded = true
      end
    end
  end
  return state, { list = live, units = units, isChanged = isChanged, isRecorded = isRecorded }
end

-- Writes a log with leases, and the leases, as far as they have changed. The log first: if the second
-- write fails, too much counts, not too little.
local function writeLeased(key, name, state, params, leases)
  if leases.isRecorded then params.algorithm.write(key, state, params) end
  if leases.isChanged then records.storeLeases(name, leases.list, params) end
end

-- Decides one limit whose lent units count too. Returns the same values as `decide`.
local function decideLeased(state, params, time, cost, take, leases)
  local algorithm = params.algorithm
  if not leases or leases.units == 0 then return algorithm.decide(state, params, time, cost, take) end
  local rest = setmetatable({ limit = params.limit - leases.units }, { __index = params })
  local fits = cost <= rest.limit
  local wait, free, reset = algorithm.decide(state, rest, time, fits and cost or 0, take and fits)
  local last = 0
  -- All entries leave the window before the units of the first lease that ends.
  local lent = leases.units
  for _, lease in ipairs(leases.list) do
    last = algorithm.leaves(params, lease.ends) - time
    if not fits and lent > params.limit - cost then wait = last end
    lent = lent - (lease.units - lease.refunded)
  end
  return wait, free, max(reset, last)
end

local function findLease(leases, id)
  for place, lease in ipairs(leases and leases.list or {}) do
    if lease.id == id then return place, lease end
  end
end

-- Opens the log of a limit with leases.
local function openLeased(first, params)
  local state, time = open(keys[first], params, {})
  local leases
  state, leases = openLeases(keys[first + 1], state, params, time)
  state = state or params.algorithm.blank({}, params, time)
  return state, time, leases or { list = {}, units = 0 }
end

-- Renews the lease `id`, or begins it. Its holder has spent `spent` units in total, of which `acked`
-- were reported by a command that had a reply. It gets units until it has `want`, but at most the
-- part `thousandths / 1000` of the free ones, for `length` ms. If it has more than `want`, the rest is
-- returned. `ends` is when the lease ends, as far as the holder knows. A copy of the request `number`
-- changes nothing, and an earlier request, which a newer one has overtaken, gets no units.
local function lend(first, params, id, number, want, length, thousandths, spent, acked, ends)
  local state, time, leases = openLeased(first, params)
  local place, lease = findLease(leases, id)
  if lease and number <= lease.number then
    addReply(number == lease.number and lease.units or 0)
    return addReply(lease.start)
  end
  local used, kept = 0, 0
  if lease then
    table.remove(leases.list, place)
    leases.units = leases.units - (lease.units - lease.refunded)
    leases.isChanged, used = true, min(max(spent - lease.reported, 0), lease.units)
    kept = min(lease.units - used, want)
    used = max(used - lease.refunded, 0)
  elseif ends >= time then
    -- This server has lost the lease: it was a replica that had not received it.
    used = max(spent - acked, 0)
  end
  if used > 0 then
    params.algorithm.record(state, params, time, used)
    leases.isRecorded = true
  end
  leases.units = leases.units + kept
  local _, free = decideLeased(state, params, time, 0, false, leases)
  local units = kept + max(min(want - kept, floor(free * thousandths / 1000)), 0)
  if #leases.list >= MOST_LEASES then units = 0 end
  if units > 0 then
    local own = { id = id, units = units, refunded = 0, reported = spent, number = number }
    own.start, own.ends = time, time + length
    leases.list[#leases.list + 1], leases.isChanged = own, true
    table.sort(leases.list, function(a, b) return a.ends < b.ends end)
  end
  writeLeased(keys[first], keys[first + 1], state, params, leases)
  addReply(units)
  addReply(time)
end

-- Changes a charge that was made with a lease. Returns the change made.
--
-- A charge after the last report is refunded from the units of its lease. Any other charge takes units
-- from the oldest entries. That is safe whichever entry stands for the charge: the entries that
-- remain are newer. If there are not enough, another refund has taken the entry of this charge, and
-- the units of a lease stand for it: perhaps of another lease. So they are not refunded.
local function adjustLeased(state, params, time, charged, delta, id, leases)
  if params.algorithm.leaves(params, charged) <= time then return 0 end
  if delta > 0 then
    leases.isRecorded = true
    return params.algorithm.record(state, params, time, delta)
  end
  local _, lease = findLease(leases, id)
  if lease and charged > lease.start then
    local units = min(-delta, lease.units - lease.refunded)
    lease.refunded, leases.isChanged = lease.refunded + units, true
    return -units
  end
  local change = params.algorithm.removeOldest(state, params, time, -delta)
  leases.isRecorded = leases.isRecorded or change < 0
  return change
end

-- Deletes the log, but not the leases that have not ended: their holders may still admit calls.
local function resetLeased(first, params)
  local _, time, leases = openLeased(first, params)
  local deleted = call('UNLINK', keys[first], keys[first + 1])
  records.storeLeases(keys[first + 1], leases.list, params)
  return deleted
end
