-- What the algorithms share. Each of them is built, when a policy of the batch needs it, as a table of
-- functions over one key's state, which they read from and write to one string:
--
--   read(key, state, terms)                  fills `state`, a table; the latest time that it knows
--                                            of, ms, or nil for a key that is new
--   decide(state, terms, time, cost, take)   wait (0 if the cost fits), free, reset. If it fits and
--                                            `take` is set, charges it to `state`
--   adjust(state, terms, time, charged, delta, cost)   changes the `cost` charged at `charged` by
--                                            `delta`; the change made
--   blank(state, terms, time)                fills `state` for a new key
--   write(key, state, terms)                 puts the state back, with a TTL
--   cells(state, terms)                      its three numbers, as the TypeScript has them
--   entries(state, terms, time, most)        for the logs: how many entries count, and the times and
--                                            costs of at least the newest `most`, oldest first
--
-- The steps are those of the TypeScript files of the same names, in the same arithmetic: doubles
-- that hold integers below 2^53. Numbers go to redis.call as they are, never through tostring,
-- which would write a large one as 1.7e+15.
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call, pack, unpackAll = redis.call, cmsgpack.pack, cmsgpack.unpack
local MOST = 9007199254740991

-- A number that is none must never decide anything: NaN compares false with every limit.
local function whole(text)
  local number = tonumber(text)
  if number and number % 1 == 0 and number >= -MOST and number <= MOST then return number end
  error('ERR expected an integer, got ' .. tostring(text))
end

-- The time: the server's own, read once, or the one that was given. Keys that were written at a
-- given time outlive it by an hour of real time, because the two pass differently.
local now, outliveMs
if ARGV[1] == '' then
  local time = call('TIME')
  now, outliveMs = time[1] * 1000 + floor(time[2] / 1000), 0
else
  now, outliveMs = whole(ARGV[1]), 3600000
end

-- Every key gets a TTL with every write. In a batch many expire at the same time, so the text of the
-- last one is kept. A TTL below 1 would delete, which is then right as well.
local lastExpiresMs, lastLifetime
local function lifetime(expiresMs)
  if expiresMs ~= lastExpiresMs then
    lastExpiresMs = expiresMs
    lastLifetime = string.format('%.0f', max(expiresMs - now, 1) + outliveMs)
  end
  return lastLifetime
end

-- The small states are three numbers, packed in as many bytes as they need. `state.expires` is when the
-- key goes, if it has a TTL: while that stays the same, it is not set again, which is half the work.
-- A value that is not this limiter's is an error of its key, whatever its type.
local function notCounter(key)
  error('ERR not a counter of this limiter: ' .. key, 0)
end

local function notLog(key)
  error('ERR not a log of this limiter: ' .. key, 0)
end

-- Three numbers and nothing else; raises an error if they cannot be compared as such.
local function cellsOf(value)
  local a, b, c, more = unpackAll(value)
  local isSound = a >= 0 and a <= MOST and b >= -MOST and b <= MOST and c >= 0 and c <= MOST
  if isSound and more == nil and a % 1 + b % 1 + c % 1 == 0 then return a, b, c end
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

-- A cost in a cell changes by `delta`, never below zero and never beyond exact products with the
-- window; the new cost, and the change made.
local function adjusted(before, delta, terms)
  local after = min(max(before + delta, 0), terms.most)
  return after, after - before
end

local build = {}
