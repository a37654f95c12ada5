-- One decision of a sliding log: an admission at t counts while `t > now - W`. A cost c fits when
-- `cost(counting admissions) + c <= L`.
--
-- In:   limit, length (W), time, cost, edge (now - W), isEmpty
--       passed   the running total of the entries up to `edge`
--       oldest, first, newest, total   times and running totals of the first and last entry
-- Out:  wait, free, reset
--       needed   set if more than the oldest entry must expire before the cost fits. The caller
--                then has to compute `wait`: it ends when the first entry after `edge` whose
--                running total is at least `needed` expires
local free, wait, needed = limit - (total - passed), 0, nil
local reset = isEmpty and 0 or max(newest + length - time, 0)
if cost > free then
  -- The running total that must have expired before the cost fits.
  needed = total + (cost - limit)
  if oldest > edge and first >= needed then wait, needed = oldest + length - time, nil end
end
