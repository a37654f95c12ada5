-- token-bucket: holds up to `burst` tokens, gains L every W, evenly, and a call takes c. What is kept
-- is tokens*W (the "level"), which grows by L each millisecond up to burst*W. A cost fits when
-- `level >= c*W`.
--
-- Value: the time of the newest charge (ms), the level then (negative after an overcharge), and how
-- long after that the key expires (ms), which another process with another limit may have written.
build['token-bucket'] = function()
  local function levelAt(state, terms, time)
    return min(terms.capacity * terms.window, state.level + (time - state.charged) * terms.limit)
  end

  local function fullAt(state, terms)
    return state.charged + ceil((terms.capacity * terms.window - state.level) / terms.limit)
  end

  return {
    read = function(key, state, terms)
      local charged, level, lasts = readCells(key, state)
      if not charged then return nil end
      state.charged, state.level, state.expires = charged, level, charged + lasts
      -- The limit has been lowered since: the bucket is full later than the key would expire.
      local full = fullAt(state, terms)
      if state.expires < full and full > now then call('PEXPIRE', key, lifetime(full)) end
      return charged
    end,

    blank = function(state, terms, time)
      state.charged, state.level, state.expires = time, terms.capacity * terms.window, nil
      return state
    end,

    write = function(key, state, terms)
      local full = fullAt(state, terms)
      -- A sum beyond 2^53 is rounded, so the difference may be one too many.
      local lasts = min(full - state.charged, MOST)
      writeCells(key, state, full, state.charged, state.level, lasts)
    end,

    decide = function(state, terms, time, cost, take)
      local length = terms.window
      local level = levelAt(state, terms, time)
      local missing = cost * length - level
      local wait = missing <= 0 and 0 or ceil(missing / terms.limit)
      if take and wait == 0 then
        level = level - cost * length
        state.charged, state.level = time, level
      end
      return wait, floor(level / length), ceil((terms.capacity * length - level) / terms.limit)
    end,

    adjust = function(state, terms, time, charged, delta, cost)
      local full = terms.capacity * terms.window
      -- The deepest debt is the one whose distance from a full bucket is still an exact integer.
      local deepest = full - MOST
      local before = levelAt(state, terms, time)
      -- The bucket refills a charge at its rate: a refund returns only the part still missing.
      local missing = max(cost * terms.window - (time - charged) * terms.limit, 0)
      local change = max(delta * terms.window, -missing)
      -- Applied at the newest charge, so that the state knows no later time than before.
      local level = max(state.level - change, deepest)
      state.level = min(level, full)
      -- A bucket that is full by now has not changed now, but did for a clock that steps back.
      return ceil((before - levelAt(state, terms, time)) / terms.window), true
    end,

    cells = function(state, terms)
      return fullAt(state, terms), state.level, state.charged
    end,
  }
end
