-- fixed-window: `w = floor(now / W)`. A cost c fits when `cost(in window w) + c <= L`.
--
-- Value: the number of the newest window, and the cost in it.
build['fixed-window'] = function()
  local function expires(window, params)
    return (window + 1) * params.window
  end

  return {
    read = function(key, state, params)
      local window, used = readCells(key, state)
      if not window then return nil end
      if used < 0 or used > params.most then notCounter(key) end
      state.window, state.used, state.expires = window, used, expires(window, params)
      return window * params.window
    end,

    blank = function(state, params, time)
      state.window, state.used, state.expires = floor(time / params.window), 0, nil
      return state
    end,

    write = function(key, state, params)
      local window = state.window
      writeCells(key, state, expires(window, params), window, state.used, 0)
    end,

    decide = function(state, params, time, cost, take)
      local window = floor(time / params.window)
      local left = expires(window, params) - time
      local used = state.window == window and state.used or 0
      local wait = 0
      if used + cost > params.limit then
        wait = left
      elseif take then
        used = used + cost
        state.window, state.used = window, used
      end
      return wait, params.limit - used, used > 0 and left or 0
    end,

    adjust = function(state, params, time, charged, delta)
      local window = floor(charged / params.window)
      if window ~= state.window or expires(window, params) <= time then return 0 end
      local change
      state.used, change = adjusted(state.used, delta, params)
      return change
    end,

    cells = function(state, params)
      return expires(state.window, params), state.used, 0
    end,
  }
end
