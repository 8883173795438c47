//! QUIC of captured connections: Initial packets by the keys that everybody can derive, all others by secrets.
//!
//! [`Quic::datagram`] is given each UDP datagram, and says what packets it has, and of those that were decrypted which frames. Connections are
//! found by their identifiers, which both sides tell in their first packets and, encrypted, later.
//!
//! | file | what is in it |
//! |---|---|
//! | `names` | which connection a packet is of |
//! | `connection` | one connection |
//! | `frames` | frames of QUIC |
//! | `http3` | frames of HTTP/3 in its streams |

mod connection;
mod frames;
mod http3;
mod names;

use exos_tls::observer::{HandshakeType, Level, Side};
use exos_wire::quic::{LongHeaderView, PacketType};

use super::Endpoint;
use super::generations::Generations;
use super::http2::Frame;
use super::keys::Keys;
use crate::limits::{QUIC_INITIAL_NAMES_MAX, QUIC_NAMES_MAX, SEGMENTS_MAX, TOLD_BYTES_MAX};
use connection::{Connection, Packet, SAMPLE_END};
use names::{ALONE_LEN, Id, Name, Names};

pub(crate) use frames::Close;

/// The smallest datagram that has a client's Initial packet (RFC 9000 §14.1).
const CLIENT_INITIAL_LEN_MIN: usize = 1200;
/// Bytes at least of the identifier to which that goes (RFC 9000 §7.2).
const FIRST_ID_LEN_MIN: usize = 8;
/// The first bit of a long header (RFC 9000 §17.2).
const LONG: u8 = 0x80;
/// The shortest packet with a short header that can be decrypted: its first byte, and what is a sample behind four bytes of number.
const SHORT_LEN_MIN: usize = 1 + SAMPLE_END;
/// HTTP/3 (RFC 9114 §3.1.2).
const PORT_HTTPS: u16 = 443;

/// A datagram of UDP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) from: Endpoint,
    pub(crate) to: Endpoint,
    pub(crate) bytes: &'a [u8],
    /// Bytes that it had on the wire.
    pub(crate) len: usize,
}

/// What is in clear of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of a long header: what the packet is for, and its version.
    pub(crate) long: Option<(PacketType, u32)>,
    pub(crate) destination: Vec<u8>,
    pub(crate) source: Vec<u8>,
    /// Bytes of its token.
    pub(crate) token_len: usize,
}

impl Header {
    fn level(&self) -> Level {
        match self.long {
            Some((PacketType::ZeroRtt, _)) => Level::Early,
            Some((PacketType::Handshake, _)) => Level::Handshake,
            Some(_) => Level::Initial,
            None => Level::Traffic,
        }
    }
}

/// A part of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamPart<'a> {
    id: u64,
    offset: u64,
    data: &'a [u8],
    is_last: bool,
}

impl StreamPart<'_> {
    /// Where the stream ends, when this is its last part.
    fn end(&self) -> Option<u64> {
        self.is_last.then_some(self.offset + self.data.len() as u64)
    }
}

/// What is to be told of a packet that was decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A frame. What it completes follows.
    Frame(String),
    /// What that frame says which ends the connection.
    Close(Close),
    /// A hello that is whole.
    Hello(Vec<u8>),
    /// Another message of the handshake.
    Message(HandshakeType),
    /// A frame of HTTP/3.
    Http3(Frame),
    /// Why there is nothing.
    Note(String),
}

impl Told {
    fn message(message: Vec<u8>) -> Self {
        match HandshakeType::from(message[0]) {
            HandshakeType::ClientHello | HandshakeType::ServerHello => Self::Hello(message),
            other => Self::Message(other),
        }
    }

    fn len(&self) -> usize {
        let more = match self {
            Self::Frame(line) | Self::Note(line) => line.len(),
            Self::Close(close) => close.reason.len(),
            Self::Hello(message) => message.len(),
            Self::Message(_) => 0,
            Self::Http3(frame) => frame.len(),
        };
        size_of::<Self>() + more
    }
}

/// A packet, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownPacket {
    pub(crate) header: Header,
    /// It came before, from this side, and its key later.
    pub(crate) late_from: Option<Side>,
    /// Its number, when it was decrypted.
    pub(crate) number: Option<u64>,
    pub(crate) told: Vec<Told>,
}

/// What a datagram came to.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) packets: Vec<ShownPacket>,
    keeps_fields: bool,
    told_bytes: usize,
}

impl Shown {
    fn clear(&mut self) {
        self.packets.clear();
        self.told_bytes = 0;
    }

    fn begin(&mut self, header: Header, late_from: Option<Side>) {
        self.packets.push(ShownPacket {
            header,
            late_from,
            number: None,
            told: Vec::new(),
        });
    }

    fn number(&mut self, number: u64) {
        if let Some(packet) = self.packets.last_mut() {
            packet.number = Some(number);
        }
    }

    /// Adds what is told of the last packet, while there is room for more.
    fn tell(&mut self, told: Told) {
        let had_room = self.told_bytes <= TOLD_BYTES_MAX;
        self.told_bytes += told.len();
        let told = match (had_room, self.told_bytes <= TOLD_BYTES_MAX) {
            (_, true) => told,
            (true, false) => Told::Note("more frames".to_owned()),
            (false, false) => return,
        };
        if let Some(packet) = self.packets.last_mut() {
            packet.told.push(told);
        }
    }
}

/// The connections of QUIC that are followed.
#[derive(Debug, Default)]
pub(super) struct Quic {
    connections: Generations<u64, Box<Connection>>,
    names: Names,
    /// How many there have been.
    count: u64,
    shown: Shown,
}

impl Quic {
    /// Keeps all fields of HTTP/3, to be shown.
    pub(super) fn keep_fields(&mut self) {
        self.shown.keeps_fields = true;
    }

    /// What there is to tell of this datagram: no packets where it is not QUIC.
    pub(super) fn datagram(&mut self, datagram: &Datagram<'_>, keys: &mut Keys) -> &Shown {
        self.shown.clear();
        let (mut rest, mut len) = (datagram.bytes, datagram.len);
        while let Some(view) = self.view(datagram, rest, len) {
            self.long(datagram, (&view, rest), keys);
            if view.next().is_empty() {
                return &self.shown;
            }
            len -= rest.len() - view.next().len();
            rest = view.next();
        }
        let is_padding = !self.shown.packets.is_empty() && rest.iter().all(|byte| *byte == 0);
        if rest.len() == len && !is_padding {
            self.short(datagram, rest, keys);
        }
        &self.shown
    }

    /// The long header that these bytes begin with. Of a connection that is known it has any flags, and may be one that negotiates versions,
    /// which else is looked for on HTTP's port alone: other protocols may begin with such bytes.
    fn view<'a>(
        &self,
        datagram: &Datagram<'_>,
        bytes: &'a [u8],
        len: usize,
    ) -> Option<LongHeaderView<'a>> {
        let is_https = datagram.from.1 == PORT_HTTPS || datagram.to.1 == PORT_HTTPS;
        if let Ok(view) = LongHeaderView::parse(bytes, len)
            && (is_https || view.packet_type() != PacketType::VersionNegotiation)
        {
            return Some(view);
        }
        let view = LongHeaderView::parse_greased(bytes, len).ok()?;
        let id = Id::new(view.destination_id())?;
        let name = Name::new(id, (datagram.from, datagram.to));
        self.names.get(&name).map(|_| view)
    }

    fn long(
        &mut self,
        datagram: &Datagram<'_>,
        (view, bytes): (&LongHeaderView<'_>, &[u8]),
        keys: &mut Keys,
    ) {
        let header = Header {
            long: Some((view.packet_type(), view.version())),
            destination: view.destination_id().to_vec(),
            source: view.source_id().to_vec(),
            token_len: view.token().len(),
        };
        let ids = (Id::new(view.destination_id()), Id::new(view.source_id()));
        let (Some(destination), Some(source)) = ids else {
            return self.shown.begin(header, None);
        };
        let path = (datagram.from, datagram.to);
        // A client's packet names a connection that nobody knows. The first of a datagram: what is behind it goes to the same (§12.2).
        let begins = view.packet_type() == PacketType::Initial
            && self.shown.packets.is_empty()
            && datagram.len >= CLIENT_INITIAL_LEN_MIN
            && view.destination_id().len() >= FIRST_ID_LEN_MIN;
        let reached = self.names.get(&Name::new(destination, path));
        let known = reached.filter(|(number, _)| {
            let known = self.connections.get(number);
            let client = (datagram.from, source);
            known.is_some_and(|known| !begins || !known.is_other(destination, client))
        });
        let (number, to, mut connection) = match known {
            Some((number, to)) => match self.connections.take(&number) {
                Some(connection) => (number, to, connection),
                None => return self.shown.begin(header, None),
            },
            None if begins => {
                let new = Connection::new((destination, source), path, view.version());
                self.count += 1;
                (self.count, Side::Server, Box::new(new))
            }
            None => return self.shown.begin(header, None),
        };
        let Some(protected) = view.protected() else {
            let version = view.version();
            match (view.packet_type(), to) {
                (PacketType::Retry, Side::Client) => connection.retry(source, version, bytes),
                (PacketType::VersionNegotiation, Side::Client) => {
                    let before = 7 + view.destination_id().len() + view.source_id().len();
                    connection.negotiate(bytes.get(before..).unwrap_or_default());
                }
                _ => {}
            }
            self.shown.begin(header, None);
            return self.keep(number, connection, path, to);
        };
        let is_initial = view.packet_type() == PacketType::Initial;
        let packet = Packet {
            side: other(to),
            header,
            bytes: protected.packet,
            number_at: protected.number_at,
        };
        let is_opened = connection.packet(&packet, keys, &mut self.shown);
        if is_opened {
            // What a client begins with is its own choice; where its own identifier is, anybody may say in a packet that everybody can write.
            // A client that begins again, from the same host to the same server, goes on with its own.
            let is_sure = !is_initial;
            let ids = [
                (destination, to, is_sure || known.is_none()),
                (
                    source,
                    packet.side,
                    is_sure || known.is_none() && self.is_of_client(source, path),
                ),
            ];
            connection.told_ids.extend(ids);
        }
        if is_opened || known.is_some() {
            self.keep(number, connection, path, to);
        }
    }

    /// This identifier is that of the client of a connection of this host with this server.
    fn is_of_client(&self, id: Id, (from, at): (Endpoint, Endpoint)) -> bool {
        let reached = self.names.get(&Name::new(id, (at, from)));
        let owner = reached.filter(|(_, side)| *side == Side::Client);
        let owner = owner.and_then(|(number, _)| self.connections.get(&number));
        owner.is_some_and(|owner| (owner.path.0.0, owner.path.1) == (from.0, at))
    }

    /// What has a short header, or is none of QUIC's.
    fn short(&mut self, datagram: &Datagram<'_>, bytes: &[u8], keys: &mut Keys) {
        let path = (datagram.from, datagram.to);
        let named = bytes
            .split_first()
            .filter(|(first, _)| **first & LONG == 0)
            .and_then(|(_, behind)| self.names.of_short(behind, path));
        let Some(((number, to), id_len)) = named else {
            return;
        };
        let Some(mut connection) = self.connections.take(&number) else {
            return;
        };
        let id = &bytes[1..=id_len];
        let before = datagram.bytes.len() - bytes.len();
        let mut is_opened = false;
        for packet in segments(before, bytes, id) {
            let header = Header {
                long: None,
                destination: id.to_vec(),
                source: Vec::new(),
                token_len: 0,
            };
            let packet = Packet {
                side: other(to),
                header,
                bytes: packet,
                number_at: 1 + id_len,
            };
            is_opened |= connection.packet(&packet, keys, &mut self.shown);
        }
        if is_opened && to == Side::Server && connection.path != path {
            // The client has moved: its short identifiers are good between other addresses now.
            connection.path = path;
            let names = &self.names;
            let is_client = |name: &&Name| names.get(name) == Some((number, Side::Client));
            let ids = connection.all_names().filter(is_client);
            let ids = ids.filter_map(|name| Some((name.short()?, Side::Client, true)));
            let ids: Vec<_> = ids.collect();
            connection.told_ids.extend(ids);
        }
        self.keep(number, connection, path, to);
    }

    /// Keeps a connection, and the names that it has got by a datagram that went to this side.
    fn keep(
        &mut self,
        number: u64,
        mut connection: Box<Connection>,
        (from, at): (Endpoint, Endpoint),
        to: Side,
    ) {
        for (id, side, is_sure) in std::mem::take(&mut connection.told_ids) {
            let path = match side == to {
                true => (from, at),
                false => (at, from),
            };
            let name = Name::new(id, path);
            match self.names.get(&name) {
                Some(reached) if reached == (number, side) => continue,
                // Another's, wherever that is.
                Some((owner, _)) if owner != number && !is_sure && name.short().is_none() => {
                    continue;
                }
                _ => {}
            }
            // The first one of Initial packets is the client's, and stays.
            let (names, first, max) = match is_sure {
                true => (&mut connection.names, 0, QUIC_NAMES_MAX),
                false => (&mut connection.initial_names, 1, QUIC_INITIAL_NAMES_MAX),
            };
            if names.len() >= max {
                let oldest = names.remove(first);
                self.names.remove(&oldest, number);
            }
            names.push(name);
            self.names.insert(name, (number, side));
        }
        for (number, connection) in self.connections.keep(number, connection) {
            for name in connection.all_names() {
                self.names.remove(name, number);
            }
        }
    }
}

/// The packets with short headers that these bytes are, behind `before` others of their datagram. A kernel or a device may be about to cut it
/// into several (segmentation offload): then the same identifier comes again, at the same distance.
fn segments<'a>(before: usize, bytes: &'a [u8], id: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let behind = bytes.get(SHORT_LEN_MIN..).unwrap_or_default();
    let again = match id.len() >= ALONE_LEN {
        true => behind.windows(id.len()).position(|part| part == id),
        false => None,
    };
    // A first byte stands before it.
    let len = again.map_or(bytes.len(), |at| SHORT_LEN_MIN + at - 1);
    let (first, rest) = bytes.split_at(len);
    let of_id = |packet: &&[u8]| packet.get(1..).is_some_and(|it| it.starts_with(id));
    let rest = rest.chunks((before + len).max(1)).take_while(of_id);
    std::iter::once(first).chain(rest).take(SEGMENTS_MAX)
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
