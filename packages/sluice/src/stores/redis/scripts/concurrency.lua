-- concurrency: a hold of cost c that was taken or renewed at t counts while `now < t + lease`, unless
-- it is released. A cost c fits when `cost(counting holds) + c <= N`. The window is the lease.
--
-- Value: a sorted set. Holds have positive scores, all other members have scores of at most 0:
--
--   F or F:c   a hold with the fence F and the cost 1 or c; its score is when it expires, in ms
--   F=text     the label of this hold; its score is -F, so that it is found without a search
--   t          minus the cost of all holds, including expired ones that are not deleted yet
--   f          minus the fence of the last hold
--   k          minus the time of the last hold or renewal, in ms: no decision is earlier
--
-- Expired holds are deleted when the next hold is taken or renewed. Until then they would count
-- again if the clock stepped back, as in a sliding log.
build.concurrency = function()
  local FENCES_PER_MS, CHUNK, FEW, OWN_MEMBERS = 1024, 1000, 16, 3
  local format, match = string.format, string.match

  local function notHolds(key)
    error('ERR not holds of this limiter: ' .. key, 0)
  end

  -- Returns the integer whose negative is stored as a score. If `sign` is 1, the score is the integer.
  local function numberOf(key, score, sign)
    local number = (sign or -1) * tonumber(score)
    if number % 1 ~= 0 or number < 0 or number > MOST then notHolds(key) end
    return number + 0
  end

  -- Returns the fence, as text, and the cost of a hold.
  local function parse(key, member)
    local fence, cost = match(member, '^(%d+):?(%d*)$')
    if not fence then notHolds(key) end
    cost = cost == '' and 1 or tonumber(cost)
    if cost < 1 or cost > MOST then notHolds(key) end
    return fence, cost
  end

  local function memberOf(fence, cost)
    return cost == 1 and format('%.0f', fence) or format('%.0f:%.0f', fence, cost)
  end

  -- Returns the member with the label of a hold, and the label; or nil.
  local function findLabel(key, fence)
    for _, member in ipairs(call('ZRANGEBYSCORE', key, '-' .. fence, '-' .. fence)) do
      local text = match(member, '^' .. fence .. '=(.*)$')
      if text then return member, text end
    end
  end

  -- Whether all holds have the cost 1, so that they can be counted instead of read. Deleting 5,000
  -- expired holds then takes 1.3 ms instead of 8.6 ms.
  local function isPlain(state)
    return call('ZCOUNT', state.key, 1, '+inf') == state.total
  end

  -- Returns the cost of the holds that have expired at `time` but are not deleted.
  local function passedAt(state, params, time)
    if state.passedAt == time then return state.passed end
    state.passedAt, state.passed, state.hasExpired = time, 0, false
    if state.isStored and state.known + params.window <= time then
      state.passed = state.total
    elseif state.isStored then
      local count = call('ZCOUNT', state.key, 1, time)
      state.hasExpired = count > 0
      if count > 0 and isPlain(state) then
        state.passed = count
      elseif count > 0 then
        for _, member in ipairs(call('ZRANGEBYSCORE', state.key, 1, time)) do
          local _, cost = parse(state.key, member)
          state.passed = state.passed + cost
        end
      end
      if state.passed > state.total then notHolds(state.key) end
    end
    return state.passed
  end

  -- Returns the time until the oldest holds with a cost of at least `needed` have expired.
  local function waitFor(state, time, needed)
    local freed, seen = 0, 0
    -- If all holds have the cost 1, read only the last one that must expire.
    if needed > FEW and isPlain(state) then freed, seen = needed - 1, needed - 1 end
    while state.isStored do
      local some = call('ZRANGEBYSCORE', state.key, time + 1, '+inf', 'WITHSCORES', 'LIMIT', seen,
        min(needed - freed, CHUNK))
      for place = 1, #some, 2 do
        local _, cost = parse(state.key, some[place])
        freed = freed + cost
        if freed >= needed then return numberOf(state.key, some[place + 1], 1) - time end
      end
      if #some == 0 then break end
      seen = seen + #some / 2
    end
    notHolds(state.key)
  end

  -- Returns the time until all holds have expired.
  local function resetOf(state, time)
    if state.total == state.passed then return 0 end
    local newest = call('ZREVRANGEBYSCORE', state.key, '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    return max(numberOf(state.key, newest[2], 1) - time, 0)
  end

  -- Changes `state` so that the hold counts from `time` on, and expired holds are deleted.
  local function hold(state, params, time, member)
    local passed = passedAt(state, params, time)
    state.isReplaced = state.isReplaced or state.isStored and passed == state.total
    state.total, state.known, state.member = state.total - passed, time, member
  end

  local function deleteExpired(key, state)
    if call('ZCOUNT', key, '-inf', 0) > OWN_MEMBERS then
      for _, member in ipairs(call('ZRANGEBYSCORE', key, 1, state.passedAt)) do
        local label = findLabel(key, (parse(key, member)))
        if label then call('ZREM', key, label) end
      end
    end
    call('ZREMRANGEBYSCORE', key, 1, state.passedAt)
  end

  -- Publishes the name of the key, without the prefix, to processes that wait for a release. Uses
  -- pcall: if the Redis user may not publish, the hold is released anyway.
  local function publish(key, params)
    redis.pcall('PUBLISH', params.rest, match(key, '{.*$') or key)
  end

  return {
    read = function(key, state)
      local scores = redis.pcall('ZMSCORE', key, 't', 'f', 'k')
      if scores.err then notHolds(key) end
      local total, fence, known = scores[1], scores[2], scores[3]
      state.key, state.isStored, state.isReplaced = key, false, false
      state.passedAt, state.hasExpired, state.member = nil, false, nil
      state.released, state.label, state.total = nil, nil, 0
      state.fence = fence and numberOf(key, fence) or 0
      if not total or not known then
        -- After a reset, only the last fence is left.
        local isEmpty = call('EXISTS', key) == 0 or fence and call('ZCOUNT', key, '-inf', '+inf') == 1
        if not isEmpty then notHolds(key) end
        return nil
      end
      state.isStored, state.total, state.known = true, numberOf(key, total), numberOf(key, known)
      return state.known
    end,

    blank = function(state, params, time)
      -- The fence is kept, so that fences increase even if the clock stepped far back.
      state.isReplaced, state.isStored, state.total, state.known = state.isStored, false, 0, time
      return state
    end,

    decide = function(state, params, time, cost, take)
      local free = params.limit - (state.total - passedAt(state, params, time))
      if cost > free then
        return waitFor(state, time, cost - free), free, resetOf(state, time), 0
      end
      if not take then return 0, free, resetOf(state, time), 0 end
      state.fence = max(state.fence + 1, time * FENCES_PER_MS)
      hold(state, params, time, memberOf(state.fence, cost))
      state.total = state.total + cost
      if label ~= '' then state.label = format('%.0f=', state.fence) .. label end
      return 0, free - cost, params.window, state.fence
    end,

    -- A delta of 0 renews the hold with this fence. Any other delta releases it.
    adjust = function(state, params, time, _, delta, cost, fence)
      local member = memberOf(fence, cost)
      local expires = call('ZMSCORE', state.key, member)[1]
      if not expires or tonumber(expires) <= time then return 0 end
      if cost > state.total then notHolds(state.key) end
      if delta == 0 then
        hold(state, params, time, member)
        return cost
      end
      state.released, state.total = member, state.total - cost
      return -cost
    end,

    write = function(key, state, params)
      if state.released then
        call('ZREM', key, state.released, findLabel(key, (parse(key, state.released))) or '')
        call('ZADD', key, 0 - state.total, 't')
        return publish(key, params)
      end
      if state.isReplaced then
        call('UNLINK', key)
      elseif state.hasExpired then
        deleteExpired(key, state)
      end
      local expires = state.known + params.window
      local own = { expires, state.member, 0 - state.total, 't', 0 - state.fence, 'f', 0 - state.known, 'k' }
      if state.label then own[9], own[10] = 0 - state.fence, state.label end
      call('ZADD', key, unpack(own))
      call('PEXPIRE', key, lifetime(expires))
    end,

    -- Deletes all holds. The last fence is kept for a lease: otherwise a hold of the same
    -- millisecond would get the fence of a deleted hold.
    reset = function(key, params)
      local fence = redis.pcall('ZMSCORE', key, 'f')[1]
      local isDeleted = call('UNLINK', key)
      if type(fence) ~= 'string' then return isDeleted end
      call('ZADD', key, fence, 'f')
      call('PEXPIRE', key, lifetime(now + params.window))
      publish(key, params)
      return isDeleted
    end,

    cells = function(state, params)
      return state.known + params.window, state.total, 0
    end,

    -- Returns how many holds count, and the newest `most`: member, expiry and label of each.
    holds = function(state, time, most)
      if not state.isStored then return 0, {} end
      local count = call('ZCOUNT', state.key, time + 1, '+inf')
      local newest = call('ZREVRANGEBYSCORE', state.key, '+inf', time + 1, 'WITHSCORES', 'LIMIT', 0, most)
      local isLabelled, list = call('ZCOUNT', state.key, '-inf', 0) > OWN_MEMBERS, {}
      for place = 1, #newest, 2 do
        local fence, cost = parse(state.key, newest[place])
        local expires, text, _ = numberOf(state.key, newest[place + 1], 1), nil, nil
        if isLabelled then _, text = findLabel(state.key, fence) end
        list[#list + 1] = fence
        list[#list + 1] = format('%.0f', cost)
        list[#list + 1] = format('%.0f', expires)
        list[#list + 1] = text or ''
      end
      return count, list
    end,
  }
end
