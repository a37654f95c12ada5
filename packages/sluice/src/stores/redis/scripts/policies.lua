-- The policies of a command. decide.lua describes their text.
local policies, built = {}, {}

-- Parses the numbers of a policy with blocks.
local function blockOf(text)
  local first, factor, longest, forget = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  if not first then error('ERR expected the numbers of blocks, got ' .. text) end
  return { first = whole(first), factor = whole(factor), longest = whole(longest), forget = whole(forget) }
end

local function policyOf(text)
  local name, limit, window, bucket, capacity, rest =
    string.match(text, '^(%S+) (%d+) (%d+) (%d+) (%d+) ?(.*)$')
  if not build[name] then error('ERR expected a policy, got ' .. text) end
  built[name] = built[name] or build[name]()
  local params = {
    limit = whole(limit), window = whole(window), bucket = whole(bucket),
    capacity = whole(capacity), algorithm = built[name],
    -- The largest cost whose product with the window is exact.
    most = floor(MOST / window), rest = rest,
  }
  if rest == 'lease' then
    params.isLeased = true
  elseif rest ~= '' and name ~= 'concurrency' then
    params.block = blockOf(rest)
  end
  -- Whether the keys of a limit are followed by those of its records.
  params.hasRecords = params.block ~= nil or params.isLeased
  if min(params.limit, params.window, params.bucket, params.capacity) < 1 then
    error('ERR expected a policy, got ' .. text)
  end
  return params
end

local function policyAt(place)
  return policies[place] or error('ERR expected the place of a policy')
end
