-- Records of what must not be done twice: admissions under an id, and used receipts. Those of a limit
-- lie beside its key K, in the hash `K=`, so that a reset deletes them with the key.
--
-- A field is named by 96 bits of a hash, so that a long id takes no more than a short one. Values:
--
--   id:       'i' 1 | until 7 | at 7 | free 7 | reset 7      what was decided for this limit
--   receipt:  'r' 1 | until 7
--
-- `until` is when a record expires. Each new record looks at a few others and deletes those that have
-- expired, which keeps the expired ones a minority; the hash as a whole has a TTL. At most 10,000
-- records are kept for a limit. If that is not enough, another id is evicted, but never a receipt.
local function buildRecords()
  local MOST_RECORDS, FEW_RECORDS, LOOKED_AT, LOOKED_AT_IF_FULL = 10000, 64, 3, 32
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

  -- The value of a record that has not expired.
  function records.find(key, name)
    local value = redis.pcall('HGET', key, name)
    if not value then return nil end
    if type(value) ~= 'string' then notRecords(key) end
    return untilOf(key, value) > now and value or nil
  end

  -- What was decided: at, free, reset.
  function records.decided(key, value)
    if #value ~= ID_SIZE then notRecords(key) end
    local _, _, at, free, reset = fromBytes(ID, value)
    return at, free, reset
  end

  -- Deletes those of a few records that have expired. If the hash is full, also one id. Returns
  -- whether there is room for one more.
  local function makeRoom(key, count)
    local isFull = count >= MOST_RECORDS
    local some = call('HRANDFIELD', key, isFull and LOOKED_AT_IF_FULL or LOOKED_AT, 'WITHVALUES')
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

  -- Returns false if there is no room.
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
