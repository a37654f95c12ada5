-- Records that prevent counting twice: admissions by idempotency id, and used receipts. Also the
-- last block, and the leases (leases.lua). The records of the limit with key K are in the hash `K=`, which a reset deletes with
-- the key.
--
-- The name of a field is 96 bits of a hash, so a long id takes no more memory than a short one. The
-- field of the block is `b`, that of the leases `l`. The values, with the size of each part in bytes:
--
--   id:       'i' 1 | until 7 | at 7 | free 7 | reset 7      the decision of this limit
--             'i' 1 | until 7 | at 7 | free 7 | reset 7 | fence 7   that of a concurrency limit
--   receipt:  'r' 1 | until 7
--   block:    'b' 1 | until 7 | start 7 | end 7 | blocks in a row 4
--
-- `until` is when a record expires. The hash also has a TTL: until its last record expires. If the
-- hash has more than 64 records, each new record checks a few random records and deletes those that
-- have expired, so that expired records stay a minority. A limit has at most 10,000 records. If the
-- hash is full and no record of the sample has expired, an id of the sample is evicted, but never a
-- receipt, a block or the leases.
local function buildRecords()
  local MOST_RECORDS, FEW_RECORDS, SAMPLED, SAMPLED_IF_FULL = 10000, 64, 3, 32
  local ID, ID_SIZE, MARK, MARK_SIZE = '>BI7I7I7I7', 29, '>BI7', 8
  local HOLD_ID, HOLD_ID_SIZE = '>BI7I7I7I7I7', 36
  local BLOCK, BLOCK_SIZE, BLOCK_FIELD, MOST_BLOCKS = '>BI7I7I7I4', 26, 'b', 2 ^ 32 - 1
  local LEASES, LEASE, LEASE_SIZE, LEASES_FIELD = 108, '>I6I7I7I7I7I7I7', 48, 'l'
  local toBytes, fromBytes = struct.pack, struct.unpack
  local records = {}

  local function notRecords(key)
    error('ERR not records of this limiter: ' .. key, 0)
  end

  -- Returns the name of a field.
  function records.name(text)
    local hex = redis.sha1hex(text)
    local one, other = tonumber(string.sub(hex, 1, 12), 16), tonumber(string.sub(hex, 13, 24), 16)
    return toBytes('>I6I6', one, other)
  end

  function records.idBytes(expiresMs, at, free, reset, fence)
    if fence then return toBytes(HOLD_ID, 105, expiresMs, at, free, reset, fence) end
    return toBytes(ID, 105, expiresMs, at, free, reset)
  end

  function records.markBytes(expiresMs)
    return toBytes(MARK, 114, expiresMs)
  end

  local isSize = { [ID_SIZE] = true, [HOLD_ID_SIZE] = true, [MARK_SIZE] = true, [BLOCK_SIZE] = true }
  local function isLeases(value)
    return string.byte(value) == LEASES and (#value - MARK_SIZE) % LEASE_SIZE == 0
  end

  local function untilOf(key, value)
    if not isSize[#value] and not isLeases(value) then notRecords(key) end
    local _, expiresMs = fromBytes(MARK, value)
    return expiresMs
  end

  -- Returns the value of a record that has not expired, or nil.
  function records.find(key, name)
    local value = redis.pcall('HGET', key, name)
    if not value then return nil end
    if type(value) ~= 'string' then notRecords(key) end
    return untilOf(key, value) > now and value or nil
  end

  -- Returns the recorded decision of a limit: at, free, reset, and the fence of a hold.
  function records.decided(key, value, isHold)
    if #value ~= (isHold and HOLD_ID_SIZE or ID_SIZE) then notRecords(key) end
    local _, _, at, free, reset, fence = fromBytes(isHold and HOLD_ID or ID, value)
    return at, free, reset, isHold and fence or nil
  end

  -- Deletes the expired records of a random sample. If the hash is full and none has expired,
  -- deletes an id of the sample. Returns whether there is room for one more record.
  local function makeRoom(key, count)
    local isFull = count >= MOST_RECORDS
    local some = call('HRANDFIELD', key, isFull and SAMPLED_IF_FULL or SAMPLED, 'WITHVALUES')
    local expired, id = {}, nil
    for place = 1, #some, 2 do
      local value = some[place + 1]
      if untilOf(key, value) <= now then
        expired[#expired + 1] = some[place]
      elseif #value == ID_SIZE or #value == HOLD_ID_SIZE then
        id = some[place]
      end
    end
    if isFull and #expired == 0 then expired[1] = id end
    if #expired > 0 then call('HDEL', key, unpack(expired)) end
    return not isFull or #expired > 0
  end

  local function write(key, name, value, expiresMs)
    call('HSET', key, name, value)
    local ttl = lifetime(expiresMs)
    if call('PTTL', key) < tonumber(ttl) then call('PEXPIRE', key, ttl) end
  end

  -- Stores a record. Returns whether there was room.
  function records.store(key, name, value, expiresMs)
    local count = call('HLEN', key)
    if count > FEW_RECORDS and not makeRoom(key, count) then return false end
    write(key, name, value, expiresMs)
    return true
  end

  -- Returns when the last block started and ends, and the number of blocks in a row; or nil.
  function records.block(key)
    local value = redis.pcall('HGET', key, BLOCK_FIELD)
    if not value then return nil end
    if type(value) ~= 'string' or #value ~= BLOCK_SIZE then notRecords(key) end
    local _, _, startMs, endMs, count = fromBytes(BLOCK, value)
    return startMs, endMs, count
  end

  -- Stores a block, even if there are many records.
  function records.storeBlock(key, startMs, endMs, count, expiresMs)
    local value = toBytes(BLOCK, 98, expiresMs, startMs, endMs, min(count, MOST_BLOCKS))
    write(key, BLOCK_FIELD, value, expiresMs)
  end

  -- Returns the leases, ordered by their ends, or nil.
  function records.leases(key)
    local value = redis.pcall('HGET', key, LEASES_FIELD)
    if not value then return nil end
    if type(value) ~= 'string' or not isLeases(value) then notRecords(key) end
    local leases = {}
    for from = MARK_SIZE + 1, #value, LEASE_SIZE do
      local id, units, refunded, reported, start, ends, number = fromBytes(LEASE, value, from)
      leases[#leases + 1] = {
        id = id, units = units, refunded = refunded, reported = reported, start = start, ends = ends,
        number = number,
      }
    end
    return leases
  end

  -- Stores the leases, until the units of the last one that ends leave the window.
  function records.storeLeases(key, leases, params)
    if #leases == 0 then return call('HDEL', key, LEASES_FIELD) end
    local expiresMs = params.algorithm.leaves(params, leases[#leases].ends)
    local parts = { toBytes(MARK, LEASES, expiresMs) }
    for _, lease in ipairs(leases) do
      parts[#parts + 1] = toBytes(
        LEASE, lease.id, lease.units, lease.refunded, lease.reported, lease.start, lease.ends,
        lease.number
      )
    end
    write(key, LEASES_FIELD, table.concat(parts), expiresMs)
  end

  function records.deleteBlock(key)
    return call('HDEL', key, BLOCK_FIELD)
  end

  return records
end
