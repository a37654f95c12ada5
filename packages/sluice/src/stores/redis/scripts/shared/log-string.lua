-- Decodes a log that is stored as a string.
--
-- In:   bytes
-- Out:  isLog       whether `bytes` is a valid log
--       expired     the stored time at which the key expires
--       latest      latest time ever written, as a stamp
--       base, before, width, entrySize, format, largest, count
--       oldest, first, newest, total   times and running totals of the first and last entry
local mark, isWidth
isLog = #bytes >= HEADER_SIZE
if isLog then
  mark, width, expired, latest, base, before = fromBytes(HEADER, bytes)
  -- include shared/width
  count = (#bytes - HEADER_SIZE) / entrySize
  isLog = mark == 115 and isWidth and count % 1 == 0 and count <= MOST_IN_STRING
end
if isLog then
  oldest, first, newest, total = latest, before, latest, before
  if count > 0 then
    oldest, first = fromBytes(format, bytes, HEADER_SIZE + 1)
    newest, total = fromBytes(format, bytes, #bytes - entrySize + 1)
    oldest, newest = base + oldest, base + newest
  end
  -- include shared/log-order
end
