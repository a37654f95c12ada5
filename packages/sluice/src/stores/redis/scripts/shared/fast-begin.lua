-- The start of every fast script. A fast script decides checks and peeks of single limits that have
-- the same algorithm and window, in order. It defines no functions: creating the functions of the
-- general script takes longer than a decision.
--
-- KEYS   one key for each check or peek
-- ARGV   now      ms since the epoch, or '' for the server's own time
--        window   in ms
--        numbers  limit, cost, and a third number if the algorithm has one: once for all keys, or
--                 once for each key. A cost of -1 - c is a peek of cost c.
--
-- Reply: `now`, then for each key: wait, free, reset. If the limit was decided at a later time than
--        `now`, these numbers are preceded by `now` minus that time. If nothing was decided, the
--        reply for the key is `>`: the client then sends the check to the general script, which
--        also reports damaged values.
local MOST, LARGE = 9007199254740991, 2 ^ 52
local KEYS, ARGV, math, call, set = KEYS, ARGV, math, redis.call, redis.pcall
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
-- include shared/now
local length = tonumber(ARGV[2])
if not (length and length % 1 == 0 and length >= 1 and length <= MOST) then
  error('ERR expected a window in ms, got ' .. ARGV[2])
end
-- Allocates room for one decision, which avoids growing the table.
local reply, size = { now, nil, nil, nil }, 1
local lastExpires, lastTtl
local limit, cost, third, take, isValid
-- The keys handed over to the general script. Later checks of these keys in this command are handed
-- over too, which keeps the checks of each key in order.
local handed
