//! The access log, through the server and its connections: what is written, and when.

use crate::common::{self, frames, visit};

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exos_cheetah::Server;
use exos_cheetah::http::Attempt;
use exos_cheetah::log::{Answer, Format, Log, LoggedRequest, Target, Told, Unfinished};
use exos_cheetah::site::{About, Change, Site};
use exos_cheetah::{ServerConnection, Status};
use visit::{UNIX_SECS, Visit, big};

/// A file of its own for each test.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("exos-access-log-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_file(&path);
        Self(path)
    }

    pub(crate) fn open(&self, format: Format) -> Log {
        Log::open(Target::File(self.0.clone()), format, UNIX_SECS).expect("it can be written")
    }

    /// Its lines once there are this many; the writer has its own time.
    pub(crate) fn lines(&self, count: usize) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let text = fs::read_to_string(&self.0).unwrap_or_default();
            if text.matches('\n').count() >= count {
                return text.lines().map(str::to_owned).collect();
            }
            assert!(begin.elapsed().as_secs() < 60, "{count} lines in: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// A line of the combined format, taken apart as analysers do it: by spaces, brackets and quotes.
#[derive(Debug, PartialEq)]
struct Combined {
    peer: String,
    time: String,
    request: String,
    status: u16,
    body_len: u64,
    referer: String,
    agent: String,
}

fn combined(line: &str) -> Combined {
    let (peer, rest) = line.split_once(" - - [").expect("a peer");
    let (time, rest) = rest.split_once("] \"").expect("a time");
    let parts: Vec<&str> = rest.split('"').collect();
    let [request, numbers, referer, " ", agent, ""] = parts[..] else {
        panic!("quotes do not fit: {line}");
    };
    let (status, body_len) = numbers.trim().split_once(' ').expect("two numbers");
    Combined {
        peer: peer
            .parse::<std::net::IpAddr>()
            .expect("an address")
            .to_string(),
        time: time.to_owned(),
        request: request.to_owned(),
        status: status.parse().expect("a status"),
        body_len: body_len.parse().expect("a length"),
        referer: referer.to_owned(),
        agent: agent.to_owned(),
    }
}

/// 300 kB at 50 kB a second: the line comes at the end, with the bytes and the time that it took.
#[test]
fn a_line_is_written_when_its_response_has_been_taken() {
    let file = LogFile::new("slow");
    let log = file.open(Format::Json);
    let mut visit = Visit::new(big(3_000_000), |server| server.set_log(log));
    visit.ask(
        "10.0.0.1",
        b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    visit.run(secs(5), 200_000);
    let counters = visit
        .cheetah
        .server()
        .log()
        .expect("it is there")
        .counters();
    assert_eq!(counters[0], ("http_log_lines", 0), "it is under way");
    visit.run(secs(20), 200_000);
    let line = json(&file.lines(1)[0]);
    assert_eq!(line["status"], 200);
    assert_eq!(line["body_bytes_sent"], 3_000_000);
    assert_eq!(line["bytes_sent"], visit.connections[0].received.len());
    let time = line["request_time"].as_f64().expect("a number");
    assert!((10.0..20.0).contains(&time), "{time}");
}

/// A request that waits for its document has begun when it came, not when that did.
#[test]
fn waiting_for_a_document_is_part_of_the_time() {
    let file = LogFile::new("waits");
    let log = file.open(Format::Json);
    let mut visit = Visit::new(common::site(), |server| {
        server.set_log(log);
        let listed = Change::Listed(common::path("/late.txt"), About::default());
        server.change_site(0, listed);
    });
    visit.ask("10.0.0.1", b"GET /late.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    visit.run(secs(5), usize::MAX);
    visit.change(common::arrival("/late.txt", "here now"));
    visit.run(secs(2), usize::MAX);
    let line = json(&file.lines(1)[0]);
    let time = line["request_time"].as_f64().expect("a number");
    assert!((4.0..7.0).contains(&time), "{time}");
}

#[test]
fn a_client_that_gives_up_is_logged_with_what_it_took() {
    let file = LogFile::new("given-up");
    let log = file.open(Format::Json);
    let mut visit = Visit::new(big(3_000_000), |server| server.set_log(log));
    visit.ask("fd00::1", b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    visit.run(secs(5), 100_000);
    let read = visit.connections[0].received.len() as u64;
    visit.give_up(0);
    visit.run(secs(2), 0);
    let line = json(&file.lines(1)[0]);
    let sent = line["bytes_sent"].as_u64().expect("a number");
    assert!(sent >= read && sent < 3_000_000, "{sent} of {read} read");
    let head = sent - line["body_bytes_sent"].as_u64().expect("a number");
    assert!((150..400).contains(&head), "{head} bytes of head");
    assert_eq!(line["peer"], "fd00::1");
}

/// The bytes of a stream that is given up are those that its client let go and took.
#[test]
fn a_stream_that_is_given_up_is_logged_with_what_was_taken() {
    let file = LogFile::new("given-up-stream");
    let log = file.open(Format::Json);
    let mut visit = Visit::new(big(3_000_000), |server| server.set_log(log));
    let mut asked = exos_http2::frame::PREFACE.to_vec();
    let window = exos_http2::frame::setting::INITIAL_WINDOW_SIZE;
    exos_http2::frame::push_settings(&mut asked, &[(window, 1_000_000)]);
    asked.extend(frames::window(0, 1 << 30));
    asked.extend(frames::request(1, "GET", "/big", &[], true));
    visit.ask("10.0.0.1", &asked);
    visit.run(secs(5), 1_000_000);
    let cancel = exos_http2::ErrorCode::CANCEL.0.to_be_bytes();
    let reset = exos_http2::frame::kind::RST_STREAM;
    visit.say(0, &frames::framed(reset, 0, 1, &cancel));
    visit.run(secs(2), 1_000_000);
    let line = json(&file.lines(1)[0]);
    assert_eq!(line["body_bytes_sent"], 1_000_000);
    assert_eq!(line["status"], 200);
}

/// A short response has its line when it was taken, however long another one beside it is.
#[test]
fn a_stream_is_logged_beside_one_that_goes_on() {
    let file = LogFile::new("beside");
    let log = file.open(Format::Json);
    let mut visit = Visit::new(big(3_000_000), |server| server.set_log(log));
    let mut asked = exos_http2::frame::PREFACE.to_vec();
    let window = exos_http2::frame::setting::INITIAL_WINDOW_SIZE;
    exos_http2::frame::push_settings(&mut asked, &[(window, 1 << 30)]);
    asked.extend(frames::window(0, 1 << 30));
    asked.extend(frames::request(1, "GET", "/big", &[], true));
    visit.ask("10.0.0.1", &asked);
    visit.run(secs(2), 100_000);
    visit.say(0, &frames::request(3, "GET", "/none", &[], true));
    visit.run(secs(8), 100_000);
    let counters = visit.cheetah.server().log().expect("there").counters();
    assert_eq!(counters[0], ("http_log_lines", 1));
    assert_eq!(json(&file.lines(1)[0])["status"], 404);
}

#[test]
fn every_kind_of_answer_has_a_line_that_an_analyser_reads() {
    let file = LogFile::new("kinds");
    let log = file.open(Format::Combined);
    let mut visit = Visit::new(big(1000), |server| server.set_log(log));
    // With the length of the body, where it is no page of the server's own.
    let requests: [(&[u8], u16, Option<u64>); 8] = [
        (
            b"GET /big HTTP/1.1\r\nHost: a\r\nUser-Agent: x\"y\r\n\r\n",
            200,
            Some(1000),
        ),
        (
            b"HEAD /big HTTP/1.1\r\nHost: a\r\nReferer: http://b/\r\n\r\n",
            200,
            Some(0),
        ),
        (
            b"GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n",
            206,
            Some(10),
        ),
        (
            b"GET /big HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
            304,
            Some(0),
        ),
        (b"GET /none HTTP/1.0\r\n\r\n", 404, None),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400, None),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400, None),
        (b"GET /big", 408, None),
    ];
    for (request, ..) in requests {
        visit.ask("10.0.0.3", request);
        visit.run(secs(1), 100_000);
    }
    visit.run(secs(25), 100_000);
    let lines = file.lines(requests.len());
    for ((request, status, body_len), line) in requests.into_iter().zip(&lines) {
        let line = combined(line);
        let request = request.split(|&b| b == b'\r').next().expect("a line");
        assert_eq!((line.status, line.peer.as_str()), (status, "10.0.0.3"));
        match body_len {
            Some(body_len) => assert_eq!(line.body_len, body_len, "{line:?}"),
            None => assert!(line.body_len > 100, "{line:?}"),
        }
        if request.is_ascii() && !request.contains(&0x16) {
            assert_eq!(line.request.as_bytes(), request);
        }
        assert!(
            line.time.len() == 26 && line.time.contains("/Nov/2026:"),
            "{line:?}"
        );
    }
    assert_eq!(combined(&lines[0]).agent, "x\\x22y");
    assert_eq!(combined(&lines[1]).referer, "http://b/");
    assert_eq!(combined(&lines[6]).request, "\\x16\\x03\\x01\\x02\\x00");
}

/// What is said of each body's length is what came of it.
#[test]
fn the_length_of_each_body_is_that_of_the_response() {
    let file = LogFile::new("lengths");
    let mut server = Server::new(big(100_000), UNIX_SECS);
    server.set_log(file.open(Format::Json));
    let requests = [
        "GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n",
        "GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,5000-5009,90000-\r\n\r\n",
        "GET /big HTTP/1.1\r\nHost: a\r\nRange: bytes=200000-\r\n\r\n",
        "GET /big HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ];
    let mut connection = ServerConnection::new();
    let mut bodies = Vec::new();
    for request in requests {
        let mut out = Vec::new();
        connection.handle_bytes(&mut server, request.as_bytes(), usize::MAX, &mut out);
        let response: Vec<u8> = out.iter().flat_map(|s| s.as_bytes().to_vec()).collect();
        let head = response.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        bodies.push((response.len() - head, response.len()));
    }
    connection.acknowledged(&mut server, 0);
    server.log_mut().expect("it is there").finish();
    let lines = file.lines(requests.len());
    for (line, (body, whole)) in lines.iter().zip(bodies) {
        let line = json(line);
        assert_eq!(line["body_bytes_sent"], body, "{line}");
        assert_eq!(line["bytes_sent"], whole, "{line}");
    }
}

#[test]
fn pipelined_requests_have_a_line_each_in_their_order() {
    let file = LogFile::new("pipelined");
    let log = file.open(Format::Combined);
    let mut visit = Visit::new(big(100), |server| server.set_log(log));
    let targets: Vec<String> = (0..300).map(|n| format!("/{n}")).collect();
    let requests: String = targets
        .iter()
        .map(|target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    visit.ask("10.0.0.1", requests.as_bytes());
    visit.run(secs(5), 1_000_000);
    let lines = file.lines(targets.len());
    for (target, line) in targets.iter().zip(&lines) {
        assert_eq!(combined(line).request, format!("GET {target} HTTP/1.1"));
    }
    assert_eq!(lines.len(), targets.len());
}

fn answer(target: &[u8], status: Status) -> Answer<'_> {
    Answer {
        peer: "10.0.0.1".parse().unwrap(),
        begun: exos_inet::Instant::START,
        asked: LoggedRequest::Bytes(target),
        code: status.code(),
        head_len: 100,
        len: 300,
        cache: None,
        tls: None,
        is_early: false,
    }
}

/// Responses that nobody takes: their lines are bounded, and none is forgotten.
#[test]
fn lines_that_wait_are_bounded() {
    const COUNT: u64 = 20_000;
    let mut log = Log::open(Target::File("/dev/null".into()), Format::Json, UNIX_SECS).unwrap();
    let mut queues: Vec<Unfinished> = (0..10).map(|_| Unfinished::default()).collect();
    let target = [b'/'; 4096];
    for n in 0..COUNT {
        let answer = answer(&target, Status::NotFound);
        log.answered(&answer, &mut queues[n as usize % 10]);
        assert!(log.unfinished_len() <= exos_cheetah::limits::LOG_UNFINISHED_LEN_MAX);
    }
    queues.iter_mut().for_each(|queue| log.ended(queue));
    assert_eq!(log.unfinished_len(), 0);
    let [lines, dropped, early, lost] = log.counters().map(|(_, count)| count);
    assert!(early > 0 && lines > 0, "{early} early, {lines} lines");
    assert_eq!((lines + dropped, lost), (COUNT, 0));
}

/// A pipe that nobody empties: lines are left out and counted, and nobody waits.
#[test]
fn a_slow_reader_stalls_nobody() {
    let pipe = LogFile::new("pipe");
    make_pipe(&pipe.0);
    let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe.0);
    let reader = reader.expect("a reader, so that it can be opened");
    let mut log = pipe.open(Format::Common);
    let mut queue = Unfinished::default();
    let target = vec![b'/'; 4000];
    let lines = 4 * exos_cheetah::limits::LOG_CHUNKS_MAX * 16;
    for _ in 0..lines {
        log.answered(&answer(&target, Status::Ok), &mut queue);
        log.acknowledged(&mut queue, 0);
    }
    let [written, dropped, ..] = log.counters().map(|(_, count)| count);
    assert!(dropped > 0, "{written} lines fit");
    assert_eq!(written + dropped, lines as u64);
    log.finish();
    drop(reader);
}

#[test]
fn a_pipe_that_nobody_reads_is_an_error_at_once() {
    let pipe = LogFile::new("no-reader");
    make_pipe(&pipe.0);
    let log = Log::open(Target::File(pipe.0.clone()), Format::Common, UNIX_SECS);
    assert_eq!(
        log.expect_err("nobody reads").raw_os_error(),
        Some(6),
        "ENXIO"
    );
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo is there").success());
}

/// What others answer with has the line that the server itself writes for the same answer, whichever client asked.
#[test]
fn what_others_answer_is_logged_as_if_the_server_had() {
    let requests: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: \"x\"\x80\r\n\r\n",
        b"\r\nHEAD /?q HTTP/1.0\r\nReferer: there\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-3\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nuser-agent:\r\nHost: a\r\nREFERER:b\"\r\nReferer: c\r\n\r\n",
    ];
    for format in [Format::Common, Format::Combined, Format::Json] {
        let file = LogFile::new("others");
        let mut server = Server::new(Site::example(), UNIX_SECS);
        server.set_log(file.open(format));
        for (n, request) in (1..).zip(requests) {
            // The answer may be one to the request without noise.
            let (like, logged) = match exos::requests::reduce(request) {
                Some(reduced) => (reduced.request, reduced.logged),
                None => (request.to_vec(), Vec::new()),
            };
            let rendered = server.render(&like, 4096).expect("a document");
            let counters = server.log().unwrap().counters();
            assert_eq!(counters[0].1, 8 * (n - 1), "it is not logged");
            let (begun, now) = (
                exos_inet::Instant::from_millis(1000),
                exos_inet::Instant::from_millis(3500),
            );
            for ip in ["10.0.0.1", "2001:db8::1"] {
                let peer = ip.parse().unwrap();
                for is_taken in [true, false] {
                    let mut connection = ServerConnection::new();
                    let attempt = Attempt::default().of(peer, begun, begun);
                    let mut out = Vec::new();
                    server.log_mut().unwrap().set_time(begun, UNIX_SECS);
                    connection.handle_again(&mut server, request, 4096, attempt, &mut out);
                    server.log_mut().unwrap().set_time(now, UNIX_SECS + 2);
                    let left = if is_taken { 0 } else { rendered.bytes.len() };
                    connection.acknowledged(&mut server, left);
                    connection.end(&mut server);
                    let told = Told {
                        peer,
                        logged: &logged,
                        unix_secs: UNIX_SECS + 2,
                        time: now - begun,
                        is_taken,
                    };
                    let log = server.log_mut().unwrap();
                    log.set_time(now, UNIX_SECS + 7);
                    log.answered_by_others(rendered.line.as_ref(), &told);
                }
            }
        }
        let log = server.log_mut().unwrap();
        assert_eq!(log.unfinished_len(), 0);
        log.finish();
        for pair in file.lines(40).chunks(2) {
            assert_eq!(pair[0], pair[1]);
        }
    }
}
