-- fixed-window: shared/fixed-window.lua has the formula.
--
-- Value: the number of the newest window, the cost in that window, and 0.
build['fixed-window'] = function()
  local function expires(window, params)
    return (window + 1) * params.window
  end

  return {
    read = function(key, state, params)
      local a, b, c = readCells(key)
      if not a then return nil end
      local isCells, length, newest, used, known, expired = true, params.window, nil, nil, nil, nil
      -- include shared/fixed-window-state
      if not isCells then notCounter(key) end
      state.newest, state.used, state.expired = newest, used, expired
      return known
    end,

    blank = function(state, params, time)
      state.newest, state.used, state.expired = floor(time / params.window), 0, nil
      return state
    end,

    write = function(key, state, params)
      writeCells(key, state.expired, expires(state.newest, params), state.newest, state.used, 0)
    end,

    decide = function(state, params, time, cost, take)
      local limit, length, newest, used = params.limit, params.window, state.newest, state.used
      -- include shared/fixed-window
      if take and wait == 0 then state.newest, state.used = newest, used end
      return wait, free, reset
    end,

    adjust = function(state, params, time, charged, delta)
      local window = floor(charged / params.window)
      if window ~= state.newest or expires(window, params) <= time then return 0 end
      local change
      state.used, change = adjusted(state.used, delta, params)
      return change
    end,

    cells = function(state, params)
      return expires(state.newest, params), state.used, 0
    end,
  }
end
