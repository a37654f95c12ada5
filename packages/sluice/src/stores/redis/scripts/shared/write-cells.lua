-- Writes three integers to the key of a counter. If it expires at the same time as before, the TTL
-- is not set again, which halves the time of the write.
--
-- In:   set        redis.call or redis.pcall
--       key, a, b, c
--       expired    when the key expires as stored, in ms; nil for a new key
--       expires    when it expires from now on
-- Out:  written    the reply of SET
local written
if expired == expires then
  written = set('SET', key, cmsgpack.pack(a, b, c), 'KEEPTTL')
else
  -- include shared/ttl
  written = set('SET', key, cmsgpack.pack(a, b, c), 'PX', lastTtl)
end
