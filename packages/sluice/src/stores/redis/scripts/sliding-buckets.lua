-- sliding-buckets: a sliding log that records every admission at the last millisecond of its bucket
-- of b ms. So the whole bucket counts while any part of it is inside the window.
build['sliding-buckets'] = function()
  return buildLog(function(params) return params.bucket end)
end
