-- Records that prevent counting twice: admissions by idempotency id, and used receipts. The records
-- of the limit with key K are in the hash `K=`, which a reset deletes with the key.
--
-- The name of a field is 96 bits of a hash, so a long id takes no more memory than a short one. The
-- values, with the size of each part in bytes:
--
--   id:       'i' 1 | until 7 | at 7 | free 7 | reset 7      the decision of this limit
--   receipt:  'r' 1 | until 7
--
-- `until` is when a record expires. The hash also has a TTL, that of its last record. If it has
-- more than 64 records, each new record checks a few others and deletes the expired ones, which
-- keeps them a minority. A limit has at most 10,000 records. If all of a sample are valid then, one
-- of its ids is evicted, but never a receipt.
local function buildRecords()
  local MOST_RECORDS, FEW_RECORDS, SAMPLED, SAMPLED_IF_FULL = 10000, 64, 3, 32
  local ID, ID_SIZE, MARK, MARK_SIZE = '>BI7I7I7I7', 29, '>BI7', 8
  local toBytes, fromBytes = struct.pack, struct.unpack
  local records = {}

  local function notRecords(key)
    error('ERR not records of this limiter: ' .. key, 0)
  end

  function records.name(text)
    local hex = redis.sha1hex(text)
    local one, other = tonumber(string.sub(hex, 1, 12), 16), tonumber(string.sub(hex, 13, 24), 16)
    return toBytes('>I6I6', one, other)
  end

  function records.idBytes(expiresMs, at, free, reset)
    return toBytes(ID, 105, expiresMs, at, free, reset)
  end

  function records.markBytes(expiresMs)
    return toBytes(MARK, 114, expiresMs)
  end

  local function untilOf(key, value)
    if #value ~= ID_SIZE and #value ~= MARK_SIZE then notRecords(key) end
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

  -- Returns the recorded decision of a limit: at, free, reset.
  function records.decided(key, value)
    if #value ~= ID_SIZE then notRecords(key) end
    local _, _, at, free, reset = fromBytes(ID, value)
    return at, free, reset
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
      elseif #value == ID_SIZE then
        id = some[place]
      end
    end
    if isFull and #expired == 0 then expired[1] = id end
    if #expired > 0 then call('HDEL', key, unpack(expired)) end
    return not isFull or #expired > 0
  end

  -- Stores a record. Returns whether there was room.
  function records.store(key, name, value, expiresMs)
    local count = call('HLEN', key)
    if count > FEW_RECORDS and not makeRoom(key, count) then return false end
    call('HSET', key, name, value)
    local ttl = lifetime(expiresMs)
    if call('PTTL', key) < tonumber(ttl) then call('PEXPIRE', key, ttl) end
    return true
  end

  return records
end
