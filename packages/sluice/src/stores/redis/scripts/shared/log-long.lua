-- Decodes the first part of the header of a log that is stored as a hash.
--
-- In:   bytes    the field `h`
-- Out:  isLog, width, expired, latest, before, oldest, first, newest, total   as in log-string.lua
local mark
isLog = #bytes >= LONG_HEADER_SIZE
if isLog then
  mark, width, expired, latest, before, oldest, first, newest, total = fromBytes(LONG_HEADER, bytes)
  isLog = mark == 104
  -- include shared/log-order
end
