-- Adds the decision of one key to the reply of a fast script, unless the key is handed over: its
-- value could not be written, or is damaged so that the wait is not a number of milliseconds.
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
