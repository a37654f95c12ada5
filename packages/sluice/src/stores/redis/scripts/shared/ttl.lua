-- Sets `lastTtl` to the TTL, as text in ms, of a key that expires at `expires`. In a batch, many
-- keys expire at the same time, so the last TTL is cached, which avoids formatting it again.
if expires ~= lastExpires then
  lastExpires = expires
  lastTtl = string.format('%.0f', max(expires - now, 1) + outliveMs)
end
