-- Sets `full` to the time at which the bucket is full again, in ms: its key expires then.
--
-- In:   charged, level, capacity, length, limit
local full = charged + ceil((capacity * length - level) / limit)
