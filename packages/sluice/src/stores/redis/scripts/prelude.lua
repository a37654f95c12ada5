-- Functions that the algorithms share. `build` has a function for each algorithm, which is called
-- if a policy of the batch needs it. It returns a table of functions over the state of one key:
--
--   read(key, state, params)                  fills the table `state`; returns the latest time in
--                                             it, in ms, or nil for a new key
--   decide(state, params, time, cost, take)   returns wait (0 if the cost fits), free, reset. If it
--                                             fits and `take` is set, charges it to `state`
--   adjust(state, params, time, charged, delta, cost)   changes the `cost` charged at `charged` by
--                                             `delta`; returns the change made
--   blank(state, params, time)                fills `state` for a new key
--   write(key, state, params)                 writes the state to the key, with a TTL
--   cells(state, params)                      returns the three cells that the TypeScript
--                                             algorithm has for the same state
--   entries(state, params, time, most)        for logs: returns how many entries count, and chunks
--                                             with at least the newest `most`, oldest first
--
-- The steps are those of the TypeScript files of the same names, in the same arithmetic: doubles
-- that hold integers below 2^53. Numbers are passed to redis.call without tostring, which would
-- format a large one as 1.7e+15. The fast scripts have the same steps: both include shared/*.lua,
-- whose headers name the variables that they use and set.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call = redis.call
local MOST = 9007199254740991

-- Parses an integer. Raises an error for NaN too, because every comparison with it is false.
local function whole(text)
  local number = tonumber(text)
  if number and number % 1 == 0 and number >= -MOST and number <= MOST then return number end
  error('ERR expected an integer, got ' .. tostring(text))
end

-- include shared/now

-- Returns the TTL in ms, as text, of a key that expires at `expires`.
local set, lastExpires, lastTtl = call, nil, nil
local function lifetime(expires)
  -- include shared/ttl
  return lastTtl
end

local function notCounter(key)
  error('ERR not a counter of this limiter: ' .. key, 0)
end

local function notLog(key)
  error('ERR not a log of this limiter: ' .. key, 0)
end

-- Returns the three cells of a counter, or nothing for a new key. A value that another program has
-- written raises an error, whatever its type.
local function readCells(key)
  local value = redis.pcall('GET', key)
  if not value then return nil end
  -- include shared/read-cells
  if not isCells then notCounter(key) end
  return a, b, c
end

-- Writes a counter that expires at `expires`. `expired` is when it expires as stored.
local function writeCells(key, expired, expires, a, b, c)
  -- include shared/write-cells
end

-- Changes a cost by `delta`: not below zero, and only as far as products with the window stay
-- exact. Returns the new cost and the change made.
local function adjusted(before, delta, params)
  local after = min(max(before + delta, 0), params.most)
  return after, after - before
end

local build = {}
