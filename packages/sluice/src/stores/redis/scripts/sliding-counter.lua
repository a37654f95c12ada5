-- sliding-counter: shared/sliding-counter.lua has the formula.
--
-- Value: the number of the newest window, the cost in that window, and the cost in the window before.
build['sliding-counter'] = function()
  local function expires(window, params)
    return (window + 2) * params.window
  end

  return {
    read = function(key, state, params)
      local a, b, c = readCells(key)
      if not a then return nil end
      local isCells, length = true, params.window
      local newest, current, previous, known, expired
      -- include shared/sliding-counter-state
      if not isCells then notCounter(key) end
      state.newest, state.current, state.previous, state.expired = newest, current, previous, expired
      return known
    end,

    blank = function(state, params, time)
      state.newest, state.current, state.previous = floor(time / params.window), 0, 0
      state.expired = nil
      return state
    end,

    write = function(key, state, params)
      local newest = state.newest
      writeCells(key, state.expired, expires(newest, params), newest, state.current, state.previous)
    end,

    decide = function(state, params, time, cost, take)
      local limit, length = params.limit, params.window
      local newest, current, previous = state.newest, state.current, state.previous
      -- include shared/sliding-counter
      if take and wait == 0 then
        state.newest, state.current, state.previous = newest, current, previous
      end
      return wait, free, reset
    end,

    adjust = function(state, params, time, charged, delta)
      local window = floor(charged / params.window)
      if expires(window, params) <= time then return 0 end
      local change = 0
      if window == state.newest then
        state.current, change = adjusted(state.current, delta, params)
      elseif window == state.newest - 1 then
        state.previous, change = adjusted(state.previous, delta, params)
      end
      return change
    end,

    cells = function(state, params)
      return expires(state.newest, params), state.current, state.previous
    end,
  }
end
