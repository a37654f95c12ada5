-- sliding-counter: `w = floor(now / W)`, `e = now - w*W`, `cur` and `prev` the cost admitted in the
-- windows w and w-1. A cost c fits when `prev*(W - e) + (cur + c)*W <= L*W`.
--
-- Value: the number of the newest window, cur and prev as of that window.
build['sliding-counter'] = function()
  local function expires(window, params)
    return (window + 2) * params.window
  end

  return {
    read = function(key, state, params)
      local window, current, previous = readCells(key, state)
      if not window then return nil end
      if current < 0 or max(current, previous) > params.most then notCounter(key) end
      state.window, state.current, state.previous = window, current, previous
      state.expires = (window + 2) * params.window
      return window * params.window
    end,

    blank = function(state, params, time)
      state.window, state.current, state.previous = floor(time / params.window), 0, 0
      state.expires = nil
      return state
    end,

    write = function(key, state, params)
      local window = state.window
      writeCells(key, state, expires(window, params), window, state.current, state.previous)
    end,

    decide = function(state, params, time, cost, take)
      local limit, length = params.limit, params.window
      local window = floor(time / length)
      local left = (window + 1) * length - time
      -- 1. The newest window in the state is the current window, the previous one, or older.
      local current, previous = 0, 0
      if state.window == window then
        current, previous = state.current, state.previous
      elseif state.window == window - 1 then
        previous = state.current
      end
      -- 2. Add the cost of the current window and the weighted cost of the previous one.
      local counting = current
      if previous > 0 then counting = counting + ceil(previous * left / length) end
      local wait = 0
      if counting + cost > limit then
        -- In this window the cost fits when `previous * left <= room * W`. If `room` is negative,
        -- it fits in the next window, in which only `current` counts, as the previous window.
        local room = limit - current - cost
        if room >= 0 then
          wait = left - floor(room * length / previous)
        else
          wait = left + length - floor((limit - cost) * length / current)
        end
      elseif take then
        counting, current = counting + cost, current + cost
        state.window, state.current, state.previous = window, current, previous
      end
      local reset = 0
      if current > 0 then
        reset = left + length
      elseif previous > 0 then
        reset = left
      end
      return wait, limit - counting, reset
    end,

    adjust = function(state, params, time, charged, delta)
      local window = floor(charged / params.window)
      if expires(window, params) <= time then return 0 end
      local change = 0
      if window == state.window then
        state.current, change = adjusted(state.current, delta, params)
      elseif window == state.window - 1 then
        state.previous, change = adjusted(state.previous, delta, params)
      end
      return change
    end,

    cells = function(state, params)
      return expires(state.window, params), state.current, state.previous
    end,
  }
end
