-- Extends the TTL of a token bucket. If the limit was lowered since the charge, the key would
-- expire before the bucket is full.
--
-- In:   key, expired, full
if expired < full and full > now then
  local expires = full
  -- include shared/ttl
  set('PEXPIRE', key, lastTtl)
end
