//! The TLS of others: both directions of a connection as they were captured, decrypted by secrets from a [`KeyLog`].
//!
//! [`Observer::observe`] is given what one side has sent, in order and from its first byte on. It takes whole records of it, and says
//! what was in them. What it does not take is given again with what comes behind it. It takes nothing while the secret for the next
//! record is not known, nor a client's encrypted record while the server's hello has not come. After an error it is over.
//!
//! Understood are TLS 1.3 and 1.2 with AES-GCM and ChaCha20-Poly1305: resumed sessions, early data and changes of keys too, not
//! renegotiation.
//!
//! | file | what is in it |
//! |---|---|
//! | `keys` | from a secret to a key |
//! | `messages` | handshake messages, put together |
//! | `seen` | what is said of a connection |
//! | `direction` | one side: which key its next record has |
//! | `quic` | the TLS in QUIC, and keys of its packets |

mod direction;
mod keys;
mod messages;
mod quic;
mod seen;

use std::fmt;
use std::ops::Range;

use exos_wire::tls::extensions::Extensions;
use exos_wire::tls::{HelloKind, HelloView, VERSION_1_2, VERSION_1_3};

use crate::keylog::{KeyLog, Label, RANDOM_LEN};
use crate::limits::{EXPANSION_12_MAX, HEADER_LEN, PLAIN_LEN_MAX};
use crate::record::{ContentType, Header, Version};
use direction::{Direction, Phase};
use keys::Suite;

pub use quic::{Level, OpenedPacket, PacketKeys, QuicObserver, is_retry};
pub use rustls::HandshakeType;
pub use seen::{Obstacle, Seen, Side, Taken};

/// Bytes before a handshake message's body.
const MESSAGE_HEADER_LEN: usize = 4;

/// What the hellos have agreed on.
#[derive(Clone, Copy)]
struct Agreed {
    version: Version,
    suite: Suite,
    server_random: [u8; RANDOM_LEN],
}

/// A connection of others.
#[derive(Default)]
pub struct Observer {
    client_random: Option<[u8; RANDOM_LEN]>,
    agreed: Option<Agreed>,
    protocol: Option<Box<[u8]>>,
    /// Suites that a client with early data has offered: it has not said which one that data has.
    early_suites: Vec<Suite>,
    client: Direction,
    server: Direction,
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// Why a record is not taken.
enum Stop {
    /// The server's hello has to come before.
    Later,
    /// Its secret has.
    WantsKey,
    Over(Obstacle),
}

impl From<Obstacle> for Stop {
    fn from(obstacle: Obstacle) -> Stop {
        Stop::Over(obstacle)
    }
}

/// Where what was decrypted goes.
struct Out<'a> {
    plain: &'a mut Vec<u8>,
    seen: &'a mut Vec<Seen>,
}

impl Observer {
    /// The protocol above that was agreed on (ALPN), as soon as the server has said so.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.protocol.as_deref()
    }

    /// The hellos have come, and something of either side may be decrypted.
    pub fn is_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Bytes that it keeps.
    pub fn held(&self) -> usize {
        self.client.messages.held() + self.server.messages.held()
    }

    /// Takes records that `side` has sent. What was encrypted is appended: plaintext to `plain`, what it is to `seen`.
    ///
    /// # Errors
    ///
    /// Nothing more can be decrypted, and why.
    pub fn observe(
        &mut self,
        side: Side,
        bytes: &[u8],
        log: &KeyLog,
        plain: &mut Vec<u8>,
        seen: &mut Vec<Seen>,
    ) -> Result<Taken, Obstacle> {
        let mut out = Out { plain, seen };
        let mut taken = Taken {
            bytes: 0,
            wants_key: false,
        };
        while let Some((header, payload)) = record(&bytes[taken.bytes..])? {
            match self.record(side, header, payload, log, &mut out) {
                Ok(()) => taken.bytes += HEADER_LEN + payload.len(),
                Err(Stop::Later) => break,
                Err(Stop::WantsKey) => {
                    taken.wants_key = true;
                    break;
                }
                Err(Stop::Over(obstacle)) => return Err(obstacle),
            }
        }
        Ok(taken)
    }

    fn record(
        &mut self,
        side: Side,
        header: Header,
        payload: &[u8],
        log: &KeyLog,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        let Some(random) = self.client_random else {
            return self.first_record(side, header, payload);
        };
        let phase = self.direction(side).phase;
        match (self.agreed, header.content_type) {
            (Some(agreed), _) if agreed.version == Version::V12 && phase != Phase::Clear => {
                self.record_12(side, header, payload, (agreed, random), log, out)
            }
            (Some(agreed), ContentType::Data) if agreed.version == Version::V13 => {
                self.record_13(side, header, payload, (agreed, random), log, out)
            }
            (None, ContentType::Data) if side == Side::Client => {
                self.early_record(header, payload, &random, log, out)
            }
            (_, ContentType::Data) => Err(Obstacle::Unexpected.into()),
            (_, ContentType::Alert) => Ok(()), // In clear.
            (Some(agreed), ContentType::ChangeCipherSpec) if agreed.version == Version::V12 => {
                self.direction(side).enter(Phase::Traffic);
                Ok(())
            }
            (Some(_), ContentType::ChangeCipherSpec) => Ok(()), // For middleboxes (RFC 8446 §D.4).
            (None, ContentType::ChangeCipherSpec) if side == Side::Client => {
                match self.early_suites.is_empty() {
                    true => Err(Stop::Later), // What it means, the server's hello says.
                    false => Ok(()),
                }
            }
            (None, ContentType::ChangeCipherSpec) => Ok(()), // Behind a request for another hello.
            (_, ContentType::Handshake) => self.clear_messages(side, payload),
        }
    }

    /// A client begins with its hello.
    fn first_record(&mut self, side: Side, header: Header, payload: &[u8]) -> Result<(), Stop> {
        match (side, header.content_type) {
            (Side::Server, ContentType::Handshake) => Err(Stop::Later),
            (Side::Client, ContentType::Handshake) => self.clear_messages(side, payload),
            _ => Err(Obstacle::NotTls.into()),
        }
    }

    fn clear_messages(&mut self, side: Side, payload: &[u8]) -> Result<(), Stop> {
        let messages = &mut self.direction(side).messages;
        messages.push(payload).map_err(|_| Obstacle::NotTls)?;
        while let Some(message) = self.direction(side).messages.next() {
            if let Ok(hello) = HelloView::parse(&message) {
                self.hello(side, &hello)?;
            } else if self.client_random.is_none() {
                return Err(Obstacle::NotTls.into());
            }
        }
        Ok(())
    }

    fn hello(&mut self, side: Side, hello: &HelloView<'_>) -> Result<(), Stop> {
        let extensions = hello.extensions();
        match (side, hello.kind()) {
            (Side::Client, HelloKind::Client) => {
                self.client_random = Some(*hello.random());
                self.early_suites.clear();
                self.client.enter(Phase::Clear);
                if extensions.has_early_data() {
                    self.client.enter(Phase::Early);
                    // Each once, however often it is offered.
                    let offered = |number: &u16| hello.cipher_suites().any(|it| it == *number);
                    let known = Suite::ALL_13.into_iter().filter(offered);
                    self.early_suites = known.filter_map(Suite::of).collect();
                }
                Ok(())
            }
            (Side::Server, HelloKind::Retry) => Ok(()),
            (Side::Server, HelloKind::Server) => {
                let version = match hello.version() {
                    VERSION_1_3 => Version::V13,
                    VERSION_1_2 => Version::V12,
                    other => return Err(Obstacle::Version(other).into()),
                };
                let number = hello.cipher_suites().next().unwrap_or(0);
                let suite = Suite::of(number).ok_or(Obstacle::Suite(number))?;
                self.protocol = extensions.protocols().next().map(Box::from);
                self.agreed = Some(Agreed {
                    version,
                    suite,
                    server_random: *hello.random(),
                });
                Ok(())
            }
            _ => Err(Obstacle::Unexpected.into()),
        }
    }

    fn record_12(
        &mut self,
        side: Side,
        header: Header,
        payload: &[u8],
        (agreed, random): (Agreed, [u8; RANDOM_LEN]),
        log: &KeyLog,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        let make = || {
            let master = log.secret(&random, Label::Master)?;
            let ciphers = agreed
                .suite
                .ciphers_12(master, &agreed.server_random, &random);
            let [client, server] = ciphers.ok()?;
            Some(match side {
                Side::Client => client,
                Side::Server => server,
            })
        };
        let direction = self.direction(side);
        if !direction.set_key_12(make) {
            return Err(Stop::WantsKey);
        }
        let opened = direction.open(header, payload, out.plain);
        let (content_type, range) = opened.ok_or(Obstacle::WrongKey)?;
        self.opened(side, agreed, content_type, range, out)
    }

    fn record_13(
        &mut self,
        side: Side,
        header: Header,
        payload: &[u8],
        (agreed, random): (Agreed, [u8; RANDOM_LEN]),
        log: &KeyLog,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        if self.direction(side).phase == Phase::Early {
            match self.early_record(header, payload, &random, log, out) {
                // A server that takes no early data does not say so where it can be seen: the first record with other keys does.
                Err(Stop::Over(Obstacle::WrongKey) | Stop::WantsKey) => {
                    self.client.enter(Phase::Handshake);
                }
                done => return done,
            }
        }
        // A client's data follows what the server has sent before, the protocol that is spoken among it.
        if (side, self.client.phase) == (Side::Client, Phase::Traffic)
            && self.server.phase != Phase::Traffic
        {
            return Err(Stop::Later);
        }
        let direction = self.direction(side);
        if direction.phase == Phase::Clear {
            direction.enter(Phase::Handshake);
        }
        if !direction.finds_key_13(side, agreed.suite, log, &random)? {
            return Err(Stop::WantsKey);
        }
        let opened = direction.open(header, payload, out.plain);
        let (content_type, range) = opened.ok_or(Obstacle::WrongKey)?;
        self.opened(side, agreed, content_type, range, out)
    }

    /// A client's early data: of the suites that it has offered one fits.
    fn early_record(
        &mut self,
        header: Header,
        payload: &[u8],
        random: &[u8; RANDOM_LEN],
        log: &KeyLog,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        if self.early_suites.is_empty() {
            return Err(Stop::Later);
        }
        for suite in self.early_suites.clone() {
            let client = &mut self.client;
            if !client.finds_key_13(Side::Client, suite, log, random)? {
                return Err(Stop::WantsKey);
            }
            if let Some((content_type, range)) = client.open(header, payload, out.plain) {
                self.early_suites = vec![suite];
                let agreed = Agreed {
                    version: Version::V13,
                    suite,
                    server_random: [0; RANDOM_LEN],
                };
                return self.opened(Side::Client, agreed, content_type, range, out);
            }
            client.enter(Phase::Early); // With the key of another suite.
        }
        Err(Obstacle::WrongKey.into())
    }

    /// What a decrypted record holds.
    fn opened(
        &mut self,
        side: Side,
        agreed: Agreed,
        content_type: ContentType,
        range: Range<usize>,
        out: &mut Out<'_>,
    ) -> Result<(), Stop> {
        match content_type {
            ContentType::Data => out.seen.push(Seen::Data(range)),
            ContentType::Alert => {
                if let &[level, description] = &out.plain[range] {
                    out.seen.push(Seen::Alert(level, description));
                }
            }
            ContentType::ChangeCipherSpec => return Err(Obstacle::Unexpected.into()),
            ContentType::Handshake => {
                let pushed = self.direction(side).messages.push(&out.plain[range]);
                pushed.map_err(|_| Obstacle::Unexpected)?;
                while let Some(message) = self.direction(side).messages.next() {
                    let kind = HandshakeType::from(message[0]);
                    self.message(side, agreed, kind, &message[MESSAGE_HEADER_LEN..])?;
                    out.seen.push(Seen::Message(kind));
                }
            }
        }
        Ok(())
    }

    /// What an encrypted message changes.
    fn message(
        &mut self,
        side: Side,
        agreed: Agreed,
        kind: HandshakeType,
        body: &[u8],
    ) -> Result<(), Stop> {
        if agreed.version == Version::V12 {
            return match kind {
                HandshakeType::ClientHello => Err(Obstacle::Unexpected.into()), // Renegotiation.
                _ => Ok(()),
            };
        }
        let direction = self.direction(side);
        match (direction.phase, kind) {
            (Phase::Early, HandshakeType::EndOfEarlyData) => direction.enter(Phase::Handshake),
            (Phase::Handshake, HandshakeType::Finished) => direction.enter(Phase::Traffic),
            (Phase::Traffic, HandshakeType::KeyUpdate) => direction.update(agreed.suite)?,
            (Phase::Handshake, HandshakeType::EncryptedExtensions) => {
                let mut protocols = Extensions::encrypted(body).protocols();
                self.protocol = protocols.next().map(Box::from);
            }
            _ => {}
        }
        Ok(())
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// The record that bytes begin with; `None` while it is not whole.
fn record(bytes: &[u8]) -> Result<Option<(Header, &[u8])>, Obstacle> {
    let Some((&[kind, major, _, high, low], rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let content_type = ContentType::parse(kind).map_err(|_| Obstacle::NotTls)?;
    let len = u16::from_be_bytes([high, low]);
    if major != 3 || usize::from(len) > PLAIN_LEN_MAX + EXPANSION_12_MAX {
        return Err(Obstacle::NotTls);
    }
    let header = Header { content_type, len };
    let payload = rest.get(..usize::from(len));
    Ok(payload.map(|payload| (header, payload)))
}
