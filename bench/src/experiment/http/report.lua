-- What wrk measured, on one line for the program that started it: a word to find the line by, then requests,
-- duration in microseconds, bytes, errors (connect, read, write, timeout, status other than 2xx and 3xx) and
-- latency in microseconds (median, 90th, 99th percentile, longest).
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("exos-bench %d %d %d  %d %d %d %d %d  %d %d %d %d\n",
    summary.requests, summary.duration, summary.bytes,
    e.connect, e.read, e.write, e.timeout, e.status,
    latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
