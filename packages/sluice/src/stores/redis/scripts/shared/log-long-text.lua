-- Encodes the field `h` of a log that is stored as a hash: both parts of its header, and the tail.
--
-- In:   the numbers of both parts of the header; entries (the bytes of the tail)
-- Out:  text
local text = toBytes(LONG_HEADER, 104, width, expires, latest, before, oldest, first, newest, total)
  .. toBytes(REST, base, origin, upTo, segments, dead, number, filed, closedNumber, closedBase,
    closedCount, closedWidth, closedOrigin, skipped)
  .. entries
