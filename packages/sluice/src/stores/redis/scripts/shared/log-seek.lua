-- Finds the first entry from `index` on that is after `after` and whose total is at least `needed`.
-- An exponential search: times and totals ascend, so each condition is true for all entries after
-- the first for which it is.
--
-- In:   bytes, from (position of entry 0, counted from 1), entrySize, format, count, index
--       after, needed   as stored: relative to the base and the origin of the chunk
-- Out:  index    `count` if there is none
local low, high, stride = index - 1, count, 1
while low + 1 < high do
  local middle = min(low + stride, floor((low + high) / 2))
  local entryTime, entryTotal = fromBytes(format, bytes, from + middle * entrySize)
  if entryTime <= after or entryTotal < needed then
    low, stride = middle, stride * 2
  elseif middle == low + 1 then
    break
  else
    high, stride = middle, MOST
  end
end
index = low + 1
