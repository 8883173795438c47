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

use exos_tls::observer::{Level, Side};
use exos_wire::quic::{LongHeaderView, PacketType};

use super::generations::Generations;
use super::keys::Keys;
use super::{Endpoint, Ends};
use crate::limits::{QUIC_INITIAL_NAMES_MAX, QUIC_NAMES_MAX, QUIC_PACKETS_MAX};
use connection::{Connection, SAMPLE_END};
use early::EarlyPackets;
use half::Packet;
use names::{Id, Names};
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
                break;
            };
            (rest, len) = (&rest[taken..], len - taken);
            if taken == 0 || rest.is_empty() {
                break;
            }
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
        let path = (datagram.from, datagram.to);
        if let Ok(view) = LongHeaderView::parse(bytes, len)
            && (is_https(path) || view.packet_type() != PacketType::VersionNegotiation)
        {
            return Some(view);
        }
        let view = LongHeaderView::parse_greased(bytes, len).ok()?;
        let id = Id::new(view.destination_id())?;
        let name = self.names.name(id, path);
        self.names.get(name).map(|_| view)
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
        if view.version() != 0 {
            self.paths.between(path).has_long = true;
        }
        // A client's packet names a connection that nobody knows. All others of its datagram go to the same identifier (§12.2): what is
        // behind it begins no other, and early data may stand before it.
        let mut before = self.shown.packets.iter();
        let begins = view.packet_type() == PacketType::Initial
            && view.protected().is_some()
            && before.all(|it| it.header.level() == Level::Early)
            && datagram.len >= CLIENT_INITIAL_LEN_MIN
            && view.destination_id().len() >= FIRST_ID_LEN_MIN;
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
            if known.is_none() {
                self.paths.between(path).has_first = true;
                let early = self.early.take((datagram.from, destination));
                connection.early_packets(early, keys, &mut self.shown);
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
        let named = bytes
            .split_first()
            .filter(|(first, _)| **first & LONG == 0)
            .and_then(|(_, behind)| self.names.of_short(behind, path));
        let known = named.and_then(|(reached, id_len)| {
            let connection = self.connections.take(&reached.0)?;
            Some((reached, id_len, connection))
        });
        let Some(((number, to), id_len, mut connection)) = known else {
            self.unknown_short(datagram, keys);
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

    /// Shows a packet with a long header of a connection that is not known. What may belong to one that begins with a later packet waits.
    fn unknown_long(&mut self, header: Header, view: &LongHeaderView<'_>, path: Ends, keys: &Keys) {
        let to = Id::new(view.destination_id());
        match (view.packet_type(), view.protected(), to) {
            (PacketType::Retry | PacketType::VersionNegotiation, ..) => {
                self.shown.begin(header, None);
            }
            (PacketType::ZeroRtt, Some(protected), Some(to)) if keys.are_given() => {
                let packet = Packet {
                    side: Side::Client,
                    header: header.clone(),
                    bytes: protected.packet.to_vec(),
                    number_at: protected.number_at,
                    before: 0,
                };
                self.early.keep((path.0, to), packet);
                self.shown.begin(header, None);
                let note = "its Initial packet has not come";
                self.shown.tell(Told::Note(note.to_owned()));
            }
            (_, protected, _) => {
                self.shown.begin(header, None);
                self.tell_why(path, protected.is_none(), keys);
            }
        }
    }

    /// Shows what may be a packet with a short header, of a connection that is not known.
    fn unknown_short(&mut self, datagram: &Datagram<'_>, keys: &Keys) {
        if self.shown.packets.is_empty()
            && let Some(certainty) = self.paths.of_short(datagram)
        {
            self.shown.begin(Header::short(&[]), None);
            self.shown.certainty = certainty;
            self.tell_why((datagram.from, datagram.to), false, keys);
        }
    }

    /// Says once between two ends why a packet is not decrypted whose connection is not known.
    fn tell_why(&mut self, path: Ends, is_cut: bool, keys: &Keys) {
        let known = self.paths.between(path);
        if !keys.are_given() || std::mem::replace(&mut known.was_told, true) {
            return;
        }
        let why = match (is_cut, known.has_first) {
            (true, _) => "the capture has cut packets",
            (false, true) => "its connection ID is not known",
            (false, false) => "begun before the capture",
        };
        let or = match self.connections.forgotten() {
            1.. if !is_cut => ", or forgotten",
            _ => "",
        };
        let note = format!("not decrypted: {why}{or}");
        self.shown.tell(Told::Note(note));
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
