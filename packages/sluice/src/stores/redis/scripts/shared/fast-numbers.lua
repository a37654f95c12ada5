-- Reads the numbers of the next key of a fast script from ARGV.
--
-- In:   place, each (how many numbers a check has)
-- Out:  key, limit, cost, third, take (false for a peek)
--       isFast   whether this script can decide the check
local key = KEYS[place]
if place == 1 or #ARGV > 2 + each then
  local at = 3 + (place - 1) * each
  limit, cost, third = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), each < 3 and 1 or tonumber(ARGV[at + 2])
  isValid = limit and limit % 1 == 0 and limit >= 1 and limit <= MOST
    and cost and cost % 1 == 0 and cost <= MOST and cost >= -1 - MOST
    and third and third % 1 == 0 and third >= 1 and third <= MOST
  take = isValid and cost >= 0
  if isValid and not take then cost = -1 - cost end
end
local isFast = isValid and not (handed and handed[key])
