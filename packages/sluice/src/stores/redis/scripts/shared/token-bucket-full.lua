-- Sets `full` to the time at which the bucket is full again and its key expires, in ms.
--
-- In:   charged, level, capacity, length, limit
local full = charged + ceil((capacity * length - level) / limit)
