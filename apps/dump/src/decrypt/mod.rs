//! TLS and QUIC of captured connections, decrypted by a key log (`--keys`) or by secrets that a capture brings along.
//!
//! [`Decrypter::segment`] is given each TCP segment with data, and says what the records had that end in it; [`Decrypter::datagram`] each
//! datagram of UDP, and says what QUIC it has. Secrets may come later than what they decrypt: this waits, and is shown with what comes
//! behind. Where a connection cannot be decrypted, it says once why, and of QUIC at each packet that its keys do not open.
//!
//! Memory is bounded: see [`generations`].

mod connection;
mod generations;
mod hellos;
mod http2;
mod key_file;
mod keys;
pub(crate) mod quic;
mod recent;
mod stream;

use std::net::IpAddr;
use std::ops::Range;

use exos_tls::observer::HandshakeType;
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;

use crate::limits::TOLD_BYTES_MAX;
use connection::Connection;
use generations::Generations;
use hellos::Hellos;
use keys::Keys;
use quic::{Datagram, Quic};

pub(crate) use http2::Frame;
pub(crate) use key_file::KeyFile;
pub(crate) use recent::Recent;

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
    fn key(&self) -> Ends {
        either_way((self.from, self.to))
    }
}

/// Two ends: of a direction, or the lower one first.
pub(crate) type Ends = (Endpoint, Endpoint);

/// Two ends, whichever of them sends.
pub(crate) fn either_way((from, to): Ends) -> Ends {
    (from.min(to), from.max(to))
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
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) plain: Vec<u8>,
    pub(crate) items: Vec<Item>,
    has_fields: bool,
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
    fn add_frame(&mut self, mut frame: Frame) {
        if !self.has_fields {
            frame.fields.clear();
        }
        let had_room = self.told <= TOLD_BYTES_MAX;
        self.told += frame.len();
        match (had_room, self.told <= TOLD_BYTES_MAX) {
            (_, true) => self.items.push(Item::Http2(frame)),
            (true, false) => self.items.push(Item::Note("more frames".to_owned())),
            (false, false) => {}
        }
    }
}

/// Decrypts what it has secrets for.
#[derive(Debug, Default)]
pub(crate) struct Decrypter {
    keys: Keys,
    connections: Generations<Ends, Connection>,
    hellos: Hellos,
    shown: Shown,
    quic: Quic,
}

impl Decrypter {
    /// Of heads of HTTP/2 and 3 all fields are told if that is asked for; else they take no room from other frames.
    pub(crate) fn new(has_fields: bool) -> Self {
        let mut decrypter = Self::default();
        decrypter.shown.has_fields = has_fields;
        decrypter.quic.tell_fields(has_fields);
        decrypter
    }

    /// Takes the secrets of this file, and what is appended to it.
    pub(crate) fn follow(&mut self, file: KeyFile) {
        self.keys.follow(file);
    }

    /// Takes lines of a key log.
    pub(crate) fn add_keys(&mut self, lines: &[u8]) {
        self.keys.add_lines(lines);
    }

    /// Connections of which nothing more was decrypted, for want of memory: nothing is said where no secrets are given.
    pub(crate) fn forgotten(&self) -> u64 {
        match self.keys.are_given() {
            true => self.connections.forgotten() + self.quic.forgotten(),
            false => 0,
        }
    }

    /// What QUIC there is to tell of this datagram.
    pub(crate) fn datagram(&mut self, datagram: &Datagram<'_>) -> &quic::Shown {
        self.quic.datagram(datagram, &mut self.keys)
    }

    /// The hello that this segment completes, if that began in an earlier one.
    pub(crate) fn hello(&mut self, segment: &Segment<'_>) -> Option<Vec<u8>> {
        self.hellos.take(segment)
    }

    /// What there is to tell of this segment, and the plaintext that it refers to: nothing where no secrets are given.
    pub(crate) fn segment(&mut self, segment: &Segment<'_>) -> &Shown {
        self.shown.clear();
        if !self.keys.are_given() {
            return &self.shown;
        }
        let key = segment.key();
        let Some(mut connection) = self.take(key, segment) else {
            if connection::is_middle_of_tls(segment.data) {
                let note = match self.connections.forgotten() {
                    0 => "not decrypted: begun before the capture",
                    _ => "not decrypted: begun before the capture, or forgotten",
                };
                self.shown.items.push(Item::Note(note.to_owned()));
                let unknown = Connection::unknown(segment); // That is said once.
                self.connections.keep(key, Box::new(unknown));
            }
            return &self.shown;
        };
        connection.segment(segment, &self.keys.log, &mut self.shown);
        if connection.wants_key() && self.keys.read_file() {
            connection.go_on(segment.from, &self.keys.log, &mut self.shown);
        }
        if connection.is_to_tell_of_key() {
            let note = "no key for it yet".to_owned();
            self.shown.items.push(Item::Note(note));
        }
        if !segment.flags.contains(TcpFlags::RST) {
            self.connections.keep(key, connection);
        }
        &self.shown
    }

    /// Takes the connection of a segment out, or begins one.
    fn take(&mut self, key: Ends, segment: &Segment<'_>) -> Option<Box<Connection>> {
        let known = self.connections.take(&key);
        match Connection::begin(segment) {
            // A hello or a SYN that is sent again belongs to what has begun.
            Some(new) => match known {
                Some(known) if known.is_begin(segment) => Some(known),
                _ => Some(new.into()),
            },
            None => known,
        }
    }
}
