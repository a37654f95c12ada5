-- Fast script of sliding-counter. KEYS, ARGV and reply: shared/fast-begin.lua. Value of a key:
-- sliding-counter.lua.
-- include shared/fast-begin
local each = 2
for place = 1, #KEYS do
  -- include shared/fast-numbers
  local known, newest, current, previous, expired
  -- 1. Read the state.
  if isFast then
    local value = set('GET', key)
    if value then
      -- include shared/read-cells
      -- include shared/sliding-counter-state
      isFast = isCells
    end
  end
  if isFast then
    -- include shared/moment
    if not isHeld then newest, current, previous, expired = floor(time / length), 0, 0, nil end
    -- 2. Decide.
    -- include shared/sliding-counter
    -- 3. Write the charged state.
    if take and wait == 0 then
      local a, b, c, expires = newest, current, previous, (newest + 2) * length
      -- include shared/write-cells
      isFast = not written.err
    end
    -- include shared/fast-reply
  end
  -- include shared/fast-hand-over
end
return reply
