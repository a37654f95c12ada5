-- fixed-window: `w = floor(now / W)`. A cost c fits when `cost(in window w) + c <= L`.
--
-- Value: the number of the newest window, and the cost in it.
build['fixed-window'] = function()
  local function expires(window, terms)
    return (window + 1) * terms.window
  end

  return {
    read = function(key, state, terms)
      local window, used = readCells(key, state)
      if not window then return nil end
      if used < 0 or used > terms.most then notCounter(key) end
      state.window, state.used, state.expires = window, used, expires(window, terms)
      return window * terms.window
    end,

    blank = function(state, terms, time)
      state.window, state.used, state.expires = floor(time / terms.window), 0, nil
      return state
    end,

    write = function(key, state, terms)
      local window = state.window
      writeCells(key, state, expires(window, terms), window, state.used, 0)
    end,

    decide = function(state, terms, time, cost, take)
      local window = floor(time / terms.window)
      local left = expires(window, terms) - time
      local used = state.window == window and state.used or 0
      local wait = 0
      if used + cost > terms.limit then
        wait = left
      elseif take then
        used = used + cost
        state.window, state.used = window, used
      end
      return wait, terms.limit - used, used > 0 and left or 0
    end,

    adjust = function(state, terms, time, charged, delta)
      local window = floor(charged / terms.window)
      if window ~= state.window or expires(window, terms) <= time then return 0 end
      local change
      state.used, change = adjusted(state.used, delta, terms)
      return change
    end,

    cells = function(state, terms)
      return expires(state.window, terms), state.used, 0
    end,
  }
end
