-- token-bucket: a bucket holds up to `burst` tokens and gains L every W at a constant rate. A call
-- takes c tokens. The value holds tokens*W (the "level"), which grows by L each millisecond up to
-- burst*W. A cost fits when `level >= c*W`.
--
-- Value: the time of the newest charge (ms), the level then (negative after an overcharge), and how
-- long after the charge the key expires (ms), which a process with another limit may have written.
build['token-bucket'] = function()
  local function levelAt(state, params, time)
    return min(params.capacity * params.window, state.level + (time - state.charged) * params.limit)
  end

  local function fullAt(state, params)
    return state.charged + ceil((params.capacity * params.window - state.level) / params.limit)
  end

  return {
    read = function(key, state, params)
      local charged, level, lasts = readCells(key, state)
      if not charged then return nil end
      state.charged, state.level, state.expires = charged, level, charged + lasts
      -- If the limit was lowered since the charge, the key would expire before the bucket is full.
      local full = fullAt(state, params)
      if state.expires < full and full > now then call('PEXPIRE', key, lifetime(full)) end
      return charged
    end,

    blank = function(state, params, time)
      state.charged, state.level, state.expires = time, params.capacity * params.window, nil
      return state
    end,

    write = function(key, state, params)
      local full = fullAt(state, params)
      -- A sum above 2^53 is rounded, so the difference may be 1 above MOST.
      local lasts = min(full - state.charged, MOST)
      writeCells(key, state, full, state.charged, state.level, lasts)
    end,

    decide = function(state, params, time, cost, take)
      local length = params.window
      local level = levelAt(state, params, time)
      local missing = cost * length - level
      local wait = missing <= 0 and 0 or ceil(missing / params.limit)
      if take and wait == 0 then
        level = level - cost * length
        state.charged, state.level = time, level
      end
      return wait, floor(level / length), ceil((params.capacity * length - level) / params.limit)
    end,

    adjust = function(state, params, time, charged, delta, cost)
      local full = params.capacity * params.window
      -- The lowest level: its distance from a full bucket is still an exact integer.
      local deepest = full - MOST
      local before = levelAt(state, params, time)
      -- The bucket refills a charge at its rate: a refund returns only the part still missing.
      local missing = max(cost * params.window - (time - charged) * params.limit, 0)
      local change = max(delta * params.window, -missing)
      -- Applied at the newest charge, so that the latest time in the state does not change.
      local level = max(state.level - change, deepest)
      state.level = min(level, full)
      -- The second value requests a write even if the bucket is full now and the change is 0: the
      -- change matters if the clock steps back.
      return ceil((before - levelAt(state, params, time)) / params.window), true
    end,

    cells = function(state, params)
      return fullAt(state, params), state.level, state.charged
    end,
  }
end
