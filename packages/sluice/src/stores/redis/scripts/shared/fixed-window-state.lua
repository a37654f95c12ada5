-- The state of fixed-window, from the cells a, b and c. The third is unused.
--
-- In:   a, b, c, isCells, length
-- Out:  isCells, newest, used, known, expired (when the key expires as stored)
-- A cost must have an exact product with the window.
if isCells and b >= 0 and b * length <= MOST then
  newest, used, known, expired = a, b, a * length, (a + 1) * length
else
  isCells = false
end
