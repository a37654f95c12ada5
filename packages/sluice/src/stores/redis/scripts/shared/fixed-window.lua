-- One decision of fixed-window: `w = floor(now / W)`. A cost c fits when
-- `cost(in window w) + c <= L`.
--
-- In:   limit, length (W), time, cost, take (whether to charge)
--       newest, used   number of the newest window of the state, and the cost in that window
-- Out:  wait, free, reset
--       newest, used   the new state, for the window of `time`
-- 1. The cost of an older window does not count.
local window = floor(time / length)
local left = (window + 1) * length - time
if newest ~= window then newest, used = window, 0 end
-- 2. Charge, or wait for the next window.
local wait = 0
if used + cost > limit then
  wait = left
elseif take then
  used = used + cost
end
local free, reset = limit - used, used > 0 and left or 0
