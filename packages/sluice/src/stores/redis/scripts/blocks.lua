-- Blocks: if a policy has the option `block`, a denied check starts a block, unless a block is
-- running. While a block runs, every check of its key is denied. A block lasts
-- `min(for * factor^k, max)`, where k is the number of blocks in a row before it. If the last block
-- ended more than `forget` ago, k is 0. A block is stored with the other records of its limit
-- (records.lua).
local records

-- Returns the end of the last block, and the number of blocks in a row. Returns 0, 0 if no block has
-- an effect. Ignores a block that starts more than a window after `time`, because a wrong clock has
-- stored it.
local function findBlock(name, params, time)
  records = records or buildRecords()
  local startMs, endMs, count = records.block(name)
  if not startMs or startMs - time > params.window or time - endMs > params.block.forget then
    return 0, 0
  end
  return endMs, count
end

-- Returns the length of a block after `count` blocks in a row. A power could be inexact.
local function lengthOf(block, count)
  local length = block.first
  if block.factor > 1 then
    for _ = 1, count do
      if length >= block.longest then break end
      length = length * block.factor
    end
  end
  return min(length, block.longest)
end

local function storeBlock(name, params, startMs, endMs, count)
  records.storeBlock(name, startMs, endMs, count, endMs + params.block.forget + 1)
end

-- Adds a block that ends at `endMs` to the result of a limit.
local function withBlock(endMs, time, wait, free, reset)
  if endMs <= time then return wait, free, reset, 0 end
  return max(wait, endMs - time), 0, max(reset, endMs - time), endMs
end

-- Starts a block for a limit that denied a check. Returns when the block ends.
local function startBlock(name, params, time, count)
  local endMs = time + lengthOf(params.block, count)
  storeBlock(name, params, time, endMs, count + 1)
  return endMs
end
