-- Sets `expires` to the time at which a log that is written now expires: up to SLACK_MS later than
-- necessary, which avoids setting the TTL of a busy key with every call.
--
-- In:   latest, length (W), expired (the stored time at which the key expires)
-- Out:  expires
--       isExtended   whether the TTL must be set
local expires, isExtended = expired, expired < latest + length
if isExtended then expires = latest + length + SLACK_MS end
