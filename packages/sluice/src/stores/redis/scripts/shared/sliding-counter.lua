-- One decision of sliding-counter: `w = floor(now / W)`, `e = now - w*W`. `cur` and `prev` are the
-- costs admitted in the windows w and w-1. A cost c fits when
-- `prev*(W - e) + (cur + c)*W <= L*W`.
--
-- In:   limit, length (W), time, cost, take (whether to charge)
--       newest, current, previous   number of the newest window of the state, the cost in that
--                                   window, and the cost in the window before
-- Out:  wait, free, reset
--       newest, current, previous   the new state, for the window of `time`
-- 1. The newest window in the state is the current window, the previous one, or older.
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then
  previous = newest == window - 1 and current or 0
  newest, current = window, 0
end
-- 2. Add the cost of the current window and the weighted cost of the previous one.
local counting, wait = current, 0
if previous > 0 then counting = counting + ceil(previous * left / length) end
if counting + cost > limit then
  -- 3. In this window, the cost fits when `previous * left <= room * W`. If `room` is negative, the
  --    cost fits in the next window, in which only `current` counts, as the previous window.
  local room = limit - current - cost
  if room >= 0 then
    wait = left - floor(room * length / previous)
  else
    wait = left + length - floor((limit - cost) * length / current)
  end
elseif take then
  counting, current = counting + cost, current + cost
end
local free, reset = limit - counting, 0
if current > 0 then
  reset = left + length
elseif previous > 0 then
  reset = left
end
