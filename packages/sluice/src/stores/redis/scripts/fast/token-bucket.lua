-- Fast script of token-bucket. KEYS, ARGV and reply: shared/fast-begin.lua; the third number of a
-- check is the burst. Value of a key: token-bucket.lua.
-- include shared/fast-begin
local each = 3
for place = 1, #KEYS do
  -- include shared/fast-numbers
  local capacity, known, charged, level, expired = third, nil, nil, nil, nil
  -- 1. Read the state.
  if isFast then
    local value = set('GET', key)
    if value then
      -- include shared/read-cells
      isFast = isCells
      if isCells then
        charged, level, known, expired = a, b, a, a + c
        -- include shared/token-bucket-full
        -- include shared/token-bucket-extend
      end
    end
  end
  if isFast then
    -- include shared/moment
    if not isHeld then charged, level, expired = time, capacity * length, nil end
    -- 2. Decide.
    -- include shared/token-bucket
    -- 3. Write the charged state.
    if take and wait == 0 then
      -- include shared/token-bucket-full
      local a, b, c, expires = charged, level, min(full - charged, MOST), full
      -- include shared/write-cells
      isFast = not written.err
    end
    -- include shared/fast-reply
  end
  -- include shared/fast-hand-over
end
return reply
