-- Decodes the state of fixed-window from the cells a and b. Clears `isCells` if they are invalid.
--
-- In:   a, b, c, isCells, length (W)
-- Out:  isCells, newest, used, known, expired (the stored time at which the key expires)
-- The product of a valid cost and the window is an exact integer.
if isCells and b >= 0 and b * length <= MOST then
  newest, used, known, expired = a, b, a * length, (a + 1) * length
else
  isCells = false
end
