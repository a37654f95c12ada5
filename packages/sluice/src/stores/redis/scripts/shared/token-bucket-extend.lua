-- Extends the TTL of a token bucket if its key would expire before the bucket is full, because the
-- limit was lowered after the charge.
--
-- In:   key, expired, full
if expired < full and full > now then
  local expires = full
  -- include shared/ttl
  set('PEXPIRE', key, lastTtl)
end
