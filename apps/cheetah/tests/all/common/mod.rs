//! A client and a TCP receive buffer for the tests.

pub mod browser;
pub mod frames;
pub mod live;
pub mod long;
pub mod nginx;
pub mod people;
pub mod quic;
pub mod rules;
pub mod seen;
pub mod visit;

pub mod folder;

use exos_buf::Slice;
use exos_cheetah::http::Attempt;
use exos_cheetah::site::document::Draft;
use exos_cheetah::site::{Change, Description, Document, SitePath};
use exos_cheetah::{Next, Server, ServerConnection, Site};

/// Sun, 06 Nov 1994 08:49:37 GMT, the RFCs' favourite moment.
pub const NOW_SECS: u64 = 784_111_777;
/// Sun, 06 Nov 1994 08:00:00 GMT.
pub const MODIFIED_SECS: u64 = 784_108_800;

/// A few documents with known content.
pub fn site() -> Site {
    let mut site = Site::new();
    for (path, content, media_type) in [
        ("/index.html", "<p>start", "text/html"),
        ("/a.txt", "text a", "text/plain"),
        ("/dir/index.html", "<p>dir", "text/html"),
        ("/dir/with space.txt", "space", "text/plain"),
        ("/dir/100%.txt", "percent", "text/plain"),
        ("/bare/deep/b.txt", "text b", "text/plain"),
        ("/empty", "", "application/octet-stream"),
        ("/what?.txt", "question", "text/plain"),
    ] {
        let document = Document::new(
            content.as_bytes(),
            &Description::plain(media_type, MODIFIED_SECS),
        );
        site.insert(path.as_bytes(), document);
    }
    site.insert_forbidden(b"/secret");
    site
}

pub fn path(path: &str) -> SitePath {
    path.as_bytes().into()
}

/// A text comes to be at a path.
pub fn arrival(of: &str, content: &str) -> Change {
    let description = Description::plain("text/plain", MODIFIED_SECS);
    Change::Document(path(of), Draft::new(content.as_bytes(), &description))
}

pub fn server() -> Server {
    Server::new(site(), NOW_SECS)
}

/// What a connection has sent, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub responses: usize,
    pub closed: bool,
    /// Bytes left in the receive buffer: an unfinished request.
    pub left: usize,
}

impl Outcome {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The status codes of the responses, whose contents hold no status lines.
    pub fn statuses(&self) -> Vec<u16> {
        let text = self.text();
        text.match_indices("HTTP/1.1 ")
            .map(|(at, _)| text[at + 9..at + 12].parse().unwrap())
            .collect()
    }
}

/// A connection with a receive buffer like TCP's: what is not consumed is presented again.
pub struct Client<'s> {
    server: &'s mut Server,
    connection: ServerConnection,
    received: Vec<u8>,
    room: usize,
    outcome: Outcome,
    /// Who asks, and when.
    pub attempt: Attempt<'static>,
}

impl<'s> Client<'s> {
    pub fn new(server: &'s mut Server, room: usize) -> Client<'s> {
        let outcome = Outcome {
            output: Vec::new(),
            responses: 0,
            closed: false,
            left: 0,
        };
        Client {
            server,
            connection: ServerConnection::new(),
            received: Vec::new(),
            room,
            outcome,
            attempt: Attempt::default(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        loop {
            let mut out: Vec<Slice> = Vec::new();
            let handled = self.connection.handle_again(
                self.server,
                &self.received,
                self.room,
                self.attempt,
                &mut out,
            );
            let responses = handled.responses;
            assert!(out.len() >= 2 * responses, "an opening and what follows it");
            assert!(handled.consumed <= self.received.len());
            self.received.drain(..handled.consumed);
            out.iter()
                .for_each(|slice| self.outcome.output.extend_from_slice(slice.as_bytes()));
            self.outcome.responses += handled.responses;
            match handled.next {
                Next::Send => assert!(responses > 0, "a call with room makes progress"),
                Next::Receive => return,
                Next::Wait(_) | Next::Tail(_) | Next::Ask(_) | Next::Http2 => {
                    panic!("all documents are in memory")
                }
                Next::Close => {
                    assert!(
                        self.received.is_empty(),
                        "what follows the last request is dropped"
                    );
                    self.outcome.closed = true;
                    return;
                }
            }
        }
    }

    pub fn end(mut self) -> Outcome {
        self.outcome.left = self.received.len();
        self.outcome
    }
}

/// Sends everything at once.
pub fn exchange(bytes: &[u8]) -> Outcome {
    exchange_in_pieces(&[bytes])
}

/// Sends piece by piece.
pub fn exchange_in_pieces(pieces: &[&[u8]]) -> Outcome {
    let mut server = server();
    let mut client = Client::new(&mut server, usize::MAX);
    pieces.iter().for_each(|piece| client.send(piece));
    client.end()
}

/// What comes of a single request.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum After {
    /// The connection goes on.
    Open,
    /// The connection closes.
    Closed,
}
pub use After::{Closed, Open};

/// Sends one request and checks status, ending, and that every way to cut it gives the same.
pub fn check(request: &str, status: u16, after: After) -> String {
    let whole = exchange(request.as_bytes());
    assert_eq!(whole.statuses(), [status], "{request:?}");
    assert_eq!(
        (whole.closed, whole.left),
        (after == Closed, 0),
        "{request:?}"
    );
    let says_close = whole.text().contains("\r\nConnection: close\r\n");
    assert_eq!(says_close, whole.closed, "{request:?}: {}", whole.text());
    if request.len() < 2000 {
        for at in 0..=request.len() {
            let (one, two) = request.as_bytes().split_at(at);
            assert_eq!(
                exchange_in_pieces(&[one, two]),
                whole,
                "{request:?} cut at {at}"
            );
        }
    }
    let bytes: Vec<&[u8]> = request.as_bytes().chunks(1).collect();
    assert_eq!(
        exchange_in_pieces(&bytes),
        whole,
        "{request:?} byte by byte"
    );
    whole.text()
}

/// A GET over HTTP/1.1 with more fields.
pub fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

/// Stands for the tag of `/a.txt` in tables.
pub const TAG_OF_A: &str = "\"TAG\"";

/// The entity tag that a document is sent with.
pub fn tag_of(target: &str) -> String {
    let text = exchange(get(target, "").as_bytes()).text();
    let (_, rest) = text.split_once("ETag: ").unwrap();
    rest.split_once("\r\n").unwrap().0.into()
}
