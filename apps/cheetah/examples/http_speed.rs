//! Measures the HTTP core alone: the time from the bytes of a GET to the slices of its answer,
//! without TCP and without copying; then with a line of the access log for each, written to `/dev/null`.
//!
//! `cargo run --release -p exos-cheetah --example http_speed`

use std::hint::black_box;
use std::time::Instant;

use exos_cheetah::log::{Format, Log, Target};
use exos_cheetah::{Server, ServerConnection, Site};

const REQUESTS: u32 = 1_000_000;

const WRK: &str = "GET /index.html HTTP/1.1\r\nHost: 10.10.0.1\r\n\r\n";
const CURL: &str =
    "GET /index.html HTTP/1.1\r\nHost: 10.10.0.1\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n\r\n";
const BROWSER: &str = "GET /tiles/34.png HTTP/1.1\r\nHost: 10.10.0.1\r\nConnection: keep-alive\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n\
    Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\n\
    Referer: http://10.10.0.1/mosaic.html\r\nAccept-Encoding: gzip, deflate\r\n\
    Accept-Language: en-GB,en;q=0.9\r\n\r\n";
const REVALIDATE: &str = "GET /index.html HTTP/1.1\r\nHost: 10.10.0.1\r\n\
    If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n";
const MISSING: &str = "GET /missing HTTP/1.1\r\nHost: 10.10.0.1\r\n\r\n";
const ENCODED: &str = "GET /try/../%69ndex.html HTTP/1.1\r\nHost: 10.10.0.1\r\n\r\n";

fn main() {
    for (name, request) in [
        ("wrk", WRK),
        ("curl", CURL),
        ("browser", BROWSER),
        ("304", REVALIDATE),
        ("404", MISSING),
        ("encoded path", ENCODED),
    ] {
        let alone = measure(request.as_bytes(), 1, false);
        let pipelined = measure(request.repeat(16).as_bytes(), 16, false);
        let logged = measure(request.as_bytes(), 1, true);
        println!(
            "{name:>14}: {alone:6.1} ns alone, {pipelined:6.1} ns of 16 pipelined, {logged:6.1} ns logged"
        );
    }
}

/// Nanoseconds per request, the best of several runs.
fn measure(bytes: &[u8], requests_at_once: u32, with_log: bool) -> f64 {
    (0..5)
        .map(|_| run(bytes, requests_at_once, with_log))
        .fold(f64::INFINITY, f64::min)
}

fn run(bytes: &[u8], requests_at_once: u32, with_log: bool) -> f64 {
    let mut server = Server::new(Site::example(), 784_111_777);
    if with_log {
        let target = Target::File("/dev/null".into());
        let log = Log::open(target, Format::Combined, 784_111_777);
        server.set_log(log.expect("it can be written"));
    }
    let mut connection = ServerConnection::new();
    let mut out = Vec::new();
    let begin = Instant::now();
    for _ in 0..REQUESTS / requests_at_once {
        let handled = connection.handle_bytes(&mut server, black_box(bytes), usize::MAX, &mut out);
        assert_eq!(handled.consumed, bytes.len());
        black_box(&out);
        out.clear();
        connection.acknowledged(&mut server, 0);
    }
    begin.elapsed().as_nanos() as f64 / f64::from(REQUESTS)
}
