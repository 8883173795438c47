//! The server on the kernel's sockets, a turn at a time: requests that wait for documents, and what clients may do.

use crate::common;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use common::{arrival, path};
use exos::clock;
use exos_cheetah::connections::Bounds;
use exos_cheetah::connections::Carried as _;
use exos_cheetah::limits::{FETCH_TIME, HEAD_GRACE_TIME, READ_RATE_TIME};
use exos_cheetah::log::{Format, Log, Target};
use exos_cheetah::site::{About, Change, Description, Document, Limits};
use exos_cheetah::sockets::SocketServer;
use exos_cheetah::{Server, Site};

/// More than twice what the kernel keeps for one connection.
const BIG_LEN: usize = 100_000_000;

/// A server whose time and turns are the test's.
struct Stepped {
    server: SocketServer,
    address: SocketAddr,
}

impl Stepped {
    /// The usual site, and `/late.txt`, which is not in memory.
    fn new() -> Self {
        Self::of(common::site())
    }

    /// With `/big` besides.
    fn with_big() -> Self {
        let mut site = common::site();
        let description = Description::plain("image/png", 0);
        site.insert(b"/big", Document::new(&vec![7; BIG_LEN], &description));
        Self::of(site)
    }

    fn of(site: Site) -> Self {
        let server = Server::new(site, clock::unix_secs());
        let address = "127.0.0.1:0".parse().unwrap();
        let mut server =
            SocketServer::listen(address, server, None).expect("loopback has free ports");
        server.change(0, Change::Listed(path("/late.txt"), About::default()));
        let address = server.address().expect("it listens");
        Self { server, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream
    }

    fn ask(&self, request: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Turns until it is so.
    fn turn_until(&mut self, mut is_so: impl FnMut(&mut SocketServer) -> bool) {
        let end = clock::now() + Duration::from_secs(60);
        while !is_so(&mut self.server) {
            assert!(clock::now() < end, "it does not come to that");
            let soon = Some(clock::now() + Duration::from_millis(10));
            self.server.turn(soon).unwrap();
        }
    }

    /// Turns until a request waits for its document.
    fn turn_until_wanted(&mut self) {
        let wanted = Some((0, path("/late.txt")));
        self.turn_until(|server| server.cheetah_mut().poll_wanted() == wanted);
    }

    fn change(&mut self, change: Change) {
        self.server.change(0, change);
    }

    /// All that a client gets until the end, which it has asked for.
    fn rest(&mut self, mut stream: TcpStream) -> String {
        let reading = std::thread::spawn(move || {
            let mut got = Vec::new();
            stream
                .read_to_end(&mut got)
                .expect("an answer, then the end");
            String::from_utf8(got).expect("text")
        });
        self.turn_until(|_| reading.is_finished());
        reading.join().expect("it reads")
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.server.cheetah().counters();
        let found = counters.iter().find(|(known, _)| *known == name);
        found.expect(name).1
    }
}

const LATE: &str = "GET /late.txt HTTP/1.1\r\nHost: h\r\n\r\n";
const LATE_LAST: &str = "GET /late.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const LAST: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Answers come in the order of the requests, and one document is asked for once.
#[test]
fn requests_wait_for_a_document_and_are_answered_when_it_has_come() {
    let mut stepped = Stepped::new();
    let first = stepped.ask(&[LATE, LAST].concat());
    stepped.turn_until_wanted();
    let second = stepped.ask(LATE_LAST);
    stepped.turn_until(|server| server.cheetah().connections() == 2);
    let soon = clock::now() + Duration::from_millis(100);
    stepped
        .turn_until(|server| server.cheetah_mut().poll_wanted().is_some() || clock::now() > soon);
    assert_eq!(
        stepped
            .server
            .cheetah()
            .server()
            .counters()
            .response_count(),
        0
    );
    assert!(stepped.server.cheetah().is_busy());
    stepped.change(arrival("/late.txt", "here now"));
    let got = stepped.rest(first);
    let bodies: Vec<&str> = got.split("\r\n\r\n").skip(1).collect();
    assert!(bodies[0].starts_with("here nowHTTP/1.1 200 "), "{got}");
    assert_eq!(bodies[1], "text a", "{got}");
    assert!(stepped.rest(second).ends_with("\r\n\r\nhere now"));
    assert_eq!(stepped.server.cheetah_mut().poll_wanted(), None);
}

#[test]
fn requests_for_what_cannot_be_read_are_refused() {
    let mut stepped = Stepped::new();
    let stream = stepped.ask(LATE_LAST);
    stepped.turn_until_wanted();
    stepped.change(Change::Failed(path("/late.txt")));
    let got = stepped.rest(stream);
    assert!(got.starts_with("HTTP/1.1 500 "), "{got}");
    assert_eq!(stepped.counter("http_fetch_failures"), 1);
    // It is asked for again.
    let stream = stepped.ask(LATE_LAST);
    stepped.turn_until_wanted();
    // Everything is served again, which has it now.
    stepped
        .server
        .cheetah_mut()
        .server_mut()
        .change_site(0, arrival("/late.txt", "again"));
    stepped.server.retry_all();
    assert!(stepped.rest(stream).ends_with("\r\n\r\nagain"));
}

#[test]
fn a_document_that_does_not_come_is_not_waited_for_without_end() {
    let mut stepped = Stepped::new();
    let stream = stepped.ask(LATE);
    stepped.turn_until_wanted();
    stepped
        .server
        .handle(clock::now() + FETCH_TIME, clock::unix_secs());
    let got = stepped.rest(stream);
    assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
    assert_eq!(stepped.counter("http_fetch_timeouts"), 1);
    stepped.change(arrival("/late.txt", "too late"));
    assert_eq!(
        stepped
            .server
            .cheetah()
            .server()
            .counters()
            .response_count(),
        1
    );
}

/// A long file that is another version by now: what has become of it will be told, and is waited for.
#[test]
fn a_request_for_a_long_file_that_has_changed_waits() {
    let folder = common::folder::Folder::new();
    folder.write("long", [b'a'; 10_000]);
    let limits = Limits {
        memory_len: 1000,
        ..Limits::default()
    };
    let mut stepped = Stepped::of(folder.load_within(limits));
    folder.write("long", [b'b'; 9_000]);
    let request = "GET /long HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let stream = stepped.ask(request);
    stepped.turn_until(|server| server.cheetah().waiting() == 1);
    stepped.change(arrival("/long", "b, short now"));
    let got = stepped.rest(stream);
    assert!(got.ends_with("\r\n\r\nb, short now"), "{got}");
    assert_eq!(stepped.counter("http_fetch_failures"), 0);

    let mut stepped = Stepped::of(folder.load_within(limits));
    folder.write("long", [b'c'; 8_000]);
    let stream = stepped.ask(request);
    stepped.turn_until(|server| server.cheetah().waiting() == 1);
    stepped
        .server
        .handle(clock::now() + FETCH_TIME, clock::unix_secs());
    let got = stepped.rest(stream);
    assert!(got.starts_with("HTTP/1.1 503 "), "{got}");
}

#[test]
fn a_stop_waits_for_documents_that_are_waited_for() {
    let mut stepped = Stepped::new();
    let stream = stepped.ask(LATE);
    stepped.turn_until_wanted();
    stepped.server.stop();
    assert!(stepped.server.cheetah().is_busy());
    stepped.change(arrival("/late.txt", "in time"));
    assert!(stepped.rest(stream).ends_with("\r\n\r\nin time"));
    assert!(!stepped.server.cheetah().is_busy());
}

/// One too many waits in the kernel, and gets in when there is room.
#[test]
fn connections_are_limited_in_all() {
    let mut stepped = Stepped::new();
    stepped.server.set_bounds(Bounds::default(), Some(1));
    let first = stepped.connect();
    stepped.turn_until(|server| server.cheetah().connections() == 1);
    let second = stepped.ask(LAST);
    let soon = clock::now() + Duration::from_millis(100);
    let mut turns = 0;
    stepped.turn_until(|server| {
        turns += 1;
        assert_eq!(server.cheetah().connections(), 1);
        clock::now() > soon
    });
    assert!(
        turns < 100,
        "{turns} turns for a connection that has to wait"
    );
    drop(first);
    assert!(stepped.rest(second).ends_with("\r\n\r\ntext a"));
}

#[test]
fn connections_of_a_peer_are_limited() {
    let mut stepped = Stepped::new();
    let bounds = Bounds {
        peer_connections: Some(1),
        ..Bounds::default()
    };
    stepped.server.set_bounds(bounds, None);
    let first = stepped.connect();
    stepped.turn_until(|server| server.cheetah().connections() == 1);
    let mut second = stepped.connect();
    stepped.turn_until(|server| {
        !server
            .cheetah()
            .counters()
            .contains(&("http_peer_refusals", 0))
    });
    let error = second.read(&mut [0; 1]).expect_err("it is reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let counters = stepped.server.counters();
    assert!(
        counters.contains(&("sockets_accepted".to_owned(), 1)),
        "one was refused: {counters:?}"
    );
    drop(first);
    stepped.turn_until(|server| server.cheetah().connections() == 0);
    let third = stepped.ask(LAST);
    assert!(stepped.rest(third).ends_with("\r\n\r\ntext a"));
}

#[test]
fn slow_heads_and_slow_readers_are_ended() {
    let mut stepped = Stepped::with_big();
    let bounds = Bounds {
        head_rate: Some(1000),
        read_rate: Some(u32::MAX),
        ..Bounds::default()
    };
    stepped.server.set_bounds(bounds, None);
    let slow = stepped.ask("GET /a");
    stepped.turn_until(|server| server.cheetah().connections() == 1);
    let mut turns = 0;
    stepped.turn_until(|_| {
        turns += 1;
        turns > 3
    });
    let later = clock::now() + HEAD_GRACE_TIME + Duration::from_secs(1);
    stepped.server.handle(later, clock::unix_secs());
    let got = stepped.rest(slow);
    assert!(got.starts_with("HTTP/1.1 408 "), "{got}");
    assert_eq!(stepped.counter("http_slow_heads"), 1);
    assert_eq!(stepped.counter("http_request_timeouts"), 0);

    let reader = stepped.ask("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    stepped.turn_until(|server| server.cheetah().is_busy());
    assert!(taken_at_once(&reader).is_ok());
    // The kernel has room again, but 20 s later. What it takes then is less than what is left.
    let later = clock::now() + READ_RATE_TIME;
    let end = clock::now() + Duration::from_secs(60);
    while stepped.counter("http_slow_readers") == 0 {
        assert!(clock::now() < end, "the reader is not ended");
        let soon = Some(clock::now() + Duration::from_millis(10));
        stepped.server.wait(soon, &[]).unwrap();
        stepped.server.handle(later, clock::unix_secs());
    }
    assert_eq!(taken_at_once(&reader), Err(ErrorKind::ConnectionReset));
    assert_eq!(stepped.counter("http_slow_readers"), 1);
}

/// Takes what the kernel has for a client while the server stands still.
fn taken_at_once(mut reader: &TcpStream) -> Result<(), ErrorKind> {
    reader.set_nonblocking(true).unwrap();
    let mut sip = vec![0; 100_000];
    loop {
        match reader.read(&mut sip).map_err(|e| e.kind()) {
            Ok(0) => panic!("the end has come"),
            Ok(_) => (),
            Err(ErrorKind::WouldBlock) => return Ok(()),
            Err(kind) => return Err(kind),
        }
    }
}

/// The time of a response to a request that has waited, and of its line in the log, is that when it is answered.
#[test]
fn who_has_waited_is_answered_with_the_time() {
    const WAIT: Duration = Duration::from_millis(50);
    let folder = common::folder::Folder::new();
    let mut stepped = Stepped::new();
    let log = Log::open(Target::File(folder.path("log")), Format::Json, 0).unwrap();
    stepped.server.cheetah_mut().server_mut().set_log(log);
    let stream = stepped.ask(LATE_LAST);
    stepped.turn_until_wanted();
    // The last turn was long ago.
    stepped.server.handle(clock::now(), 0);
    std::thread::sleep(WAIT);
    stepped.change(arrival("/late.txt", "here now"));
    let log = stepped.server.cheetah_mut().server_mut().log_mut();
    log.expect("it is there").finish();
    let got = stepped.rest(stream);
    assert!(got.contains("\r\nDate: ") && !got.contains("1970"), "{got}");
    let text = std::fs::read_to_string(folder.path("log")).unwrap();
    assert!(!text.contains("1970"), "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    let time = line["request_time"].as_f64().expect("a number");
    assert!(time >= WAIT.as_secs_f64(), "{text}");
}

/// A long file that changes while it is sent is sent no further, and that is counted.
#[test]
fn a_long_file_that_changes_is_broken_off() {
    let folder = common::folder::Folder::new();
    let file = std::fs::File::create(folder.path("long")).unwrap();
    file.set_len(BIG_LEN as u64).unwrap();
    let limits = Limits {
        memory_len: 1000,
        ..Limits::default()
    };
    let mut stepped = Stepped::of(folder.load_within(limits));
    let reader = stepped.ask("GET /long HTTP/1.1\r\nHost: h\r\n\r\n");
    stepped.turn_until(|server| server.cheetah().is_busy());
    assert!(taken_at_once(&reader).is_ok());
    file.set_len(1000).unwrap();
    let is_broken_off = |server: &mut SocketServer| {
        let counters = server.cheetah().counters();
        counters.contains(&("http_broken_off", 1))
    };
    stepped.turn_until(is_broken_off);
    assert_eq!(taken_at_once(&reader), Err(ErrorKind::ConnectionReset));
    assert_eq!(stepped.server.cheetah().connections(), 0);
}

/// Urgent data is data like any other.
#[test]
fn requests_may_be_urgent() {
    let mut stepped = Stepped::new();
    let mut stream = stepped.connect();
    let (begin, rest) = LAST.split_at(6);
    let (urgent, end) = rest.split_at(1);
    stream.write_all(begin.as_bytes()).unwrap();
    rustix::net::send(&stream, urgent.as_bytes(), rustix::net::SendFlags::OOB).unwrap();
    stream.write_all(end.as_bytes()).unwrap();
    assert!(stepped.rest(stream).ends_with("\r\n\r\ntext a"));
}
