-- Sets `stamp` to the time of the entry that records an admission at `time`: the last millisecond
-- of its bucket of `bucket` ms. In a sliding log, a bucket has 1 ms.
--
-- In:   time, bucket
-- Out:  stamp
local stamp = (floor(time / bucket) + 1) * bucket - 1
