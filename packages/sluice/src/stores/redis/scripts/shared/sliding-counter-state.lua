-- The state of sliding-counter, from the cells a, b and c.
--
-- In:   a, b, c, isCells, length
-- Out:  isCells, newest, current, previous, known, expired (when the key expires as stored)
-- Costs must have an exact product with the window.
if isCells and b >= 0 and b * length <= MOST and c * length <= MOST then
  newest, current, previous, known, expired = a, b, c, a * length, (a + 2) * length
else
  isCells = false
end
