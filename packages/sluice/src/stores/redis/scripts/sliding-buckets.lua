-- sliding-buckets: a sliding log in which every admission is written down at the last millisecond of
-- its bucket of b ms, so that a bucket counts whole while any of it could still be inside the window.
build['sliding-buckets'] = function()
  return buildLog(
    function(terms, time) return (floor(time / terms.bucket) + 1) * terms.bucket - 1 end,
    function(terms, stamp) return stamp - terms.bucket + 1 end
  )
end
