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
-- format a large one as 1.7e+15.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call, pack, unpackAll = redis.call, cmsgpack.pack, cmsgpack.unpack
local MOST = 9007199254740991

-- Parses an integer. Raises an error for NaN too, because every comparison with it is false.
local function whole(text)
  local number = tonumber(text)
  if number and number % 1 == 0 and number >= -MOST and number <= MOST then return number end
  error('ERR expected an integer, got ' .. tostring(text))
end

-- `now` is the server's time, read once, or the given time. Keys that are written at a given time
-- expire an hour later, because the given clock and the server's clock may run differently.
local now, outliveMs
if ARGV[1] == '' then
  local time = call('TIME')
  now, outliveMs = time[1] * 1000 + floor(time[2] / 1000), 0
else
  now, outliveMs = whole(ARGV[1]), 3600000
end

-- Returns the TTL in ms, as text, of a key that expires at `expiresMs`. In a batch many keys expire
-- at the same time, so the last text is cached.
local lastExpiresMs, lastLifetime
local function lifetime(expiresMs)
  if expiresMs ~= lastExpiresMs then
    lastExpiresMs = expiresMs
    lastLifetime = string.format('%.0f', max(expiresMs - now, 1) + outliveMs)
  end
  return lastLifetime
end

-- States other than logs are three numbers, packed in as few bytes as possible. `state.expires` is
-- when the key expires. If that stays the same, the TTL is not set again, which halves the time of
-- a write. A value that another program has written raises an error, whatever its type.
local function notCounter(key)
  error('ERR not a counter of this limiter: ' .. key, 0)
end

local function notLog(key)
  error('ERR not a log of this limiter: ' .. key, 0)
end

-- Returns exactly three integers, or nothing. Raises an error if a value is not a number.
local function cellsOf(value)
  local a, b, c, more = unpackAll(value)
  local isValid = a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
  if isValid and more == nil and a % 1 + b % 1 + c % 1 == 0 then return a, b, c end
end

local function readCells(key, state)
  local value = redis.pcall('GET', key)
  if not value then
    state.expires = nil
    return nil
  end
  local isRead, a, b, c = pcall(cellsOf, value)
  if not isRead or not a then notCounter(key) end
  return a, b, c
end

local function writeCells(key, state, expiresMs, a, b, c)
  if state.expires == expiresMs then
    call('SET', key, pack(a, b, c), 'KEEPTTL')
  else
    call('SET', key, pack(a, b, c), 'PX', lifetime(expiresMs))
  end
end

-- Changes a cost by `delta`: not below zero, and only as far as products with the window stay
-- exact. Returns the new cost and the change made.
local function adjusted(before, delta, params)
  local after = min(max(before + delta, 0), params.most)
  return after, after - before
end

local build = {}
