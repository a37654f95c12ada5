-- Decodes the value of a counter: three integers in MessagePack, which takes few bytes.
--
-- In:   value      the reply of GET; any type
-- Out:  isCells    whether the value is valid
--       a, b, c    the numbers, if it is valid
local isCells, a, b, c, more = pcall(cmsgpack.unpack, value)
isCells = isCells and more == nil
  and type(a) == 'number' and type(b) == 'number' and type(c) == 'number'
  and a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
  and a % 1 + b % 1 + c % 1 == 0
