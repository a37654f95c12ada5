-- Adds the decision of one limit to the reply: wait, free, reset. Integers above 2^52 are sent as
-- text, because some clients round them.
--
-- In:   reply, size, wait, free, reset
-- Out:  size
if wait < LARGE and free < LARGE and free > -LARGE and reset < LARGE then
  reply[size + 1], reply[size + 2], reply[size + 3] = wait, free, reset
else
  reply[size + 1] = string.format('%.0f', wait)
  reply[size + 2] = string.format('%.0f', free)
  reply[size + 3] = string.format('%.0f', reset)
end
size = size + 3
