-- The earliest time of the admissions that have this stamp.
--
-- In:   stamp, bucket
-- Out:  start
local start = stamp - bucket + 1
