-- token-bucket: a bucket holds up to `burst` tokens and gains L every W at a constant rate. A call
-- of cost c takes c tokens. shared/token-bucket.lua has the formula.
--
-- Value: the time of the newest charge (ms), the level at that time (tokens*W, negative after an
-- overcharge), and the time from that charge to the expiry of the key (ms). The third number depends
-- on the limit, which may differ in the process that wrote it.
build['token-bucket'] = function()
  local function levelAt(state, params, time)
    return min(params.capacity * params.window, state.level + (time - state.charged) * params.limit)
  end

  local function fullAt(state, params)
    local charged, level, capacity = state.charged, state.level, params.capacity
    local length, limit = params.window, params.limit
    -- include shared/token-bucket-full
    return full
  end

  return {
    read = function(key, state, params)
      local charged, level, lasts = readCells(key)
      if not charged then return nil end
      local expired = charged + lasts
      state.charged, state.level, state.expired = charged, level, expired
      local full = fullAt(state, params)
      -- include shared/token-bucket-extend
      return charged
    end,

    blank = function(state, params, time)
      state.charged, state.level, state.expired = time, params.capacity * params.window, nil
      return state
    end,

    write = function(key, state, params)
      local full = fullAt(state, params)
      -- `full` may be a sum above 2^53, which is rounded, so the difference may be 1 above MOST.
      local lasts = min(full - state.charged, MOST)
      writeCells(key, state.expired, full, state.charged, state.level, lasts)
    end,

    decide = function(state, params, time, cost, take)
      local limit, length, capacity = params.limit, params.window, params.capacity
      local charged, level = state.charged, state.level
      -- include shared/token-bucket
      state.charged, state.level = charged, level
      return wait, free, reset
    end,

    adjust = function(state, params, time, charged, delta, cost)
      local full = params.capacity * params.window
      -- The lowest level whose difference from a full bucket is an exact integer.
      local deepest = full - MOST
      local before = levelAt(state, params, time)
      -- The bucket refills a charge over time. A refund returns only the part not refilled yet.
      local missing = max(cost * params.window - (time - charged) * params.limit, 0)
      local change = max(delta * params.window, -missing)
      -- Changes the level at the time of the newest charge, so that the latest time in the state
      -- stays the same.
      local level = max(state.level - change, deepest)
      state.level = min(level, full)
      -- The second value requests a write even if the bucket is full and the returned change is 0:
      -- if the clock steps back, the bucket is not full.
      return ceil((before - levelAt(state, params, time)) / params.window), true
    end,

    cells = function(state, params)
      return fullAt(state, params), state.level, state.charged
    end,
  }
end
