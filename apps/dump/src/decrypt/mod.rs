//! TLS of captured connections, decrypted by a key log (`--keys`) or by secrets that a capture brings along.
//!
//! [`Decrypter::segment`] is given each TCP segment with data, and says what the records had that end in it. Secrets may come later
//! than the records that they decrypt: these wait, and are shown with the segment behind. Where a connection cannot be decrypted, it
//! says once why.
//!
//! Memory is bounded: connections are kept in two generations, as [conversations](crate::text) are, and all their bytes have
//! one bound.

mod connection;
mod http2;
mod key_file;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use exos_tls::keylog::KeyLog;
use exos_tls::observer::HandshakeType;
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::limits::{DECRYPTED_CONNECTIONS_MAX, HELD_BYTES_MAX, TOLD_BYTES_MAX};
use connection::Connection;

pub(crate) use http2::Frame;
pub(crate) use key_file::KeyFile;

/// An address and a port.
pub(crate) type Endpoint = (IpAddr, u16);

/// A segment of TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) seq: SeqNumber,
    pub(crate) ack: SeqNumber,
    pub(crate) flags: TcpFlags,
    pub(crate) data: &'a [u8],
    /// No data was cut off.
    pub(crate) is_whole: bool,
}

impl Segment<'_> {
    fn key(&self) -> Key {
        match self.from > self.to {
            true => (self.to, self.from),
            false => (self.from, self.to),
        }
    }
}

/// What is to be told of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A handshake message.
    Message(HandshakeType),
    /// An alert: its level and what it says.
    Alert(u8, u8),
    /// Data, as it is in the plaintext.
    Data(Range<usize>),
    /// A frame of HTTP/2.
    Http2(Frame),
    /// Why there is nothing.
    Note(String),
}

/// What a segment came to: plaintext, and what is in it.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) plain: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// All fields of HTTP/2 are wanted.
    keeps_fields: bool,
    /// Bytes of its frames.
    told: usize,
}

impl Shown {
    fn clear(&mut self) {
        self.plain.clear();
        self.items.clear();
        self.told = 0;
    }

    /// Adds a frame, while there is room for more.
    fn add_frame(&mut self, frame: Frame) {
        let had_room = self.told <= TOLD_BYTES_MAX;
        self.told += frame.len();
        match (had_room, self.told <= TOLD_BYTES_MAX) {
            (_, true) => self.items.push(Item::Http2(frame)),
            (true, false) => self.items.push(Item::Note("more frames".to_owned())),
            (false, false) => {}
        }
    }
}

type Key = (Endpoint, Endpoint);
type Generation = HashMap<Key, Connection>;

/// Decrypts what it has secrets for.
#[derive(Default)]
pub(crate) struct Decrypter {
    log: KeyLog,
    file: Option<KeyFile>,
    young: Generation,
    old: Generation,
    /// Bytes that connections keep.
    held: usize,
    shown: Shown,
}

impl fmt::Debug for Decrypter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut decrypter = f.debug_struct("Decrypter");
        decrypter.field("log", &self.log).finish_non_exhaustive()
    }
}

impl Decrypter {
    /// With the secrets of this file, and what is appended to it.
    pub(crate) fn with_file(file: KeyFile) -> Self {
        let mut decrypter = Self {
            file: Some(file),
            ..Self::default()
        };
        decrypter.read_file();
        decrypter
    }

    /// Keeps all fields of HTTP/2, to be shown.
    pub(crate) fn keep_fields(&mut self) {
        self.shown.keeps_fields = true;
    }

    /// Takes lines of a key log.
    pub(crate) fn add_keys(&mut self, lines: &[u8]) {
        self.log.add_lines(lines);
    }

    /// Reads what was appended; true when there was a secret. A file that cannot be read any more has none.
    fn read_file(&mut self) -> bool {
        let Some(file) = &mut self.file else {
            return false;
        };
        let mut count = 0;
        while let Ok(lines) = file.next_lines()
            && !lines.is_empty()
        {
            count += self.log.add_lines(lines);
        }
        count > 0
    }

    /// What there is to tell of this segment, and the plaintext that it refers to.
    pub(crate) fn segment(&mut self, segment: &Segment<'_>) -> &Shown {
        self.shown.clear();
        let key = segment.key();
        let Some(mut connection) = self.take(key, segment) else {
            if connection::is_middle_of_tls(segment.data) {
                let note = "not decrypted: begun before the capture".to_owned();
                self.shown.items.push(Item::Note(note));
                self.keep(key, Connection::unknown(segment)); // That is said once.
            }
            return &self.shown;
        };
        connection.segment(segment, &self.log, &mut self.shown);
        if connection.wants_key() && self.read_file() {
            connection.go_on(segment.from, &self.log, &mut self.shown);
        }
        if connection.is_to_tell_of_key() {
            let note = "no key for it yet".to_owned();
            self.shown.items.push(Item::Note(note));
        }
        if !segment.flags.contains(TcpFlags::RST) {
            self.keep(key, connection);
        }
        &self.shown
    }

    /// Takes the connection of a segment out, or begins one.
    fn take(&mut self, key: Key, segment: &Segment<'_>) -> Option<Connection> {
        let known = self.young.remove(&key).or_else(|| self.old.remove(&key));
        if let Some(known) = &known {
            self.held -= known.held();
        }
        match Connection::begin(segment) {
            // A hello or a SYN that is sent again belongs to what has begun.
            Some(new) => match known {
                Some(known) if known.is_begin(segment) => Some(known),
                _ => Some(new),
            },
            None => known,
        }
    }

    /// Counts the bytes of all that are old, and of this one.
    fn count_held(&mut self, connection: &Connection) {
        let held = self.old.values().map(Connection::held).sum::<usize>();
        self.held = held + connection.held();
    }

    fn keep(&mut self, key: Key, connection: Connection) {
        self.held += connection.held();
        let is_full = self.young.len() >= DECRYPTED_CONNECTIONS_MAX / 2;
        if is_full || self.held > HELD_BYTES_MAX {
            self.old = std::mem::take(&mut self.young);
            self.count_held(&connection);
        }
        if self.held > HELD_BYTES_MAX {
            // Those that hold much wait for what may never come; all others go on.
            self.old.values_mut().for_each(Connection::let_go_of_much);
            self.count_held(&connection);
        }
        self.young.insert(key, connection);
    }
}
