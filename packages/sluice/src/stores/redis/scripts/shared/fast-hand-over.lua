-- Hands a check over to the general script. Nothing of it has been charged.
--
-- In:   key, isFast
if not isFast then
  handed = handed or {}
  handed[key] = true
  size = size + 1
  reply[size] = '>'
end
