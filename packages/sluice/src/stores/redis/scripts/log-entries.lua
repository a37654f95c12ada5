-- A chunk: a packed list of log entries, oldest first.
--
--   entry:  time w | total w        (w = width, 1 to 7 bytes)
--
-- Times are milliseconds since `base`. The total of an entry is the summed cost of this entry and
-- all earlier entries, less `origin`. So the cost of a range is one subtraction, and a binary search
-- works by time and by cost. The width is large enough for the largest time and total of the chunk.
--
-- In Lua a chunk is a table: `bytes`, `start` (offset of entry 0), `count`, `base`, `origin`,
-- `width`, and three values derived from the width: `size` (bytes per entry), `format` and `most`
-- (largest number).
local function buildChunks()
  -- include shared/log-formats
  local chunks = {}

  function chunks.widthFor(number)
    local width
    -- include shared/width-for
    return width
  end

  -- Sets the width and the values derived from it. Returns false if there is no such width.
  function chunks.setWidth(chunk, width)
    local isWidth, entrySize, format, largest
    -- include shared/width
    chunk.width, chunk.size, chunk.format, chunk.most = width, entrySize, format, largest
    return isWidth
  end

  -- Returns the time and the total of entry `index`, counted from 0.
  function chunks.at(chunk, index)
    local time, total = fromBytes(chunk.format, chunk.bytes, chunk.start + index * chunk.size + 1)
    return chunk.base + time, chunk.origin + total
  end

  -- Returns the index of the first entry, from `index` on, that is after the time `edge` and whose
  -- total is at least `needed`. Returns `count` if there is no such entry.
  function chunks.seek(chunk, index, edge, needed)
    local bytes, from, entrySize, format = chunk.bytes, chunk.start + 1, chunk.size, chunk.format
    local count, after = chunk.count, edge - chunk.base
    needed = needed - chunk.origin
    -- include shared/log-seek
    return index
  end

  -- Returns the stored numbers of the entries from `index` on: time, total, time, total. One
  -- `unpack` of all entries takes a tenth of the time of one `unpack` per entry.
  function chunks.numbers(chunk, index)
    local count = 2 * (chunk.count - index)
    if count == 0 then return {} end
    local format = '>' .. string.rep('I' .. chunk.width, count)
    local numbers = { fromBytes(format, chunk.bytes, chunk.start + index * chunk.size + 1) }
    numbers[count + 1] = nil
    return numbers
  end

  -- Returns the bytes of `numbers`, each in `width` bytes.
  function chunks.pack(numbers, width)
    return toBytes('>' .. string.rep('I' .. width, #numbers), unpack(numbers))
  end

  -- Sets the entries of a chunk to `numbers`, in the smallest width that holds them.
  function chunks.fill(chunk, numbers)
    local count = #numbers
    chunks.setWidth(chunk, chunks.widthFor(max(numbers[count - 1], numbers[count])))
    chunk.bytes, chunk.start, chunk.count = chunks.pack(numbers, chunk.width), 0, count / 2
  end

  -- Adds `by` to the totals of the entries from `index` on. If `isGone`, removes the entry at
  -- `index`.
  function chunks.change(numbers, index, by, isGone)
    for place = 2 * index + 2, #numbers, 2 do numbers[place] = numbers[place] + by end
    if isGone then
      table.remove(numbers, 2 * index + 1)
      table.remove(numbers, 2 * index + 1)
    end
  end

  return chunks
end
