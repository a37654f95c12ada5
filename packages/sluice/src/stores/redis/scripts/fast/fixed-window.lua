-- Fast script of fixed-window. KEYS, ARGV and reply: shared/fast-begin.lua. Value of a key:
-- fixed-window.lua.
-- include shared/fast-begin
local each = 2
for place = 1, #KEYS do
  -- include shared/fast-numbers
  local known, newest, used, expired
  -- 1. Read the state.
  if isFast then
    local value = set('GET', key)
    if value then
      -- include shared/read-cells
      -- include shared/fixed-window-state
      isFast = isCells
    end
  end
  if isFast then
    -- include shared/moment
    if not isHeld then newest, used, expired = floor(time / length), 0, nil end
    -- 2. Decide.
    -- include shared/fixed-window
    -- 3. Write the charged state.
    if take and wait == 0 then
      local a, b, c, expires = newest, used, 0, (newest + 1) * length
      -- include shared/write-cells
      isFast = not written.err
    end
    -- include shared/fast-reply
  end
  -- include shared/fast-hand-over
end
return reply
