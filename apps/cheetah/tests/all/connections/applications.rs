//! Requests that an application answers, behind the server on the kernel's sockets; the application is the test.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use exos_cheetah::applications::rules::{Rule, Scope};
use exos_cheetah::applications::{Address, Application, Place, Rules};
use exos_cheetah::connections::Bounds;
use exos_cheetah::limits::{CHUNKED_BODY_LEN_MAX, COLLECTED_LEN_MAX};
use exos_cheetah::site::Settings;
use exos_cheetah::{Server, Site};

use super::sockets::Running;

const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END: u8 = 3;

/// Everything that takes longer fails.
const LONG: Duration = Duration::from_secs(60);

pub(super) struct World {
    path: PathBuf,
    listener: UnixListener,
    pub(super) server: Running,
}

impl World {
    pub(super) fn new(change: impl FnOnce(&mut Application)) -> World {
        World::with(Bounds::default(), change)
    }

    fn with(bounds: Bounds, change: impl FnOnce(&mut Application)) -> World {
        World::prepared(bounds, change, |_| {})
    }

    /// With an application for all paths.
    pub(super) fn prepared(
        bounds: Bounds,
        change: impl FnOnce(&mut Application),
        prepare: impl FnOnce(&mut Server) + Send + 'static,
    ) -> World {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("exos-applications-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let mut application = Application::at(Address::Fastcgi(Place::Unix(path.as_path().into())));
        change(&mut application);
        let settings = move || Settings {
            applications: Rules::new(vec![Rule {
                scope: Scope::path("/*").unwrap(),
                application: Arc::new(application),
            }]),
            ..Settings::default()
        };
        let server =
            Running::start_prepared(bounds, move || Site::with(Arc::new(settings())), prepare);
        World {
            path,
            listener,
            server,
        }
    }

    pub(super) fn accept(&self) -> UnixStream {
        let made = self.listener.accept().unwrap().0;
        made.set_read_timeout(Some(LONG)).unwrap();
        made
    }

    /// A client that has sent this.
    fn client(&self, sent: &str) -> TcpStream {
        let mut made = self.server.connect();
        made.set_nodelay(true).unwrap();
        made.write_all(sent.as_bytes()).unwrap();
        made
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn ask(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let len = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, len[0], len[1], 0, 0][..], content].concat()
}

/// Reads a request to its end; gives its variables.
fn hear(made: &mut UnixStream) -> String {
    let mut all = Vec::new();
    loop {
        let mut header = [0; 8];
        made.read_exact(&mut header).unwrap();
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; len + usize::from(header[6])];
        made.read_exact(&mut content).unwrap();
        if header[1] == STDIN && len == 0 {
            return String::from_utf8_lossy(&all).into_owned();
        }
        all.extend(content);
    }
}

fn answer(made: &mut UnixStream, content: &str) {
    let page = format!("Content-Length: {}\r\n\r\n{content}", content.len());
    let all = [record(STDOUT, page.as_bytes()), record(END, &[0; 8])].concat();
    made.write_all(&all).unwrap();
}

/// The status of a response, whose content is this long.
fn status(client: &mut TcpStream, len: usize) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    client.read_exact(&mut vec![0; len]).unwrap();
    String::from_utf8_lossy(&all[9..12]).into_owned()
}

/// RFC 9110 §9.2.2: what may have been done is not asked twice.
#[test]
fn only_safe_requests_go_over_kept_connections() {
    let world = World::new(|application| application.keep = 1);
    let mut client = world.client(&ask("GET", "/a"));
    let mut first = world.accept();
    hear(&mut first);
    answer(&mut first, "one");
    assert_eq!(status(&mut client, 3), "200");
    client.write_all(ask("GET", "/b").as_bytes()).unwrap();
    hear(&mut first);
    answer(&mut first, "two");
    assert_eq!(status(&mut client, 3), "200");
    for method in ["DELETE", "POST"] {
        client.write_all(ask(method, "/c").as_bytes()).unwrap();
        let mut other = world.accept();
        assert!(hear(&mut other).contains(method));
        drop(other);
        assert_eq!(status(&mut client, 0), "502", "it is not asked again");
        client = world.client(&ask("GET", "/d"));
        let mut kept = world.accept();
        hear(&mut kept);
        answer(&mut kept, "abc");
        assert_eq!(status(&mut client, 3), "200");
    }
}

#[test]
fn a_kept_connection_that_ends_without_a_byte_is_replaced_once() {
    let world = World::new(|application| application.keep = 1);
    let mut client = world.client(&ask("GET", "/a"));
    let mut kept = world.accept();
    hear(&mut kept);
    answer(&mut kept, "one");
    assert_eq!(status(&mut client, 3), "200");
    client.write_all(ask("GET", "/b").as_bytes()).unwrap();
    hear(&mut kept);
    drop(kept);
    let mut other = world.accept();
    hear(&mut other);
    answer(&mut other, "two");
    assert_eq!(status(&mut client, 3), "200");
    // With a byte it is not: the application has begun.
    client.write_all(ask("GET", "/c").as_bytes()).unwrap();
    hear(&mut other);
    other.write_all(&record(STDERR, b"said\n")).unwrap();
    drop(other);
    assert_eq!(status(&mut client, 0), "502");
}

/// Whatever a client that waits sends meanwhile, it has one place, and those behind it have theirs.
#[test]
fn clients_that_wait_are_answered_in_order() {
    let world = World::new(|application| application.connections = 1);
    let mut clients = vec![world.client(&ask("GET", "/0"))];
    let mut first = world.accept();
    hear(&mut first);
    for number in 1..4 {
        clients.push(world.client(&ask("GET", &format!("/{number}"))));
        world.server.await_waits(number as u64);
        // The next request, byte by byte.
        for byte in ask("GET", "/behind").bytes().take(20) {
            clients[number].write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    answer(&mut first, "x");
    for (number, client) in clients.iter_mut().enumerate().skip(1) {
        let mut next = world.accept();
        assert!(hear(&mut next).contains(&format!("/{number}")));
        answer(&mut next, "x");
        assert_eq!(status(client, 1), "200");
    }
}

/// The application ends while others wait: all hear so, and when it is back it is asked.
#[test]
fn an_application_that_comes_back_is_asked_again() {
    let mut world = World::new(|application| application.connections = 1);
    let mut clients = vec![world.client(&ask("GET", "/0"))];
    let mut first = world.accept();
    hear(&mut first);
    for _ in 1..5 {
        clients.push(world.client(&ask("GET", "/1")));
    }
    world.server.await_waits(4);
    std::fs::remove_file(&world.path).unwrap();
    drop(first);
    for client in &mut clients {
        assert_eq!(status(client, 0), "502");
    }
    world.listener = UnixListener::bind(&world.path).unwrap();
    let mut client = world.client(&ask("GET", "/2"));
    let mut next = world.accept();
    hear(&mut next);
    answer(&mut next, "x");
    assert_eq!(status(&mut client, 1), "200");
}

/// An application that takes no more of a body is the one that is late, not the client.
#[test]
fn an_application_that_takes_no_body_is_late() {
    let world = World::new(|application| application.timeout = Duration::from_millis(500));
    let mut client = world.client(
        "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 8000000\r\nConnection: close\r\n\r\n",
    );
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&vec![b'x'; 8_000_000]));
    let _asked = world.accept();
    assert_eq!(status(&mut client, 0), "504");
    drop(client);
    drop(world);
    let _ = sending.join();
}

/// What was collected of chunked bodies is bounded until applications have taken it, and not only until they are asked.
#[test]
fn collected_bodies_count_until_they_are_handed_on() {
    let world = World::new(|application| application.connections = 100);
    let body = "x".repeat(CHUNKED_BODY_LEN_MAX as usize);
    let post = |body: &str| {
        format!(
            "POST /a HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    };
    let full = COLLECTED_LEN_MAX / body.len();
    let mut clients = Vec::new();
    for _ in 0..full {
        let client = world.client(&post(&body));
        clients.push((client, world.accept()));
    }
    assert_eq!(status(&mut world.client(&post("x")), 0), "503");
    let (client, asked) = &mut clients[full / 2];
    assert!(hear(asked).ends_with(&body));
    answer(asked, "x");
    assert_eq!(status(client, 1), "200");
    let mut next = world.client(&post("x"));
    let mut asked = world.accept();
    assert!(hear(&mut asked).trim_end_matches('\0').ends_with('x'));
    answer(&mut asked, "x");
    assert_eq!(status(&mut next, 1), "200");
}

/// A body of which the application takes nothing at first goes on when it does.
#[test]
fn a_body_that_is_taken_late_arrives_whole() {
    const LEN: usize = 4 << 20;
    let world = World::new(|_| {});
    let head = format!("POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LEN}\r\n\r\n");
    let mut client = world.client(&head);
    let mut sender = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&vec![b'x'; LEN]));
    let mut asked = world.accept();
    let until = std::time::Instant::now() + LONG;
    while rustix::io::ioctl_fionread(&asked).unwrap() < 64 * 1024 {
        assert!(std::time::Instant::now() < until, "it is sent");
        std::thread::yield_now();
    }
    let heard = hear(&mut asked);
    assert_eq!(heard.len() - heard.trim_end_matches('x').len(), LEN);
    answer(&mut asked, "taken");
    assert_eq!(status(&mut client, 5), "200");
    sending.join().unwrap().unwrap();
}

#[test]
fn a_body_has_a_least_rate() {
    let bounds = Bounds {
        head_rate: Some(100_000),
        ..Bounds::default()
    };
    let world = World::with(bounds, |_| {});
    for (head, piece) in [
        ("Content-Length: 100000", "x"),
        ("Transfer-Encoding: chunked", "1\r\nx\r\n"),
    ] {
        let mut client = world.client(&format!(
            "POST /a HTTP/1.1\r\nHost: a.test\r\n{head}\r\n\r\n"
        ));
        let mut sender = client.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            // Until it is refused.
            while sender.write_all(piece.as_bytes()).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        assert_eq!(status(&mut client, 0), "408", "{head}");
        client.shutdown(std::net::Shutdown::Both).unwrap();
        sending.join().unwrap();
    }
}
