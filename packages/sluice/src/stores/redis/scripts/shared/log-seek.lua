-- Finds the first entry, from `index` on, whose time is above `after` and whose total is at least
-- `needed`. Times and totals ascend, so all entries after the first match also match. This is an
-- exponential search, because the result is mostly near `index`.
--
-- In:   bytes, from (position of entry 0, counted from 1), entrySize, format, count, index
--       after, needed   as stored: relative to the base and the origin of the chunk
-- Out:  index    of the entry found; `count` if there is none
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
