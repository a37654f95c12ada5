-- Writes three integers to the key of a counter. If the key expires at the same time as before, the
-- TTL is not set again, which halves the time of the write.
--
-- In:   set        redis.call or redis.pcall
--       key, a, b, c
--       expired    the stored time at which the key expires, in ms; nil for a new key
--       expires    the new time at which it expires
-- Out:  written    the reply of SET
local written
if expired == expires then
  written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
  -- include shared/ttl
  written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
