-- Sets the time of a decision: `now`, or the latest time in the key's state if that is later. A
-- state that is more than a window ahead was written by a wrong clock, so it is ignored.
--
-- In:   known    latest time in the state, in ms; nil for a new key
--       length   the window, in ms
-- Out:  time     the time of the decision
--       isHeld   whether there is a state that counts
local time, isHeld = now, known ~= nil
if isHeld and known > now then
  if known - now > length then isHeld = false else time = known end
end
