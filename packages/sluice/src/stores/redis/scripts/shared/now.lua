-- Sets `now` to the time of all decisions of this command, in ms since the epoch: the time in
-- ARGV[1], or the server's time if that is ''. With a time in ARGV[1], keys expire an hour later
-- than necessary (`outliveMs`), because that clock and the server's clock may run differently.
local now, outliveMs = nil, 0
if ARGV[1] == '' then
  local time = call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
  now, outliveMs = tonumber(ARGV[1]), 3600000
  if not (now and now % 1 == 0 and now >= 0 and now <= MOST) then
    error('ERR expected a time in ms, got ' .. ARGV[1])
  end
end
