-- When a log that is written now expires: up to SLACK_MS later than necessary, so that a busy key
-- does not get a new TTL with every call.
--
-- In:   latest, length, expired (when it expires as stored)
-- Out:  expires, isExtended
local expires, isExtended = expired, expired < latest + length
if isExtended then expires = latest + length + SLACK_MS end
