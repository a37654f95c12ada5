-- Adds the decision of one key to the reply of a fast script. If the wait is invalid because the
-- value is damaged, clears `isFast` instead, so that the check is handed over to the general script.
--
-- In:   isFast, time, wait, free, reset
-- Out:  isFast
isFast = isFast and (wait == 0 or wait >= 1 and wait <= MOST)
if isFast then
  if time ~= now then
    size = size + 1
    reply[size] = now - time
  end
  -- include shared/reply
end
