//! One connection of QUIC: keys and numbers of both sides, what CRYPTO frames have carried, and HTTP/3.

use exos_tls::keylog::KeyLog;
use exos_tls::observer::{HandshakeType, Level, PacketKeys, QuicObserver, Side, is_retry};
use exos_wire::quic::PacketType;

use super::frames::{self, Content};
use super::half::{AtLevel, Half, Packet, WAITING};
use super::names::{Id, NAME_HELD, Name};
use super::{CUT, Header, Shown, StreamPart, Told};
use crate::decrypt::generations::Follow;
use crate::decrypt::keys::Keys;
use crate::decrypt::{Endpoint, Ends};
use crate::limits::QUIC_NAMES_MAX;

/// The protocol that is followed above (RFC 9114 §3.1).
const HTTP3: &[u8] = b"h3";

/// Bytes from the begin of a number to the end of the sample behind it (RFC 9001 §5.4.2): shorter packets cannot be decrypted.
pub(super) const SAMPLE_END: usize = 20;

/// A connection whose first packet was captured.
#[derive(Debug)]
pub(super) struct Connection {
    /// What the keys of Initial packets are derived from.
    first_id: Id,
    /// Who has begun it: an address, and the identifier under which that is reached.
    begun_by: (Endpoint, Id),
    /// From where to where packets to the server went last that were decrypted.
    pub(super) path: Ends,
    /// The version that both have agreed on (RFC 9368).
    version: u32,
    observer: QuicObserver,
    halves: [Half; 2],
    /// Names under which it is found.
    pub(super) names: Vec<Name>,
    /// More of them, which Initial packets alone have said.
    pub(super) initial_names: Vec<Name>,
    /// Identifiers of the client that are good between its address and the server's alone.
    pub(super) short_ids: Vec<Id>,
    /// Identifiers that were told, by which this side is reached from now on; and whether somebody with keys has said so.
    pub(super) told_ids: Vec<(Id, Side, bool)>,
    was_retried: bool,
    /// The server's hello has come.
    is_answered: bool,
    /// The streams of the client have nothing but early data.
    has_only_early: bool,
    /// The server does not speak the client's version: another hello is to come.
    begins_again: bool,
    /// The client has keys of its own, and Initial packets are anybody's (RFC 9001 §4.9.1).
    is_past_initial: bool,
    was_told_of_key: bool,
    was_told_of_cut: bool,
    /// One of the ends has ended it.
    is_closed: bool,
    /// Nothing more is decrypted.
    is_over: bool,
}

/// What became of a packet.
enum Opened {
    Number(u64, Vec<u8>),
    WantsKey,
    Failed,
}

impl Connection {
    /// One that this endpoint, reached by this identifier, begins by a packet of this version to `first_id`.
    pub(super) fn new((first_id, client_id): (Id, Id), path: Ends, version: u32) -> Self {
        Self {
            first_id,
            begun_by: (path.0, client_id),
            path,
            version,
            observer: QuicObserver::default(),
            halves: [Half::new(), Half::new()],
            names: Vec::new(),
            initial_names: Vec::new(),
            short_ids: Vec::new(),
            told_ids: Vec::new(),
            was_retried: false,
            is_answered: false,
            has_only_early: false,
            begins_again: false,
            is_past_initial: false,
            was_told_of_key: false,
            was_told_of_cut: false,
            is_closed: false,
            is_over: false,
        }
    }

    pub(super) fn all_names(&self) -> impl Iterator<Item = &Name> {
        self.names.iter().chain(&self.initial_names)
    }

    /// Keeps an identifier of the client that does not stand alone.
    pub(super) fn add_short_id(&mut self, id: Id) {
        if !self.short_ids.contains(&id) {
            if self.short_ids.len() >= QUIC_NAMES_MAX {
                self.short_ids.remove(0);
            }
            self.short_ids.push(id);
        }
    }

    /// An Initial packet to this identifier, of a client of this address and identifier, begins another connection: the server of this one has
    /// answered, and its client goes on with another identifier.
    pub(super) fn is_other(&self, destination: Id, client: (Endpoint, Id)) -> bool {
        (self.is_over || self.is_answered)
            && destination == self.first_id
            && client != self.begun_by
    }

    /// A Retry packet: the server has its client begin again with this identifier, once and before any other answer (RFC 9000 §17.2.5). What
    /// others have sent has another tag.
    pub(super) fn retry(&mut self, source: Id, version: u32, packet: &[u8]) {
        if !self.was_retried
            && !self.is_answered
            && is_retry(version, self.first_id.bytes(), packet)
        {
            self.was_retried = true;
            self.begin_again();
            self.first_id = source;
            self.told_ids.push((source, Side::Server, false));
        }
    }

    /// A Version Negotiation packet: the server does not speak the client's version. One that lists that is to be passed over (RFC 9000 §6.2).
    pub(super) fn negotiate(&mut self, versions: &[u8]) {
        let (versions, _) = versions.as_chunks::<4>();
        self.begins_again |= !self.is_answered && !versions.contains(&self.version.to_be_bytes());
    }

    fn begin_again(&mut self) {
        self.halves = [Half::new(), Half::new()];
        self.observer = QuicObserver::default();
        (self.is_answered, self.has_only_early) = (false, false);
    }

    /// Takes the packet with which these bytes begin; says whether it was decrypted, and how many bytes it has.
    pub(super) fn packet(
        &mut self,
        packet: &Packet<&[u8]>,
        keys: &mut Keys,
        shown: &mut Shown,
    ) -> (bool, usize) {
        shown.begin(packet.header.clone(), None);
        if self.is_over {
            return (false, packet.bytes.len());
        }
        let level = packet.header.level();
        if self.begins_again
            && let Some((PacketType::Initial, version)) = packet.header.long
            && packet.side == Side::Client
            && version != self.version
        {
            self.begin_again();
            (self.begins_again, self.version) = (false, version);
        }
        let (opened, mut len) = self.open_first(packet, &keys.log);
        let is_opened = match opened {
            Opened::Number(number, plain) => {
                shown.number(number);
                self.frames(packet, &plain, shown);
                true
            }
            Opened::WantsKey => {
                let bytes = &packet.bytes[..len];
                self.wait(packet, bytes, keys, shown);
                false
            }
            Opened::Failed => {
                // Where the first packet was not captured, nobody knows of what the keys of Initial ones are made.
                if level != Level::Initial {
                    shown.tell(Told::Note("the keys do not fit".to_owned()));
                }
                if shown.fails() {
                    len = packet.bytes.len();
                }
                false
            }
        };
        self.go_on(&keys.log, shown);
        (is_opened, len)
    }

    fn at_level(&mut self, side: Side, level: Level) -> &mut AtLevel {
        &mut self.halves[at(side)].levels[level as usize]
    }

    fn version_of(&self, header: &Header) -> u32 {
        header.long.map_or(self.version, |(_, version)| version)
    }

    /// Decrypts the packet with which these bytes begin, when its keys are there, and says how many bytes it has, or is taken to have.
    fn open_first(&mut self, packet: &Packet<&[u8]>, log: &KeyLog) -> (Opened, usize) {
        let (bytes, header) = (packet.bytes, &packet.header);
        if header.long.is_some() {
            return (self.open(packet, bytes, &mut None, log), bytes.len());
        }
        let of_side = at(packet.side);
        let id = &header.destination;
        let lengths = self.halves[of_side].cuts.lengths(packet.before, bytes, id);
        let (mut likely, mut candidates) = (None, None);
        for len in lengths {
            match self.open(packet, &bytes[..len], &mut candidates, log) {
                Opened::Failed => likely = likely.or(Some(len)),
                opened => {
                    if matches!(opened, Opened::Number(..)) {
                        self.halves[of_side].cuts.find(packet.before, bytes, len);
                    }
                    return (opened, len);
                }
            }
        }
        self.halves[of_side].cuts.fail(bytes, id);
        (Opened::Failed, likely.unwrap_or(bytes.len()))
    }

    /// Decrypts a packet of these bytes, when its keys are there. Those that it may have are derived once for all lengths.
    fn open<B>(
        &mut self,
        packet: &Packet<B>,
        bytes: &[u8],
        candidates: &mut Option<Vec<PacketKeys>>,
        log: &KeyLog,
    ) -> Opened {
        let (side, level) = (packet.side, packet.header.level());
        let version = self.version_of(&packet.header);
        let half = &mut self.halves[at(side)];
        let largest = half.largest[level.space()];
        let mut plain = Vec::new();
        let mut open_behind = |keys: &mut PacketKeys, largest| {
            let opened = keys.open(bytes, packet.number_at, largest, &mut plain)?;
            plain.drain(..opened.frames.start);
            Some(opened.number)
        };
        let kept = &mut half.levels[level as usize].keys;
        let number = match (level, kept) {
            (Level::Initial, _) if self.is_past_initial => None,
            (Level::Initial, _) => {
                let keys = PacketKeys::initial(version, self.first_id.bytes(), side);
                // The largest may be anybody's, too: real ones are small.
                keys.and_then(|mut keys| {
                    let mut each = [largest, None].into_iter();
                    each.find_map(|largest| open_behind(&mut keys, largest))
                })
            }
            (_, Some(keys)) => open_behind(keys, largest),
            (_, kept) => {
                let candidates =
                    candidates.get_or_insert_with(|| self.observer.keys(side, level, version, log));
                if candidates.is_empty() {
                    return Opened::WantsKey;
                }
                let mut each = candidates.iter_mut().enumerate();
                let opened = each.find_map(|(nth, keys)| Some((nth, open_behind(keys, largest)?)));
                opened.map(|(nth, number)| {
                    *kept = Some(Box::new(candidates.swap_remove(nth)));
                    number
                })
            }
        };
        let Some(number) = number else {
            return Opened::Failed;
        };
        half.largest[level.space()] = largest.max(Some(number));
        if level == Level::Traffic {
            // Those of before are derived again, should a packet need them.
            half.levels[Level::Early as usize].keys = None;
            half.levels[Level::Handshake as usize].keys = None;
        }
        let is_own = matches!(level, Level::Handshake | Level::Traffic);
        self.is_past_initial |= is_own && side == Side::Client;
        Opened::Number(number, plain)
    }

    /// Keeps a packet until its key comes, and says so once.
    fn wait(&mut self, packet: &Packet<&[u8]>, bytes: &[u8], keys: &mut Keys, shown: &mut Shown) {
        let level = packet.header.level();
        let can_come = WAITING.contains(&(packet.side, level));
        if !can_come || !keys.are_given() || bytes.len() < packet.number_at + SAMPLE_END {
            return;
        }
        let at_level = self.at_level(packet.side, level);
        let is_kept = at_level.wait(packet.kept(bytes), shown);
        if is_kept && !keys.read_file() && !std::mem::replace(&mut self.was_told_of_key, true) {
            shown.tell(Told::Note("no key for it yet".to_owned()));
        }
    }

    /// Takes 0-RTT packets that came before the one with which the connection begins.
    pub(super) fn early_packets(
        &mut self,
        packets: &[Packet<Vec<u8>>],
        keys: &mut Keys,
        shown: &mut Shown,
    ) {
        let Some(first) = packets.first().filter(|_| !self.is_over) else {
            return;
        };
        let has_keys = self.has_keys_of(first, &keys.log)
            || keys.read_file() && self.has_keys_of(first, &keys.log);
        if !has_keys {
            shown.begin(first.header.clone(), Some(Side::Client));
        }
        for packet in packets {
            match has_keys {
                true => self.open_late(packet, &keys.log, shown),
                false => self.wait(&packet.view(), &packet.bytes, keys, shown),
            }
        }
    }

    /// A packet of this connection that is not all there: that is said once.
    pub(super) fn cut(&mut self, header: Header, keys: &Keys, shown: &mut Shown) {
        shown.begin(header, None);
        let is_to_tell = keys.are_given() && !self.is_over;
        if is_to_tell && !std::mem::replace(&mut self.was_told_of_cut, true) {
            shown.tell(Told::Note(CUT.to_owned()));
        }
    }

    /// There are keys that may open this packet.
    fn has_keys_of<B>(&self, packet: &Packet<B>, log: &KeyLog) -> bool {
        let (side, level) = (packet.side, packet.header.level());
        let version = self.version_of(&packet.header);
        let kept = &self.halves[at(side)].levels[level as usize].keys;
        kept.is_some() || !self.observer.keys(side, level, version, log).is_empty()
    }

    /// Decrypts what waits, where its keys have come since: each packet is looked at once.
    fn go_on(&mut self, log: &KeyLog, shown: &mut Shown) {
        for (side, level) in WAITING {
            let waiting = &self.halves[at(side)].levels[level as usize].waiting;
            let first = waiting.first();
            if !first.is_some_and(|first| self.has_keys_of(first, log)) {
                continue;
            }
            let at_level = self.at_level(side, level);
            at_level.waiting_held = 0;
            for packet in std::mem::take(&mut at_level.waiting) {
                self.open_late(&packet, log, shown);
            }
        }
    }

    /// Decrypts a packet that has waited, and those with short headers that turn out to be in it.
    fn open_late(&mut self, packet: &Packet<Vec<u8>>, log: &KeyLog, shown: &mut Shown) {
        let mut packet = packet.view();
        while !packet.bytes.is_empty() {
            let (Opened::Number(number, plain), len) = self.open_first(&packet, log) else {
                return;
            };
            shown.begin(packet.header.clone(), Some(packet.side));
            shown.number(number);
            self.frames(&packet, &plain, shown);
            packet.bytes = &packet.bytes[len..];
            packet.before = 0;
        }
    }

    fn frames<B>(&mut self, packet: &Packet<B>, plain: &[u8], shown: &mut Shown) {
        let (side, level) = (packet.side, packet.header.level());
        if let Some((PacketType::Initial | PacketType::Handshake, version)) = packet.header.long
            && side == Side::Server
        {
            self.version = version;
        }
        let mut rest = plain;
        while !rest.is_empty() && !self.is_over {
            let Some(frame) = frames::next(level, &mut rest) else {
                return shown.tell(Told::Note("a frame that is not understood".to_owned()));
            };
            shown.tell(Told::Frame(frame.line));
            match frame.content {
                Content::Ack(_) if level == Level::Initial => {} // Anybody's.
                Content::Ack(number) => {
                    // By what was acknowledged its sender chooses how much of a number it sends (RFC 9000 §A.2).
                    let largest = &mut self.halves[1 - at(side)].largest[level.space()];
                    *largest = (*largest).max(Some(number));
                }
                Content::Crypto { offset, data } => self.crypto(side, level, (offset, data), shown),
                Content::Stream(part) => self.stream((side, level), &part, shown),
                Content::NewId(id) => {
                    self.told_ids.extend(Id::new(id).map(|id| (id, side, true)));
                }
                Content::Close(close) => {
                    self.is_closed |= level != Level::Initial;
                    shown.tell(Told::Close(close));
                }
                Content::Nothing => {}
            }
        }
    }

    fn crypto(&mut self, side: Side, level: Level, part: (u64, &[u8]), shown: &mut Shown) {
        let stream = &mut self.halves[at(side)].crypto[level.space()];
        if stream.put_at(part.0, part.1).is_err() {
            return shown.tell(Told::Note("packets are missing".to_owned()));
        }
        let ready = stream.ready().len();
        let messages = self.observer.crypto(side, level, stream.ready());
        stream.consume(ready);
        let messages = match messages {
            Ok(messages) => messages,
            Err(obstacle) => return self.end(&format!("not decrypted: {obstacle}"), shown),
        };
        for message in messages {
            let kind = HandshakeType::from(message[0]);
            self.is_answered |= side == Side::Server && kind == HandshakeType::ServerHello;
            let told = Told::message(message);
            if kind == HandshakeType::EncryptedExtensions
                && self.has_only_early
                && !self.observer.takes_early_data()
            {
                // What the client has sent before, it sends again (RFC 9001 §4.6.2).
                if let Some(http3) = &mut self.halves[0].http3 {
                    http3.restart();
                }
            }
            shown.tell(told);
        }
    }

    fn stream(&mut self, (side, level): (Side, Level), part: &StreamPart<'_>, shown: &mut Shown) {
        if self.observer.may_speak(HTTP3) {
            let http3 = &mut self.halves[at(side)].http3;
            if side == Side::Client {
                let is_early = level == Level::Early;
                self.has_only_early = is_early && (http3.is_none() || self.has_only_early);
            }
            let allowed = http3.get_or_insert_default().take(part, shown);
            if let Some(capacity) = allowed {
                let other = &mut self.halves[1 - at(side)].http3;
                other.get_or_insert_default().allow(capacity, shown);
            }
        }
    }

    /// Nothing more is decrypted, and why.
    fn end(&mut self, why: &str, shown: &mut Shown) {
        shown.tell(Told::Note(why.to_owned()));
        self.forget();
    }
}

impl Follow for Connection {
    fn held(&self) -> usize {
        let halves = self.halves.iter().map(Half::held).sum::<usize>();
        let names = self.all_names().count() * NAME_HELD;
        let ids = self.short_ids.capacity() * size_of::<Id>();
        size_of::<Self>() + halves + names + ids + self.observer.held()
    }

    fn is_done(&self) -> bool {
        self.is_closed || self.is_over
    }

    fn forget(&mut self) {
        self.is_over = true;
        self.begin_again();
    }
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Server)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// RFC 9000 §6.2: a list with the version that is spoken is passed over, and takes nothing back.
    #[test]
    fn lists_with_the_version_change_nothing() {
        let id = Id::new(b"12345678").expect("an identifier");
        let end = (Ipv4Addr::LOCALHOST.into(), 1);
        let mut connection = Connection::new((id, id), (end, end), 1);
        for (list, begins_again) in [
            (&[0, 0, 0, 1][..], false),
            (&[0, 0, 0, 9], true),
            (&[0, 0, 0, 9, 0, 0, 0, 1], true),
        ] {
            connection.negotiate(list);
            assert_eq!(connection.begins_again, begins_again);
        }
    }
}
