//! QUIC that others forge, lose, and send in another order: what a connection shows stays what its ends have said, and memory is bounded.

mod bounded;
mod cut;
mod early;
mod forged;
mod unknown;

use crate::corpus::quic_bodies::{
    ENDS, End, FIRST_ID, IDS, Keys, SHORT, hello, log, long_head, show,
};
use exos_dump::text::{Printer, Style};

/// Somebody else, who sees the connection.
const OTHER: End = ([6, 6, 6, 6], 1);
/// EncryptedExtensions with HTTP/3, and without early data.
const EXTENSIONS: [u8; 15] = *b"\x08\0\0\x0b\0\x09\0\x10\0\x05\0\x03\x02h3";
const OUT: (End, End) = (ENDS[0], ENDS[1]);
const IN: (End, End) = (ENDS[1], ENDS[0]);

fn number(number: usize) -> [u8; 4] {
    (0x8000_0000 | number as u32).to_be_bytes()
}

/// A part of a stream.
fn stream(id: usize, at: usize, data: &[u8]) -> Vec<u8> {
    let head = [&[0xe][..], &number(id), &number(at), &number(data.len())].concat();
    [&head, data].concat()
}

/// A whole request: GET, https, and this path, by QPACK's fixed table.
fn request(id: usize, path: &str) -> Vec<u8> {
    let head = [
        1,
        6 + path.len() as u8,
        0,
        0,
        0xd1,
        0xd7,
        0x51,
        path.len() as u8,
    ];
    let mut frame = stream(id, 0, &[&head[..], path.as_bytes()].concat());
    frame[0] |= 1;
    frame
}

/// A part of the handshake.
fn crypto(at: usize, data: &[u8]) -> Vec<u8> {
    [&[6][..], &number(at), &number(data.len()), data].concat()
}

/// The bit by which QUIC is told from other protocols is cleared where ends have agreed so (RFC 9287).
const FIXED: u8 = 0x40;

/// A long packet, filled up to a datagram of 1,200 bytes.
fn initial(keys: &Keys, (to, from): (&[u8], &[u8]), number: u32, frames: &[u8]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    frames.resize(1200, 0);
    keys.seal(&long_head(0xc0, to, from, frames.len()), number, &frames)
}

fn short(secret: u8, to: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
    let frames = [frames, &[0; 8]].concat();
    let head = [&[SHORT | 1], to].concat();
    Keys::new(&[secret; 32]).seal(&head, number, &frames)
}

/// A connection with both hellos, and its keys.
struct Capture(Printer);

impl Capture {
    fn new() -> Capture {
        let mut printer = Printer::new(Style::default());
        printer.add_keys(log().as_bytes());
        Capture(printer)
    }

    fn begun() -> Capture {
        let mut capture = Capture::new();
        capture.begin(OUT, FIRST_ID, IDS);
        capture
    }

    fn begin(&mut self, (client, server): (End, End), first: [u8; 8], ids: [[u8; 8]; 2]) {
        let (from_client, from_server) =
            (Keys::initial(&first, false), Keys::initial(&first, true));
        let packet = initial(&from_client, (&first, &ids[0]), 0, &hello(false));
        let said = self.show((client, server), &packet);
        assert!(said.contains("ClientHello"), "{said}");
        let packet = initial(&from_server, (&ids[0], &ids[1]), 0, &hello(true));
        let said = self.show((server, client), &packet);
        assert!(said.contains("ServerHello"), "{said}");
    }

    fn show(&mut self, path: (End, End), payload: &[u8]) -> String {
        show(&mut self.0, path, payload)
    }

    /// What the client sends with its keys.
    fn client(&mut self, number: u32, frames: &[u8]) -> String {
        self.client_to(&IDS[1], number, frames)
    }

    fn client_to(&mut self, id: &[u8], number: u32, frames: &[u8]) -> String {
        self.show(OUT, &short(3, id, number, frames))
    }

    /// What the server does.
    fn server(&mut self, number: u32, frames: &[u8]) -> String {
        self.show(IN, &short(4, &IDS[0], number, frames))
    }

    fn expect_request(&mut self, number: u32, path: &str) {
        let said = self.client(number, &request(4 * number as usize, path));
        assert!(
            said.contains(&format!("HTTP/3 HEADERS GET {path}")),
            "{said}"
        );
    }
}
