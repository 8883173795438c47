//! Who scrapes: just enough HTTP/1.1 for one request on a connection, answered and closed.
//!
//! Anyone who may connect to a loopback address is a stranger like everybody else: connections, bytes and time are bounded,
//! and the text is made at most every [`TEXT_EVERY`], however often it is asked for. Nobody is kept out by those who connect and
//! ask nothing: where there are as many as may be, the newest gets a place, and one of those has to go, of the address
//! that has most. What the text says is no secret: any program gets more from the daemon.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use exos_host::Error;
use exos_host::error::{Context as _, Result};
use exos_program::exposition::MEDIA_TYPE;
use rustix::event::PollFlags;

use crate::limits::{
    ACCEPTS_MAX, CLIENT_TIME, CLIENTS_MAX, REQUEST_BYTES_MAX, REQUEST_TIME, TEXT_EVERY,
};

/// Time since this program started.
pub type Now = Duration;

/// The listener and anyone who is on it.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// The one that has been there for longest comes first.
    clients: VecDeque<Client>,
    /// The text as it was made last.
    text: Option<(Now, Arc<str>)>,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    from: IpAddr,
    request: Vec<u8>,
    /// Empty until the request is whole.
    answer: Vec<u8>,
    sent: usize,
    since: Now,
}

impl Server {
    /// Listens.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let what = || format!("cannot serve metrics at {address}");
        if !address.ip().is_loopback() {
            return Err(Error::new(format!("{} is not a loopback address", address.ip()))
                .mend("serve metrics at 127.0.0.1:9101 or [::1]:9101, and let a proxy ask who others are"));
        }
        let listener = TcpListener::bind(address).context(what)?;
        listener.set_nonblocking(true).context(what)?;
        Ok(Self {
            listener,
            clients: VecDeque::new(),
            text: None,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        let what = || "cannot tell where metrics are served";
        self.listener.local_addr().context(what)
    }

    /// What to wait for.
    pub fn interest(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listener = (self.listener.as_fd(), PollFlags::IN);
        let clients = self.clients.iter().map(|client| {
            let flags = match client.answer[..] {
                [] => PollFlags::IN,
                [..] => PollFlags::OUT,
            };
            (client.stream.as_fd(), flags)
        });
        std::iter::once(listener).chain(clients)
    }

    /// When the next one is cut off.
    pub fn deadline(&self) -> Option<Now> {
        self.clients.iter().map(Client::deadline).min()
    }

    /// Hears and answers all that can be without waiting.
    pub fn serve(&mut self, now: Now, make: impl FnOnce() -> String) {
        self.accept(now);
        let mut make = Some(make);
        let text = &mut self.text;
        self.clients.retain_mut(|client| {
            let fresh = || {
                let old = text.as_ref().is_none_or(|(at, _)| now - *at >= TEXT_EVERY);
                if old && let Some(make) = make.take() {
                    *text = Some((now, make().into()));
                }
                text.as_ref()
                    .map(|(_, text)| text.clone())
                    .unwrap_or_default()
            };
            now < client.deadline() && client.step(fresh)
        });
    }

    /// Takes in who has come; the rest is heard of again at once.
    fn accept(&mut self, now: Now) {
        for _ in 0..ACCEPTS_MAX {
            let Ok((stream, from)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() == CLIENTS_MAX {
                self.make_room();
            }
            let client = Client::new(stream, from.ip(), now);
            self.clients.push_back(client);
        }
    }

    /// Cuts off one who has asked nothing yet, if there is one; of the address with most connections; for longest there.
    fn make_room(&mut self) {
        let of_address = |from: IpAddr| self.clients.iter().filter(|c| c.from == from).count();
        let rank = |client: &Client| (client.has_asked(), Reverse(of_address(client.from)));
        let all = self.clients.iter().enumerate();
        let first = all.min_by_key(|(at, client)| (rank(client), *at));
        if let Some(at) = first.map(|(at, _)| at) {
            self.clients.remove(at);
        }
    }
}

impl Client {
    fn new(stream: TcpStream, from: IpAddr, since: Now) -> Self {
        Self {
            stream,
            from,
            request: Vec::new(),
            answer: Vec::new(),
            sent: 0,
            since,
        }
    }

    fn has_asked(&self) -> bool {
        !self.answer.is_empty()
    }

    /// When it is cut off.
    fn deadline(&self) -> Now {
        let time = if self.has_asked() {
            CLIENT_TIME
        } else {
            REQUEST_TIME
        };
        self.since + time
    }

    /// Goes on as far as it can; false when it is done.
    fn step(&mut self, text: impl FnOnce() -> Arc<str>) -> bool {
        if !self.has_asked() {
            match self.hear() {
                Ok(true) => self.answer = answer(&self.request, text),
                Ok(false) => return true,
                Err(()) => return false,
            }
        }
        loop {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(0) => return false,
                Ok(n) => self.sent += n,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            }
        }
    }

    /// Reads; true when there is something to answer.
    fn hear(&mut self) -> std::result::Result<bool, ()> {
        let mut bytes = [0; 1024];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(()),
                Ok(n) => self.request.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(()),
            }
            let whole = self.request.windows(4).any(|w| w == b"\r\n\r\n");
            if whole || self.request.len() > REQUEST_BYTES_MAX {
                return Ok(true);
            }
        }
    }
}

/// The answer to a request (RFC 9112, sections 2 to 4).
fn answer(request: &[u8], text: impl FnOnce() -> Arc<str>) -> Vec<u8> {
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut words = line.split(|b| *b == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|b| *b == b'?').next();
    let (status, kind, body) = if request.len() > REQUEST_BYTES_MAX {
        (
            "431 Request Header Fields Too Large",
            "text/plain",
            "".into(),
        )
    } else if method != Some(b"GET") {
        ("405 Method Not Allowed", "text/plain", "only GET\n".into())
    } else if path != Some(b"/metrics") {
        ("404 Not Found", "text/plain", "see /metrics\n".into())
    } else {
        ("200 OK", MEDIA_TYPE, text())
    };
    let bytes = body.len();
    let allow = if status.starts_with("405") {
        "Allow: GET\r\n"
    } else {
        ""
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n{allow}Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Now = Duration::from_secs(100);

    fn listen() -> (Server, SocketAddr) {
        let server = Server::listen("127.0.0.1:0".parse().expect("an address"));
        let server = server.expect("loopback has free ports");
        let address = server.address().expect("it listens");
        (server, address)
    }

    fn ask(address: SocketAddr, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request).expect("room");
        stream
    }

    fn read(mut stream: TcpStream) -> String {
        let mut got = String::new();
        stream.read_to_string(&mut got).expect("text, then the end");
        got
    }

    /// Serves until it is so, which it must be within a minute.
    fn serve_until(server: &mut Server, now: Now, done: impl Fn(&Server) -> bool) {
        let begin = std::time::Instant::now();
        while !done(server) {
            assert!(begin.elapsed() < Duration::from_secs(60), "not in time");
            server.serve(now, || format!("made_at {}\n", now.as_millis()));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Serves these until they have their answers.
    fn answers<const N: usize>(
        server: &mut Server,
        now: Now,
        clients: [TcpStream; N],
    ) -> [String; N] {
        let readers = clients.map(|client| std::thread::spawn(|| read(client)));
        serve_until(server, now, |_| readers.iter().all(|r| r.is_finished()));
        readers.map(|reader| reader.join().expect("an answer"))
    }

    #[test]
    fn a_scraper_gets_the_text_and_others_are_told() {
        let (mut server, address) = listen();
        let scraper = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let lost = ask(address, b"GET / HTTP/1.1\r\n\r\n");
        let writer = ask(address, b"POST /metrics HTTP/1.1\r\n\r\n");
        let [got, lost, writer] = answers(&mut server, START, [scraper, lost, writer]);
        assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
        assert!(got.contains("Content-Length: 15\r\n"), "{got}");
        assert!(got.ends_with("\r\n\r\nmade_at 100000\n"), "{got}");
        assert!(lost.starts_with("HTTP/1.1 404 "));
        assert!(writer.starts_with("HTTP/1.1 405 "));
        assert_eq!(server.deadline(), None, "all are gone");
    }

    #[test]
    fn the_text_is_made_once_in_a_while() {
        let (mut server, address) = listen();
        for (after, made) in [
            (0, "100000"),
            (1, "100000"),
            (TEXT_EVERY.as_millis(), "100250"),
        ] {
            let scraper = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
            let now = START + Duration::from_millis(after as u64);
            let [got] = answers(&mut server, now, [scraper]);
            assert!(got.ends_with(&format!("made_at {made}\n")));
        }
    }

    #[test]
    fn slow_and_endless_requests_are_bounded() {
        let (mut server, address) = listen();
        let endless = ask(address, &[b'x'; REQUEST_BYTES_MAX + 1]);
        let status = std::thread::spawn(move || {
            let mut status = [0; 12];
            (&endless).read_exact(&mut status).expect("an answer");
            (status, endless)
        });
        serve_until(&mut server, START, |_| status.is_finished());
        let (status, _endless) = status.join().expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 431");
        let slow: Vec<_> = (0..3).map(|_| ask(address, b"GET ")).collect();
        serve_until(&mut server, START, |s| s.clients.len() == 3);
        assert_eq!(server.deadline(), Some(START + REQUEST_TIME));
        serve_until(&mut server, START + REQUEST_TIME, |s| s.clients.is_empty());
        drop(slow);
    }

    /// Connections that are held open, from one address and from others, and one who asks: it is answered before any time has
    /// passed.
    #[test]
    fn those_who_ask_nothing_keep_nobody_out() {
        let (mut server, address) = listen();
        let held: Vec<_> = (0..3 * CLIENTS_MAX)
            .map(|_| ask(address, b"GET "))
            .collect();
        let full = |s: &Server| s.clients.len() == CLIENTS_MAX;
        serve_until(&mut server, START, full);
        let scraper = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        let [got] = answers(&mut server, START, [scraper]);
        assert!(got.ends_with("made_at 100000\n"), "{got}");
        assert!(server.clients.len() <= CLIENTS_MAX);
        drop(held);
    }

    #[test]
    fn who_has_most_and_asks_nothing_makes_room() {
        let (mut server, address) = listen();
        let addresses = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().expect("an address"));
        let mut streams = Vec::new();
        for (number, from) in [0, 1, 1, 0, 1].into_iter().enumerate() {
            let stream = TcpStream::connect(address).expect("it listens");
            streams.push(stream.try_clone().expect("descriptors"));
            let mut client = Client::new(stream, addresses[from], Now::from_secs(number as u64));
            if number == 1 {
                client.answer = b"under way".to_vec();
            }
            server.clients.push_back(client);
        }
        let since = |s: &Server| {
            s.clients
                .iter()
                .map(|c| c.since.as_secs())
                .collect::<Vec<_>>()
        };
        for left in [&[0, 1, 3, 4][..], &[1, 3, 4], &[1, 3], &[1], &[]] {
            server.make_room();
            assert_eq!(since(&server), left);
        }
    }

    #[test]
    fn only_local_addresses() {
        let error = Server::listen("0.0.0.0:0".parse().expect("an address"));
        let error = error.expect_err("everybody could ask");
        assert!(error.what.contains("not a loopback address"), "{error}");
    }
}
