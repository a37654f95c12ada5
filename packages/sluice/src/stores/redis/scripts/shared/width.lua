-- Sets the layout of entries whose numbers have `width` bytes.
--
-- In:   width
-- Out:  isWidth     whether there is such a width
--       entrySize   bytes of an entry
--       format      the `struct` format of an entry
--       largest     the largest number that fits
isWidth = width >= 1 and width <= 7
entrySize, format = 2 * width, string.sub(ENTRY_FORMATS, 5 * width - 4, 5 * width)
largest = width < 7 and 256 ^ width - 1 or MOST
