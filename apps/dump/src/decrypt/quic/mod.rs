//! QUIC of captured connections: Initial packets by the keys that everybody can derive, all others by secrets.
//!
//! [`Quic::datagram`] is given each UDP datagram, and says what packets it has, and of those that were decrypted which frames. Connections are
//! found by their identifiers, which both sides tell in their first packets and, encrypted, later.
//!
//! | file | what is in it |
//! |---|---|
//! | `shown` | what is told of a datagram |
//! | `names` | which connection a packet is of |
//! | `paths` | what has passed between two ends |
//! | `unknown` | packets of connections that are not known |
//! | `early` | 0-RTT packets that come before their connection begins |
//! | `connection` | one connection |
//! | `half` | what one side of it sends |
//! | `cuts` | where packets end of which no length is said |
//! | `frames` | frames of QUIC |
//! | `http3` | frames of HTTP/3 in its streams |
//! | `fields` | their field sections |
//! | `ended` | which streams have ended |

mod connection;
mod cuts;
mod early;
mod ended;
mod fields;
mod frames;
mod half;
mod http3;
mod names;
mod paths;
mod shown;
mod unknown;

use exos_tls::observer::{Level, PacketKeys, Side};
use exos_wire::quic::{LongHeaderView, PacketType};

use super::generations::Generations;
use super::keys::Keys;
use super::{Endpoint, Ends};
use crate::limits::{QUIC_INITIAL_NAMES_MAX, QUIC_NAMES_MAX, QUIC_PACKETS_MAX};
use connection::{Connection, SAMPLE_END};
use early::EarlyPackets;
use half::Packet;
use names::{Id, Names, Reached};
use paths::Paths;

pub(crate) use frames::Close;
pub(crate) use shown::{Certainty, Header, Shown, ShownPacket, Told};

/// The smallest datagram that has a client's Initial packet (RFC 9000 §14.1).
const CLIENT_INITIAL_LEN_MIN: usize = 1200;
/// Bytes at least of the identifier to which that goes (RFC 9000 §7.2).
const FIRST_ID_LEN_MIN: usize = 8;
/// The first bit of a long header (RFC 9000 §17.2), and the bit that is set in all but those whose ends have agreed otherwise.
const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
/// Zeros between packets, from how many on these are no packet's: the first bytes of one have an identifier, or are encrypted.
const PADDING_LEN_MIN: usize = 4;
/// The shortest packet with a short header that can be decrypted: its first byte, and what is a sample behind four bytes of number.
const SHORT_LEN_MIN: usize = 1 + SAMPLE_END;
/// Why packets are not decrypted of which the capture has a part.
const CUT: &str = "not decrypted: the capture has cut packets";
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

/// The connections of QUIC that are followed.
#[derive(Debug, Default)]
pub(super) struct Quic {
    connections: Generations<u64, Connection>,
    names: Names,
    /// How many there have been.
    count: u64,
    paths: Paths,
    early: EarlyPackets,
    shown: Shown,
}

impl Quic {
    /// What there is to tell of this datagram: no packets where it is not QUIC. A kernel or a device may be yet to cut it into several.
    pub(super) fn datagram(&mut self, datagram: &Datagram<'_>, keys: &mut Keys) -> &Shown {
        self.shown.clear();
        let (mut rest, mut len) = (datagram.bytes, datagram.len);
        // Bytes since the last packet that went on to its datagram's end.
        let mut before = 0;
        for _ in 0..QUIC_PACKETS_MAX {
            let taken = if let Some(view) = self.view(datagram, rest, len) {
                self.long(datagram, (&view, rest), keys);
                let taken = rest.len() - view.next().len();
                before += taken;
                taken
            } else if let Some(taken) = padding(rest)
                && !self.shown.packets.is_empty()
            {
                before += taken;
                taken
            } else if rest.len() == len {
                let taken = self.short(datagram, (rest, before), keys);
                before = 0;
                taken
            } else {
                self.cut_short(datagram, rest, keys);
                break;
            };
            (rest, len) = (&rest[taken..], len - taken);
            if taken == 0 || rest.is_empty() {
                break;
            }
        }
        &self.shown
    }

    /// The long header that these bytes begin with. Other protocols may begin with such bytes, too: one that negotiates versions is looked for
    /// on HTTP's port, or of a connection that is known. Where the bit is cleared that is set in others, ends must have agreed so
    /// (RFC 9287 §3.1): of a connection that is known, between ends that have sent others, or by a client that has a ticket, which begins with
    /// a packet that its keys open, or with early data.
    fn view<'a>(
        &mut self,
        datagram: &Datagram<'_>,
        bytes: &'a [u8],
        len: usize,
    ) -> Option<LongHeaderView<'a>> {
        let path = (datagram.from, datagram.to);
        if let Ok(view) = LongHeaderView::parse(bytes, len)
            && (is_https(path) || view.packet_type() != PacketType::VersionNegotiation)
        {
            return Some(view);
        }
        let view = LongHeaderView::parse_greased(bytes, len).ok()?;
        let id = Id::new(view.destination_id())?;
        let is_known = self.names.get(self.names.name(id, path)).is_some();
        let may_be = match view.packet_type() {
            _ if is_known => true,
            PacketType::VersionNegotiation => false,
            _ if self.paths.has_long(path) => true,
            PacketType::Initial => may_begin(datagram, &view) && is_opened_by_its_keys(&view),
            PacketType::ZeroRtt => true,
            PacketType::Handshake | PacketType::Retry => false,
        };
        may_be.then_some(view)
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
        if view.version() != 0 && bytes[0] & FIXED != 0 {
            self.paths.between(path).has_long = true;
        }
        // A client's packet names a connection that nobody knows. All others of its datagram go to the same identifier (§12.2): what is
        // behind it begins no other, and early data may stand before it.
        let mut before = self.shown.packets.iter();
        let begins =
            may_begin(datagram, view) && before.all(|it| it.header.level() == Level::Early);
        let reached = self.names.get(self.names.name(destination, path));
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
            None => return self.unknown_long(header, view, path, keys),
        };
        let Some(protected) = view.protected() else {
            let version = view.version();
            match (view.packet_type(), to) {
                (PacketType::Retry, Side::Client) => connection.retry(source, version, bytes),
                (PacketType::VersionNegotiation, Side::Client) => {
                    let before = 7 + view.destination_id().len() + view.source_id().len();
                    connection.negotiate(bytes.get(before..).unwrap_or_default());
                }
                (PacketType::Retry | PacketType::VersionNegotiation, _) => {}
                _ => {
                    connection.cut(header, keys, &mut self.shown);
                    return self.keep(number, connection, path, to);
                }
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
            before: 0,
        };
        let (is_opened, _) = connection.packet(&packet, keys, &mut self.shown);
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
            self.paths.between(path).has_long = true;
            if known.is_none() {
                self.paths.between(path).has_first = true;
                let early = self.early.take((datagram.from, destination));
                connection.early_packets(&early, keys, &mut self.shown);
            }
        }
        if is_opened || known.is_some() {
            self.keep(number, connection, path, to);
        }
    }

    /// This identifier is that of the client of a connection of this host with this server.
    fn is_of_client(&self, id: Id, (from, at): Ends) -> bool {
        let reached = self.names.get(self.names.name(id, (at, from)));
        let owner = reached.filter(|(_, side)| *side == Side::Client);
        let owner = owner.and_then(|(number, _)| self.connections.get(&number));
        owner.is_some_and(|owner| (owner.path.0.0, owner.path.1) == (from.0, at))
    }

    /// Takes a packet with a short header, behind `before` bytes of others in its datagram, and says how many bytes it has: none where it is
    /// not QUIC's, as far as is known.
    fn short(
        &mut self,
        datagram: &Datagram<'_>,
        (bytes, before): (&[u8], usize),
        keys: &mut Keys,
    ) -> usize {
        let path = (datagram.from, datagram.to);
        let Some(((number, to), id_len, mut connection)) = self.take_short(bytes, path) else {
            self.unknown_short(datagram, false, keys);
            return 0;
        };
        let packet = Packet {
            side: other(to),
            header: Header::short(&bytes[1..=id_len]),
            bytes,
            number_at: 1 + id_len,
            before,
        };
        let (is_opened, len) = connection.packet(&packet, keys, &mut self.shown);
        if is_opened && to == Side::Server && connection.path != path {
            // The client has moved: its short identifiers are good between other addresses now.
            let (client, server) = std::mem::replace(&mut connection.path, path);
            let names = &self.names;
            let is_own = |id: &Id| {
                let name = names.name(*id, (server, client));
                names.get(name) == Some((number, Side::Client))
            };
            let ids = connection.short_ids.iter().copied().filter(is_own);
            let ids = ids.map(|id| (id, Side::Client, true));
            connection.told_ids.extend(ids);
        }
        self.keep(number, connection, path, to);
        len
    }

    /// Takes the connection of a packet with a short header out, with the side that is reached and the length of its identifier.
    fn take_short(
        &mut self,
        bytes: &[u8],
        path: Ends,
    ) -> Option<(Reached, usize, Box<Connection>)> {
        let (first, behind) = bytes.split_first()?;
        if first & LONG != 0 {
            return None;
        }
        let (reached, id_len) = self.names.of_short(behind, path)?;
        let connection = self.connections.take(&reached.0)?;
        Some((reached, id_len, connection))
    }

    /// Shows a packet with a short header that is not all there, where it is QUIC's as far as is known.
    fn cut_short(&mut self, datagram: &Datagram<'_>, bytes: &[u8], keys: &Keys) {
        let path = (datagram.from, datagram.to);
        match self.take_short(bytes, path) {
            Some(((number, to), id_len, mut connection)) => {
                let header = Header::short(&bytes[1..=id_len]);
                connection.cut(header, keys, &mut self.shown);
                self.keep(number, connection, path, to);
            }
            None => self.unknown_short(datagram, true, keys),
        }
    }

    /// All fields of heads are told, or none.
    pub(super) fn tell_fields(&mut self, has_fields: bool) {
        self.shown.has_fields = has_fields;
    }

    /// Connections that were forgotten before their ends, for want of memory.
    pub(super) fn forgotten(&self) -> u64 {
        self.connections.forgotten()
    }

    /// Keeps a connection, and the names that it has got by a datagram that went to this side.
    fn keep(&mut self, number: u64, mut connection: Box<Connection>, (from, at): Ends, to: Side) {
        for (id, side, is_sure) in std::mem::take(&mut connection.told_ids) {
            let path = match side == to {
                true => (from, at),
                false => (at, from),
            };
            let name = self.names.name(id, path);
            match self.names.get(name) {
                Some(reached) if reached == (number, side) => continue,
                // Another's, wherever that is.
                Some((owner, _)) if owner != number && !is_sure && id.stands_alone() => {
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
                self.names.remove(oldest, number);
            }
            names.push(name);
            self.names.insert(name, id.len(), (number, side));
            if side == Side::Client && !id.stands_alone() {
                connection.add_short_id(id);
            }
        }
        for (number, connection) in self.connections.keep(number, connection) {
            for name in connection.all_names() {
                self.names.remove(*name, number);
            }
        }
    }
}

/// A client's packet with which a connection may begin.
fn may_begin(datagram: &Datagram<'_>, view: &LongHeaderView<'_>) -> bool {
    view.packet_type() == PacketType::Initial
        && view.protected().is_some()
        && datagram.len >= CLIENT_INITIAL_LEN_MIN
        && view.destination_id().len() >= FIRST_ID_LEN_MIN
}

/// A client's Initial packet that nobody knows.
fn is_opened_by_its_keys(view: &LongHeaderView<'_>) -> bool {
    let keys = PacketKeys::initial(view.version(), view.destination_id(), Side::Client);
    let opened = keys.zip(view.protected()).and_then(|(mut keys, it)| {
        let plain = &mut Vec::new();
        keys.open(it.packet, it.number_at, None, plain)
    });
    opened.is_some()
}

/// One of the ends is where HTTP/3 is spoken.
fn is_https((from, to): Ends) -> bool {
    from.1 == PORT_HTTPS || to.1 == PORT_HTTPS
}

/// The zeros with which these bytes begin, if they are more than a packet would begin with.
fn padding(bytes: &[u8]) -> Option<usize> {
    let len = bytes.iter().take_while(|byte| **byte == 0).count();
    (len >= PADDING_LEN_MIN).then_some(len)
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
