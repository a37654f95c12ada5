-- The formats of logs, see sliding-log.lua: `struct` formats with their sizes in bytes. A tail of
-- FULL entries is moved to a segment. TTLs are up to SLACK_MS longer than necessary. The width of a
-- new log has room for numbers ROOM times as large as its window and limit.
local FULL, MOST_IN_STRING, SLACK_MS, ROOM = 36, 252, 900, 4
local HEADER, HEADER_SIZE = '>BBI7I7I7I7', 30
local LONG_HEADER, LONG_HEADER_SIZE = '>BBI7I7I7I7I7I7I7', 51
local REST, REST_SIZE = '>I7I7I7I4I4I4BI4I7BBI7B', 55
local ENTRY_FORMATS = '>I1I1>I2I2>I3I3>I4I4>I5I5>I6I6>I7I7'
local toBytes, fromBytes = struct.pack, struct.unpack
