-- One decision of token-bucket: the level, which is tokens*W, grows by L each millisecond up to
-- burst*W. A cost c fits when `level >= c*W`.
--
-- In:   limit, length (W), capacity (burst), time, cost, take (whether to charge)
--       charged, level   the time of the newest charge, and the level at that time
-- Out:  wait, free, reset
--       charged, level   the state, changed only by a charge
-- 1. Add the tokens refilled since the newest charge.
local filled = min(capacity * length, level + (time - charged) * limit)
-- 2. Charge, or wait until the missing tokens have been refilled.
local missing = cost * length - filled
local wait = missing <= 0 and 0 or ceil(missing / limit)
if take and wait == 0 then
  filled = filled - cost * length
  charged, level = time, filled
end
local free, reset = floor(filled / length), ceil((capacity * length - filled) / limit)
