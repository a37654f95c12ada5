-- Functions that the algorithms of the general script share. The table `build` has a function for
-- each algorithm, which is called only if the batch has a policy with that algorithm. Each of these
-- functions returns a table of functions for the state of one key:
--
--   read(key, state, params)                  fills the table `state`; returns the latest time in
--                                             it, in ms, or nil for a new key
--   decide(state, params, time, cost, take)   returns wait (0 if the cost fits), free, reset. If it
--                                             fits and `take` is set, charges it to `state`. For
--                                             concurrency: also the fence, or 0
--   adjust(state, params, time, charged, delta, cost, fence)   changes the `cost` charged at `charged`
--                                             by `delta`; returns the change made
--   blank(state, params, time)                fills `state` for a new key
--   write(key, state, params)                 writes the state to the key, with a TTL
--   cells(state, params)                      returns the three cells that the TypeScript
--                                             algorithm has for the same state
--   entries(state, params, time, most)        for logs: returns how many entries count, and chunks
--                                             with at least the newest `most`, oldest first
--   holds(state, time, most)                  for concurrency: returns how many holds count, and a
--                                             list of the newest `most`
--   reset(key, params)                        for concurrency: deletes the holds of a key
--
-- The steps are those of the TypeScript files of the same names, with the same arithmetic: doubles
-- that hold integers below 2^53. Numbers are passed to redis.call without tostring, which would
-- format a large number as 1.7e+15. The general script and the fast scripts share their steps: both
-- include shared/*.lua. The header of each shared file lists the variables that the file reads (In)
-- and sets (Out).
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call = redis.call
local MOST = 9007199254740991

-- Parses an integer. Also raises an error for NaN, because every comparison with NaN is false.
local function whole(text)
  local number = tonumber(text)
  if number and number % 1 == 0 and number >= -MOST and number <= MOST then return number end
  error('ERR expected an integer, got ' .. tostring(text))
end

-- The label of the holds that the current operation takes, or ''.
local label = ''

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

-- Returns the three cells of a counter, or nil for a new key. Raises an error for a value that
-- another program has written, whatever its type.
local function readCells(key)
  local value = redis.pcall('GET', key)
  if not value then return nil end
  -- include shared/read-cells
  if not isCells then notCounter(key) end
  return a, b, c
end

-- Writes a counter that expires at `expires`. `expired` is the expiry time that is stored now.
local function writeCells(key, expired, expires, a, b, c)
  -- include shared/write-cells
end

-- Changes a cost by up to `delta`. The cost stays between zero and the largest number whose product
-- with the window is an exact integer. Returns the new cost and the change made.
local function adjusted(before, delta, params)
  local after = min(max(before + delta, 0), params.most)
  return after, after - before
end

local build = {}
