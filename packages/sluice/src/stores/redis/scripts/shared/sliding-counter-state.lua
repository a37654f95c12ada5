-- Decodes the state of sliding-counter from the cells a, b and c. Clears `isCells` if they are
-- invalid.
--
-- In:   a, b, c, isCells, length (W)
-- Out:  isCells, newest, current, previous, known
--       expired   the stored time at which the key expires
-- The product of a valid cost and the window is an exact integer.
if isCells and b >= 0 and b * length <= MOST and c * length <= MOST then
  newest, current, previous, known, expired = a, b, c, a * length, (a + 2) * length
else
  isCells = false
end
