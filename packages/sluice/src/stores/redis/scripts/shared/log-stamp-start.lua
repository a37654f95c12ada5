-- Sets `start` to the earliest time whose admissions have this stamp.
--
-- In:   stamp, bucket
-- Out:  start
local start = stamp - bucket + 1
