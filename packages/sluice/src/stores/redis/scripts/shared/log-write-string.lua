-- Writes a log as a string.
--
-- In:   set (redis.call or redis.pcall), key, isStored (whether the key holds a string)
--       width, latest, base, before, expires, isExtended
--       entries   their bytes
-- Out:  written   the reply of SET
local written
local text = toBytes(HEADER, 115, width, expires, latest, base, before) .. entries
if isExtended or not isStored then
  -- include shared/ttl
  written = set('SET', key, text, 'PX', lastTtl)
else
  written = set('SET', key, text, 'KEEPTTL')
end
