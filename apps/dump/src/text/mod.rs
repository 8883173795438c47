//! A packet as a line of text, in tcpdump's manner, so that anyone who reads one can read the other.
//!
//! [`Printer::print`] writes one packet: with its time, where it comes from as far as known, and its
//! protocols from Ethernet inwards, one file each. Addresses and ports are always numbers. What the
//! capture cut off is shown as ` [|tcp]`, named after the protocol in which it ends.
//!
//! Packets come from anybody: nothing in here panics, whatever the bytes; the work for one packet is
//! linear in its length (names of DNS, which could multiply, are bounded); and no control character
//! of a packet reaches the terminal.
//!
//! Other than tcpdump: only the protocols of this folder are read further, so that, say, NTP shows
//! as `UDP, length 48`; hellos and alerts of TLS and packets of QUIC show as such.

mod arp;
mod conversations;
mod decrypted;
mod dns;
mod ethernet;
mod hex;
mod http;
mod icmpv4;
mod icmpv6;
mod ip;
mod ipv4;
mod ipv6;
mod line;
mod part;
mod quic;
mod tcp;
mod tls;
mod udp;

use crate::decrypt::{Decrypter, KeyFile};
use crate::packet::Packet;
use conversations::Conversations;
use line::Line;
use part::{Cut, Part};

pub(crate) use hex::escape;

/// How packets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// How often `-v` was given: with one the IP header and checksums, with two everything.
    pub verbosity: u8,
    /// `-e`: the Ethernet header.
    pub link_header: bool,
    /// `-S`: sequence numbers as they are.
    pub absolute_seq: bool,
    /// `-x` or `-X`: the bytes below the line.
    pub rows: Option<Rows>,
}

/// Which bytes are shown below a packet's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// From the Ethernet header on, not only what follows it.
    pub link_header: bool,
    /// As characters too.
    pub characters: bool,
}

/// Turns packets into text, and remembers what that needs of earlier ones.
#[derive(Debug, Default)]
pub struct Printer {
    style: Style,
    conversations: Conversations,
    decrypter: Decrypter,
}

impl Printer {
    /// Packets in this style.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self {
            style,
            conversations: Conversations::default(),
            decrypter: Decrypter::new(style.verbosity > 0),
        }
    }

    /// Decrypts TLS and QUIC with the secrets of a key log, and with those that are appended to it.
    pub(crate) fn decrypt_with(&mut self, keys: KeyFile) {
        self.decrypter.follow(keys);
    }

    /// Decrypts TLS and QUIC with these lines of a key log.
    pub fn add_keys(&mut self, lines: &[u8]) {
        self.decrypter.add_keys(lines);
    }

    /// Connections that were to be decrypted, and were forgotten before their ends because there were too many.
    #[must_use]
    pub fn forgotten_connections(&self) -> u64 {
        self.decrypter.forgotten()
    }

    /// Appends a packet's text, several lines where the style asks for it, without a line feed at
    /// the end.
    pub fn print(&mut self, packet: &Packet<'_>, out: &mut String) {
        let mut line = Line {
            out,
            style: self.style,
            conversations: &mut self.conversations,
            decrypter: Some(&mut self.decrypter),
            link_len: 0,
            depth: 0,
        };
        let frame = Part::new(packet.bytes, packet.len, "ether");
        if let Err(Cut(protocol)) = line.ethernet(frame) {
            write!(line, " [|{protocol}]");
        }
        if let Some(rows) = self.style.rows {
            let from = if rows.link_header { 0 } else { line.link_len };
            let bytes = packet.bytes.get(from..).unwrap_or_default();
            line.rows("\n\t", bytes, rows.characters);
        }
    }
}
