//! The TLS of others' QUIC connections (RFC 9001): what CRYPTO frames carry goes in, keys of packets come out.
//!
//! [`QuicObserver::crypto`] is given what one side has sent at a level, in order and from its first byte on. [`QuicObserver::keys`] are
//! those of a level and a side, as soon as the hellos and a [`KeyLog`] have said which; those of Initial packets follow from an identifier
//! that is in clear ([`PacketKeys::initial`]).

use std::fmt;
use std::ops::Range;

use aws_lc_rs::aead::quic::{self as header, HeaderProtectionKey};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use exos_wire::quic::VERSION_2;
use exos_wire::tls::{HelloKind, HelloView};
use exos_wire::tls::{VERSION_1_3, extensions::Extensions};
use rustls::HandshakeType;

use super::keys::{NONCE_LEN, Suite};
use super::messages::Messages;
use super::{MESSAGE_HEADER_LEN, Obstacle, Side};
use crate::TlsError;
use crate::keylog::{KeyLog, Label, RANDOM_LEN};

/// Bytes of a packet behind the begin of its number, before those that are a sample for its header's protection (RFC 9001 §5.4.2).
const SAMPLE_AFTER: usize = 4;
const SAMPLE_LEN: usize = 16;
/// Bytes at the end of a Retry packet (RFC 9001 §5.8).
const TAG_LEN: usize = 16;
/// The first bit of a long header (RFC 9000 §17.2), and the bit of a short one that changes with its keys (§17.3.1).
const LONG: u8 = 0x80;
const KEY_PHASE: u8 = 0x04;

/// Protocols of a hello that are kept: browsers offer two.
const PROTOCOLS_MAX: usize = 8;

/// Which keys a packet has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Those that everybody can derive.
    Initial,
    /// A client's before the server has answered: 0-RTT packets.
    Early,
    /// Those of the rest of the handshake.
    Handshake,
    /// Those of packets with short headers.
    Traffic,
}

impl Level {
    /// Packets are numbered, and CRYPTO frames have places, by these (RFC 9000 §12.3).
    pub const SPACES: usize = 3;

    /// How many there are.
    pub const ALL: usize = 4;

    /// The number of its space.
    pub const fn space(self) -> usize {
        match self {
            Level::Initial => 0,
            Level::Handshake => 1,
            Level::Early | Level::Traffic => 2,
        }
    }
}

/// The TLS of one connection.
#[derive(Default)]
pub struct QuicObserver {
    client_random: Option<[u8; RANDOM_LEN]>,
    suite: Option<Suite>,
    early_suites: Vec<Suite>,
    /// What the client offers, up to the server's answer; then what was agreed on.
    protocols: Vec<Box<[u8]>>,
    takes_early_data: bool,
    messages: [[Messages; Level::SPACES]; 2],
}

impl fmt::Debug for QuicObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicObserver").finish_non_exhaustive()
    }
}

impl QuicObserver {
    /// This protocol is spoken above (ALPN), or may be: the client offers it, and the server has not been heard.
    pub fn may_speak(&self, protocol: &[u8]) -> bool {
        self.protocols.iter().any(|it| **it == *protocol)
    }

    /// The server has taken early data, so that the client goes on behind that (RFC 9001 §4.6.2).
    pub fn takes_early_data(&self) -> bool {
        self.takes_early_data
    }

    /// Bytes that it keeps.
    pub fn held(&self) -> usize {
        let messages = self.messages.iter().flatten().map(Messages::held);
        let protocols = self.protocols.iter();
        // With what the allocator takes of each.
        let protocols = protocols.map(|it| size_of_val(it) + it.len() + 32);
        let suites = self.early_suites.capacity() * size_of::<Suite>();
        messages.sum::<usize>() + protocols.sum::<usize>() + suites
    }

    /// Takes what `side` has sent in CRYPTO frames, and gives the messages that are whole by that, each with its header.
    ///
    /// # Errors
    ///
    /// Nothing more can be decrypted, and why.
    pub fn crypto(
        &mut self,
        side: Side,
        level: Level,
        bytes: &[u8],
    ) -> Result<Vec<Vec<u8>>, Obstacle> {
        let at = (usize::from(side == Side::Server), level.space());
        let pushed = self.messages[at.0][at.1].push(bytes);
        pushed.map_err(|_| Obstacle::Unexpected)?;
        let mut messages = Vec::new();
        while let Some(message) = self.messages[at.0][at.1].next() {
            self.message(side, level, &message)?;
            messages.push(message);
        }
        Ok(messages)
    }

    fn message(&mut self, side: Side, level: Level, message: &[u8]) -> Result<(), Obstacle> {
        let own = |extensions: &Extensions<'_>| {
            let protocols = extensions.protocols().take(PROTOCOLS_MAX);
            protocols.map(Box::from).collect()
        };
        match (level, side, HandshakeType::from(message[0])) {
            // The first one stays: one behind a request for another has the same number (RFC 8446 §4.1.2), and anybody can write one.
            (Level::Initial, Side::Client, HandshakeType::ClientHello)
                if self.client_random.is_none() =>
            {
                let hello = HelloView::parse(message).map_err(|_| Obstacle::Unexpected)?;
                self.client_random = Some(*hello.random());
                self.protocols = own(&hello.extensions());
                let offered = |number: &u16| hello.cipher_suites().any(|it| it == *number);
                let known = Suite::ALL_13.into_iter().filter(offered);
                self.early_suites = known.filter_map(Suite::of).collect();
            }
            (Level::Initial, Side::Server, HandshakeType::ServerHello) if self.suite.is_none() => {
                let hello = HelloView::parse(message).map_err(|_| Obstacle::Unexpected)?;
                if hello.kind() != HelloKind::Server {
                    return Ok(());
                }
                if hello.version() != VERSION_1_3 {
                    return Err(Obstacle::Version(hello.version()));
                }
                let number = hello.cipher_suites().next().unwrap_or(0);
                let suite = Suite::of(number).filter(|_| Suite::ALL_13.contains(&number));
                self.suite = Some(suite.ok_or(Obstacle::Suite(number))?);
            }
            (Level::Handshake, Side::Server, HandshakeType::EncryptedExtensions) => {
                let extensions = Extensions::encrypted(&message[MESSAGE_HEADER_LEN..]);
                self.protocols = own(&extensions);
                self.takes_early_data = extensions.has_early_data();
            }
            _ => {}
        }
        Ok(())
    }

    /// The keys of packets that `side` sends at a level, in a connection of this version. Of early data several, for nobody has said which
    /// suite it has: one of them fits. None while the hellos have not come, or the log has no secret.
    pub fn keys(&self, side: Side, level: Level, version: u32, log: &KeyLog) -> Vec<PacketKeys> {
        let label = match (level, side) {
            (Level::Initial, _) | (Level::Early, Side::Server) => return Vec::new(),
            (Level::Early, Side::Client) => Label::ClientEarly,
            (Level::Handshake, Side::Client) => Label::ClientHandshake,
            (Level::Handshake, Side::Server) => Label::ServerHandshake,
            (Level::Traffic, Side::Client) => Label::ClientTraffic,
            (Level::Traffic, Side::Server) => Label::ServerTraffic,
        };
        let random = self.client_random.as_ref();
        let Some(secret) = random.and_then(|random| log.secret(random, label)) else {
            return Vec::new();
        };
        let suites = match level {
            Level::Early => &self.early_suites[..],
            _ => self.suite.as_slice(),
        };
        let keys = suites
            .iter()
            .map(|suite| PacketKeys::new(*suite, version, secret.to_vec()));
        keys.flatten().collect()
    }
}

/// A packet that was decrypted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenedPacket {
    /// Its number.
    pub number: u64,
    /// Where its frames are in the plaintext.
    pub frames: Range<usize>,
}

/// The keys of packets of one side at one level.
pub struct PacketKeys {
    suite: Suite,
    labels: &'static Labels,
    header: HeaderProtectionKey,
    /// Of which the next keys are made.
    secret: Vec<u8>,
    current: PacketKey,
    /// Of most connections there are neither.
    previous: Option<Box<PacketKey>>,
    next: Option<Box<(Vec<u8>, PacketKey)>>,
    phase: bool,
}

impl fmt::Debug for PacketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketKeys").finish_non_exhaustive()
    }
}

/// What a version has of its own (RFC 9001 §5.1, §5.2, §6.1; RFC 9369 §3.3).
struct Labels {
    salt: [u8; 20],
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
    update: &'static [u8],
    /// Of the tags of Retry packets (RFC 9001 §5.8, RFC 9369 §3.3.3).
    retry: ([u8; 16], [u8; NONCE_LEN]),
}

const LABELS_1: Labels = Labels {
    salt: [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
        0xad, 0xcc, 0xbb, 0x7f, 0x0a,
    ],
    key: b"quic key",
    iv: b"quic iv",
    header: b"quic hp",
    update: b"quic ku",
    retry: (
        0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes(),
        *b"\x46\x15\x99\xd3\x5d\x63\x2b\xf2\x23\x98\x25\xbb",
    ),
};
const LABELS_2: Labels = Labels {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d,
        0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
    ],
    key: b"quicv2 key",
    iv: b"quicv2 iv",
    header: b"quicv2 hp",
    update: b"quicv2 ku",
    retry: (
        0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes(),
        *b"\xd8\x69\x69\xbc\x2d\x7c\x6d\x99\x90\xef\xb0\x4a",
    ),
};

impl Labels {
    fn of(version: u32) -> &'static Labels {
        match version {
            VERSION_2 => &LABELS_2,
            _ => &LABELS_1,
        }
    }
}

impl PacketKeys {
    /// Of Initial packets that `side` sends, by the identifier to which the client has sent its first one, or the one behind a Retry
    /// (RFC 9001 §5.2).
    pub fn initial(version: u32, id: &[u8], side: Side) -> Option<PacketKeys> {
        let labels = Labels::of(version);
        let initial = hkdf::Salt::new(hkdf::HKDF_SHA256, &labels.salt).extract(id);
        let suite = Suite::INITIAL;
        let label: &[u8] = match side {
            Side::Client => b"client in",
            Side::Server => b"server in",
        };
        let secret = Suite::expand_key(&initial, label, suite.hash_len()).ok()?;
        Self::new(suite, version, secret)
    }

    fn new(suite: Suite, version: u32, secret: Vec<u8>) -> Option<PacketKeys> {
        // Of a suite with the other hash.
        if secret.len() != suite.hash_len() {
            return None;
        }
        let labels = Labels::of(version);
        let algorithm = match suite.aead() {
            aead if aead == &AES_128_GCM => &header::AES_128,
            aead if aead == &AES_256_GCM => &header::AES_256,
            _ => &header::CHACHA20,
        };
        let protection = suite.expand(&secret, labels.header, algorithm.key_len());
        Some(PacketKeys {
            suite,
            labels,
            header: HeaderProtectionKey::new(algorithm, &protection.ok()?).ok()?,
            current: PacketKey::new(suite, labels, &secret).ok()?,
            secret,
            previous: None,
            next: None,
            phase: false,
        })
    }

    /// Bytes that they take.
    pub fn held(&self) -> usize {
        let more = usize::from(self.previous.is_some()) + usize::from(self.next.is_some());
        // A secret, and what an allocator takes of each.
        size_of::<Self>() + more * (size_of::<PacketKey>() + 96) + 96
    }

    /// Decrypts a packet whose number begins at `number_at`, and appends its frames to `plain`. `largest` is the largest number that has
    /// come of this side in its space.
    pub fn open(
        &mut self,
        packet: &[u8],
        number_at: usize,
        largest: Option<u64>,
        plain: &mut Vec<u8>,
    ) -> Option<OpenedPacket> {
        let sample = packet.get(number_at + SAMPLE_AFTER..)?.get(..SAMPLE_LEN)?;
        let mask = self.header.new_mask(sample).ok()?;
        let mut head = packet[..number_at + SAMPLE_AFTER].to_vec();
        let first = head.first_mut()?;
        let is_long = *first & LONG != 0;
        *first ^= mask[0] & if is_long { 0x0f } else { 0x1f };
        let first = *first;
        let len = usize::from(first & 3) + 1;
        head.truncate(number_at + len);
        let mut truncated = 0;
        for (byte, mask) in head[number_at..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            truncated = truncated << 8 | u64::from(*byte);
        }
        let number = whole_number(largest, truncated, len)?;
        let sealed = &packet[number_at + len..];
        let frames = match !is_long && (first & KEY_PHASE != 0) != self.phase {
            false => self.current.open(number, &head, sealed, plain)?,
            true => self.open_other_phase(number, &head, sealed, plain)?,
        };
        Some(OpenedPacket { number, frames })
    }

    /// By the next key, to which its sender has changed (RFC 9001 §6), or by the one of before.
    fn open_other_phase(
        &mut self,
        number: u64,
        head: &[u8],
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        if self.next.is_none() {
            let (suite, labels) = (self.suite, self.labels);
            let secret = suite.expand(&self.secret, labels.update, self.secret.len());
            let secret = secret.ok()?;
            let key = PacketKey::new(suite, labels, &secret).ok()?;
            self.next = Some(Box::new((secret, key)));
        }
        let (_, next) = self.next.as_deref()?;
        if let Some(frames) = next.open(number, head, sealed, plain) {
            let (secret, key) = *self.next.take()?;
            self.secret = secret;
            self.previous = Some(Box::new(std::mem::replace(&mut self.current, key)));
            self.phase = !self.phase;
            return Some(frames);
        }
        self.previous.as_ref()?.open(number, head, sealed, plain)
    }
}

/// Whether this is a Retry packet by which a server answers a client whose first packet went to `first_id` (RFC 9001 §5.8).
pub fn is_retry(version: u32, first_id: &[u8], packet: &[u8]) -> bool {
    let Some((head, tag)) = packet.split_last_chunk::<TAG_LEN>() else {
        return false;
    };
    let (key, nonce) = &Labels::of(version).retry;
    let Ok(key) = UnboundKey::new(&AES_128_GCM, key) else {
        return false;
    };
    let head = [&[first_id.len() as u8], first_id, head].concat();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let mut tag = *tag;
    let key = LessSafeKey::new(key);
    key.open_in_place(nonce, Aad::from(head), &mut tag).is_ok()
}

/// The number of which the lower `len` bytes are these: the one nearest to what comes next (RFC 9000 §A.3).
fn whole_number(largest: Option<u64>, truncated: u64, len: usize) -> Option<u64> {
    let expected = largest.map_or(0, |largest| largest + 1);
    let window = 1u64 << (8 * len);
    let candidate = expected & !(window - 1) | truncated;
    let number = if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    };
    (number < 1 << 62).then_some(number)
}

/// A key of packets, and what makes a nonce of their numbers.
struct PacketKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl PacketKey {
    fn new(suite: Suite, labels: &Labels, secret: &[u8]) -> Result<PacketKey, TlsError> {
        let key = suite.expand(secret, labels.key, suite.aead().key_len())?;
        let iv = suite.expand(secret, labels.iv, NONCE_LEN)?;
        let key = UnboundKey::new(suite.aead(), &key).map_err(|_| TlsError::Unexpected)?;
        Ok(PacketKey {
            key: LessSafeKey::new(key),
            iv: iv.try_into().map_err(|_| TlsError::Unexpected)?,
        })
    }

    /// Appends the plaintext; nothing where it is not of this key.
    fn open(
        &self,
        number: u64,
        head: &[u8],
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<Range<usize>> {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= of_number;
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let from = plain.len();
        plain.extend_from_slice(sealed);
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(head), &mut plain[from..]);
        let len = opened.map_or(0, |opened| opened.len());
        plain.truncate(from + len);
        // A packet has a frame at least (RFC 9000 §12.4).
        (len > 0).then_some(from..from + len)
    }
}
