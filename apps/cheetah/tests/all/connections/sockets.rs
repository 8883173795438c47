//! The server on the kernel's sockets: the answers are those of the other way, whatever the pieces.

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use exos::clock;
use exos_cheetah::caching::keeping::Keeping;
use exos_cheetah::connections::{Bounds, Carried as _};
use exos_cheetah::site::{Cache, Description, Document, Sites};
use exos_cheetah::sockets::SocketServer;
use exos_cheetah::{Server, Status};

const BIG_LEN: usize = 8_000_000;

pub(super) fn site() -> exos_cheetah::Site {
    let mut site = common::site();
    let content: Vec<u8> = (0..BIG_LEN).map(|n| (n / 7 + n % 251) as u8).collect();
    let document = Document::new(&content, &Description::plain("image/png", 0));
    site.insert(b"/big", document);
    site
}

fn listen() -> SocketServer {
    listen_with(site())
}

fn listen_with(site: impl Into<Sites>) -> SocketServer {
    let server = Server::new(site, clock::unix_secs());
    let address = "127.0.0.1:0".parse().unwrap();
    SocketServer::listen(address, server, None).expect("loopback has free ports")
}

/// A server in a thread of its own.
pub(super) struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Nobody asks what becomes of its connections.
    abandoned: Arc<AtomicBool>,
    /// Requests that have had to wait for an application, as of its last turn.
    waits: Arc<AtomicU64>,
    /// Gives how many connections were left, and how many responses there were.
    thread: Option<JoinHandle<(usize, u64)>>,
}

impl Running {
    pub(super) fn start() -> Self {
        Self::start_with(site)
    }

    pub(super) fn start_with<S: Into<Sites>>(site: impl FnOnce() -> S + Send + 'static) -> Self {
        Self::start_bounded(Bounds::default(), site)
    }

    pub(super) fn start_bounded<S: Into<Sites>>(
        bounds: Bounds,
        site: impl FnOnce() -> S + Send + 'static,
    ) -> Self {
        Self::start_prepared(bounds, site, |_| {})
    }

    pub(super) fn start_prepared<S: Into<Sites>>(
        bounds: Bounds,
        site: impl FnOnce() -> S + Send + 'static,
        prepare: impl FnOnce(&mut Server) + Send + 'static,
    ) -> Self {
        let (tell, told) = std::sync::mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let abandoned = Arc::new(AtomicBool::new(false));
        let is_abandoned = Arc::clone(&abandoned);
        let waits = Arc::new(AtomicU64::new(0));
        let has_waited = Arc::clone(&waits);
        let thread = std::thread::spawn(move || {
            let mut server = listen_with(site());
            server.set_bounds(bounds, None);
            prepare(server.cheetah_mut().server_mut());
            tell.send(server.address().expect("it listens")).unwrap();
            let mut keeping = Keeping::new(Cache::new(64 << 20).into());
            while !is_over.load(Ordering::Relaxed) {
                server
                    .turn(Some(clock::now() + Duration::from_millis(10)))
                    .unwrap();
                keep_answers(&mut keeping, &mut server);
                let mut counters = server.cheetah().counters().into_iter();
                let waits = counters.find(|(name, _)| *name == "fastcgi_waits");
                has_waited.store(waits.expect("it is counted").1, Ordering::Relaxed);
            }
            server.stop();
            let until = clock::now() + Duration::from_secs(30);
            let is_awaited = |server: &SocketServer| {
                server.cheetah().connections() > 0 && !is_abandoned.load(Ordering::Relaxed)
            };
            while is_awaited(&server) && clock::now() < until {
                server
                    .turn(Some(clock::now() + Duration::from_millis(10)))
                    .unwrap();
            }
            let responses = server.cheetah().server().counters().response_count();
            (server.cheetah().connections(), responses)
        });
        Self {
            address: told.recv().expect("it listens"),
            stop,
            abandoned,
            waits,
            thread: Some(thread),
        }
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream
    }

    /// Until as many requests have had to wait for an application.
    pub(super) fn await_waits(&self, count: u64) {
        let until = clock::now() + Duration::from_secs(60);
        while self.waits.load(Ordering::Relaxed) < count {
            assert!(clock::now() < until, "{count} requests wait");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Everything that comes until the server closes.
    pub(super) fn ask(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.set_nodelay(true).unwrap();
        for piece in pieces {
            stream.write_all(piece).expect("it reads");
        }
        let mut got = Vec::new();
        stream
            .read_to_end(&mut got)
            .expect("an answer, then the end");
        got
    }

    pub(super) fn finish(mut self) -> (usize, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .expect("it runs")
            .join()
            .expect("it ends")
    }
}

/// A server that a test leaves would turn beside all later tests, each hundredth of a second.
impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.abandoned.store(true, Ordering::Relaxed);
            self.stop.store(true, Ordering::Relaxed);
            // What it panics with it has said.
            let _ = thread.join();
        }
    }
}

/// Does what the server wants done about answers that are kept, as the thread does that has the account of them.
fn keep_answers(keeping: &mut Keeping, server: &mut SocketServer) {
    let next = |server: &mut SocketServer| {
        let answers = server.cheetah_mut().server_mut().answers_mut();
        answers.poll_errand()
    };
    while let Some(errand) = next(server) {
        let mut told = Vec::new();
        keeping.run(errand, &mut |site, change| told.push((site, change)));
        for (site, change) in told {
            server.change(site, change);
        }
    }
}

/// A response without the line that says when it was made.
fn without_date(response: &[u8]) -> String {
    let text = String::from_utf8_lossy(response);
    let lines = text
        .split("\r\n")
        .filter(|line| !line.starts_with("Date: "));
    lines.collect::<Vec<_>>().join("\r\n")
}

/// Requests after which the server closes.
const LAST_REQUESTS: [&str; 12] = [
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.0\r\n\r\n",
    "HEAD /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /dir HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2,4-5\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /empty HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "POST /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\n\r\n",
    "nonsense\r\n\r\n",
];

#[test]
fn answers_are_those_of_the_other_way() {
    let running = Running::start();
    for request in LAST_REQUESTS {
        let wanted = without_date(&common::exchange(request.as_bytes()).output);
        let got = running.ask(&[request.as_bytes()]);
        assert_eq!(without_date(&got), wanted, "{request:?}");
        let (begin, end) = request.as_bytes().split_at(request.len() / 2);
        let got = running.ask(&[begin, end]);
        assert_eq!(without_date(&got), wanted, "{request:?} in two");
    }
    assert_eq!(running.finish().0, 0);
}

/// More than the socket's buffers hold, taken in small sips by one client and at once by another.
#[test]
fn long_documents_arrive_whole_however_they_are_read() {
    let running = Running::start();
    let request = b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut slow = running.connect();
    slow.write_all(request).unwrap();
    let fast = running.ask(&[request]);
    let mut got = Vec::new();
    let mut sip = vec![0; 40_000];
    loop {
        let count = slow.read(&mut sip).expect("more, or the end");
        if count == 0 {
            break;
        }
        got.extend_from_slice(&sip[..count]);
        if got.len() < 1_000_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(slow);
    let site = site();
    let document = site
        .find(b"/big")
        .and_then(|entry| entry.document())
        .expect("it is there");
    for response in [&fast, &got] {
        assert!(
            response.ends_with(document.body().as_bytes()),
            "{} bytes",
            response.len()
        );
    }
    assert_eq!(running.finish(), (0, 2));
}

/// A long file is sent from disk: whole, in parts, behind others, and no further when it has changed.
#[test]
fn long_files_are_sent_from_disk() {
    let folder = common::folder::Folder::new();
    let content: Vec<u8> = (0..BIG_LEN).map(|n| (n / 7 + n % 251) as u8).collect();
    folder.write("long", &content);
    let limits = exos_cheetah::site::Limits {
        memory_len: 1000,
        ..Default::default()
    };
    let path = folder.0.clone();
    let site = move || {
        common::folder::load(&path, limits, Default::default(), false)
            .unwrap()
            .site
    };
    let running = Running::start_with(site);
    let part = b"GET /long HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6,4000000-4000009,-3\r\n\r\n";
    let last = b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let got = running.ask(&[&[&part[..], last].concat()]);
    assert!(got.ends_with(&content), "{} bytes", got.len());
    let parts = &got[..got.len() - BIG_LEN];
    for part in [5..7, 4_000_000..4_000_010, BIG_LEN - 3..BIG_LEN] {
        let part = &content[part];
        assert!(
            parts.windows(part.len()).any(|window| window == part),
            "{part:?}"
        );
    }
    let mut slow = running.connect();
    slow.write_all(last).unwrap();
    slow.read_exact(&mut [0; 1000]).unwrap();
    std::fs::File::options()
        .write(true)
        .open(folder.path("long"))
        .and_then(|file| file.set_len(BIG_LEN as u64 / 2))
        .unwrap();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(rest.len() < BIG_LEN, "{} bytes", rest.len());
    drop(slow);
    running.finish();
}

/// A request for a file that has to be opened first is one request of its client's allowance, and each further one another.
#[test]
fn a_request_for_a_long_file_is_counted_once() {
    let folder = common::folder::Folder::new();
    folder.write("www/long", vec![b'x'; 10_000]);
    let text = "[limits]\nstream = \"1000\"\n[[site]]\nroot = \"www\"\n\
                [[site.access]]\npath = \"*\"\nrate = 1\nburst = 1\n";
    let request = b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = b"GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut statuses = String::new();
    // One that takes a second has one more.
    let is_refused = |_| {
        let file = folder.path("serve.toml");
        let running = Running::start_with(move || crate::sites::access::sites_of(&file, text));
        let got = running.ask(&[&[&request[..], request, last].concat()]);
        let heads = String::from_utf8_lossy(&got);
        let found = heads.match_indices("HTTP/1.1 ");
        statuses = found.map(|(at, _)| &heads[at + 9..at + 13]).collect();
        running.finish();
        statuses == "200 200 429 "
    };
    assert!((0..10).any(is_refused), "{statuses}");
}

/// Far more responses than may be queued: the client is held back, and gets all of them in the end.
#[test]
fn pipelined_requests_beyond_the_queue_wait() {
    let running = Running::start();
    let mut stream = running.connect();
    let request = b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(&request.repeat(4)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream
        .read_to_end(&mut got)
        .expect("all of them, then the end");
    assert!(got.len() > 4 * BIG_LEN, "{} bytes", got.len());
    assert_eq!(running.finish(), (0, 4));
}

#[test]
fn a_stop_lets_responses_end_and_idle_clients_go() {
    let running = Running::start();
    let mut idle = running.connect();
    idle.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut first = [0; 16];
    idle.read_exact(&mut first).unwrap();
    let mut busy = running.connect();
    busy.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    busy.read_exact(&mut first).unwrap();
    running.stop.store(true, Ordering::Relaxed);
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("the end");
    drop(idle);
    rest.clear();
    busy.read_to_end(&mut rest).expect("the rest, then the end");
    assert!(rest.len() + first.len() > BIG_LEN, "{} bytes", rest.len());
    drop(busy);
    assert_eq!(running.finish().0, 0);
}

/// Time passes for the server alone: a request that does not become whole, and a client that sends none.
#[test]
fn waits_have_an_end() {
    let mut server = listen();
    let address = server.address().expect("it listens");
    let mut slow = TcpStream::connect(address).expect("it listens");
    slow.write_all(b"GET /a").unwrap();
    let mut silent = TcpStream::connect(address).expect("it listens");
    let begin = clock::now();
    while server.cheetah().connections() < 2 || clock::now() < begin + Duration::from_millis(200) {
        server
            .turn(Some(clock::now() + Duration::from_millis(10)))
            .unwrap();
    }
    let later = clock::now() + Duration::from_secs(21);
    server.handle(later, clock::unix_secs());
    let mut got = String::new();
    slow.read_to_string(&mut got)
        .expect("an answer, then the end");
    assert!(got.starts_with("HTTP/1.1 408 "), "{got:?}");
    got.clear();
    silent.read_to_string(&mut got).expect("the end");
    assert_eq!(got, "");
    let counters = server.cheetah().counters();
    for name in ["http_request_timeouts", "http_idle_timeouts"] {
        assert!(counters.contains(&(name, 1)), "{counters:?}");
    }
    // Neither closes its side: they are given up.
    server.handle(later + Duration::from_secs(31), clock::unix_secs());
    assert_eq!(server.cheetah().connections(), 0);
    let responses = server.cheetah().server().counters();
    assert_eq!(responses.responses(Status::RequestTimeout), 1);
}

#[test]
fn an_address_that_is_taken_is_an_error_that_says_so() {
    let server = listen();
    let address = server.address().expect("it listens");
    let other = Server::new(site(), 0);
    let error = SocketServer::listen(address, other, None)
        .err()
        .expect("it is taken");
    assert!(error.to_string().contains("--port"), "{error}");
}
