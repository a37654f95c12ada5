-- fixed-window: `w = floor(now / W)`. A cost c fits when `cost(in window w) + c <= L`.
--
-- Value: the number of the newest window, and the cost in it.
algorithms['fixed-window'] = {
  read = function(key, state)
    state.window, state.used = readCells(key)
    return state.window and state
  end,

  blank = function(state, terms, time)
    state.window, state.used = floor(time / terms.window), 0
    return state
  end,

  known = function(state, terms)
    return state.window * terms.window
  end,

  expires = function(state, terms)
    return (state.window + 1) * terms.window
  end,

  write = function(key, state, terms)
    writeCells(key, state.window, state.used, 0, (state.window + 1) * terms.window)
  end,

  decide = function(state, terms, time, cost, take)
    local window = floor(time / terms.window)
    local left = (window + 1) * terms.window - time
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
    if window ~= state.window or (window + 1) * terms.window <= time then return 0 end
    local change
    state.used, change = adjusted(state.used, delta, terms)
    return change
  end,

  cells = function(state, terms)
    return (state.window + 1) * terms.window, state.used, 0
  end,
}
