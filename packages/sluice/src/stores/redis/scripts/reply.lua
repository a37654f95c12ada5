-- The reply of the general script, and the state of a key as the operations read it.
local reply, size = { now }, 1
local nextKey, keys = 1, KEYS

-- Some clients round integers close to 2^53, so larger integers than this are sent as text.
local LARGE = 2^52
-- `inspect` returns at least this many of the newest entries, or all if there are fewer.
local MOST_INSPECTED = 1000
local function addReply(value)
  size = size + 1
  if type(value) == 'number' and (value > LARGE or value < -LARGE) then
    value = string.format('%.0f', value)
  end
  reply[size] = value
end

-- Adds a list of ascending times and totals to the reply. Checks only the size of its last two
-- numbers, which are the largest. Checking each of 2,000 numbers would be slow.
local function replyList(numbers)
  local last = #numbers
  if max(numbers[last - 1], numbers[last]) > LARGE then
    for place = 1, last do numbers[place] = string.format('%.0f', numbers[place]) end
  end
  addReply(numbers)
end

-- Reads a key into `state`. Returns the state and the time to use for a decision, which is never
-- before the latest time in the state. Returns nil and `now` for a new key, and for a state that is
-- more than a window ahead, because a wrong clock has written it.
local function open(key, params, state)
  local known, length = params.algorithm.read(key, state, params), params.window
  -- include shared/moment
  return isHeld and state or nil, time
end

-- `more` is the fence of a hold or the end of a block, if the policy has one of them.
local function replyLimit(time, wait, free, reset, more)
  if time ~= now then addReply(now - time) end
  -- include shared/reply
  if more then addReply(more) end
end

local function replyTimed(time, wait, free, reset, more)
  addReply(time)
  addReply(wait)
  addReply(free)
  addReply(reset)
  if more then addReply(more) end
end

-- Raises an error if a wait is invalid. Only a damaged value can cause an invalid wait.
local function checkWait(wait, key)
  if not (wait == 0 or wait >= 1 and wait <= MOST) then
    error('ERR not a value of this limiter: ' .. key, 0)
  end
end
