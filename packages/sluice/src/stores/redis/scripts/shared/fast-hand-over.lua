-- Hands a check over to the general script if `isFast` is false. Nothing has been charged for it.
--
-- In:   key, isFast
if not isFast then
  handed = handed or {}
  handed[key] = true
  size = size + 1
  reply[size] = '>'
end
