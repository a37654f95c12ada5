-- Sets `width` to the smallest width, in bytes, for numbers up to `number`.
width = 1
while width < 7 and number > 256 ^ width - 1 do width = width + 1 end
