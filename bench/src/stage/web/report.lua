-- wrk reports what it measured on one line, as JSON.
done = function(summary, latency)
    local e = summary.errors
    io.write(string.format(
        'exos-bench {"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,' ..
        '"errors":{"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}}\n',
        summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
        e.connect, e.read, e.write, e.timeout, e.status))
end
