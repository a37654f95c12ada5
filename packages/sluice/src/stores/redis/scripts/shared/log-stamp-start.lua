-- Sets `start` to the first millisecond of the bucket whose entry has the time `stamp`.
--
-- In:   stamp, bucket
-- Out:  start
local start = stamp - bucket + 1
