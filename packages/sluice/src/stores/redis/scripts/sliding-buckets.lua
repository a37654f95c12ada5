-- sliding-buckets: a sliding log that records every admission at the last millisecond of its bucket
-- of b ms. So a bucket counts in full while any part of it is inside the window.
build['sliding-buckets'] = function()
  return buildLog(function(params) return params.bucket end)
end
