//! One connection of QUIC: keys and numbers of both sides, what CRYPTO frames have carried, and HTTP/3.

use exos_tls::observer::{Level, PacketKeys, QuicObserver, Side};
use exos_wire::SeqNumber;
use exos_wire::quic::PacketType;

use super::frames::{self, Content};
use super::http3::Http3;
use super::names::{Id, Name};
use super::{Header, Shown, StreamPart, Told};
use crate::decrypt::generations::Follow;
use crate::decrypt::keys::Keys;
use crate::decrypt::stream::Stream;
use crate::limits::{MUCH_BYTES, WAITING_BYTES_MAX};

/// The protocol that is followed above (RFC 9114 §3.1).
const HTTP3: &[u8] = b"h3";

/// A packet as it came.
#[derive(Clone, Debug)]
pub(super) struct Packet<'a> {
    pub(super) side: Side,
    pub(super) header: Header,
    pub(super) bytes: &'a [u8],
    pub(super) number_at: usize,
}

/// A packet that waits for its key.
#[derive(Debug)]
struct Waiting {
    side: Side,
    header: Header,
    bytes: Vec<u8>,
    number_at: usize,
}

/// One side.
#[derive(Debug)]
struct Half {
    /// Keys of Initial packets, and of which version.
    initial: Option<(u32, PacketKeys)>,
    early: Option<PacketKeys>,
    handshake: Option<PacketKeys>,
    traffic: Option<PacketKeys>,
    /// The largest packet number of each space.
    largest: [Option<u64>; Level::SPACES],
    crypto: [Stream; Level::SPACES],
}

impl Half {
    fn new() -> Self {
        Self {
            initial: None,
            early: None,
            handshake: None,
            traffic: None,
            largest: [None; Level::SPACES],
            crypto: [(); Level::SPACES].map(|()| Stream::new(SeqNumber(0))),
        }
    }

    fn held(&self) -> usize {
        self.crypto.iter().map(Stream::held).sum()
    }
}

/// A connection whose first packet was captured.
#[derive(Debug)]
pub(super) struct Connection {
    /// What the keys of Initial packets are derived from.
    first_id: Id,
    /// The version that both have agreed on (RFC 9368).
    version: u32,
    observer: QuicObserver,
    halves: [Half; 2],
    http3: Option<Box<Http3>>,
    /// Names under which it is found.
    pub(super) names: Vec<Name>,
    /// Identifiers that were told, by which this side is reached from now on.
    pub(super) told_ids: Vec<(Id, Side)>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// Of secrets that there were when those that wait were looked at.
    keys_tried: u64,
    was_told_of_key: bool,
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
    pub(super) fn new(first_id: Id, version: u32) -> Self {
        Self {
            first_id,
            version,
            observer: QuicObserver::default(),
            halves: [Half::new(), Half::new()],
            http3: None,
            names: Vec::new(),
            told_ids: Vec::new(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            keys_tried: 0,
            was_told_of_key: false,
            is_over: false,
        }
    }

    /// The server has its client begin again: in another version, or with this identifier (RFC 9000 §6, §17.2.5). After an answer nobody may
    /// say so.
    pub(super) fn begin_again(&mut self, id: Option<Id>) {
        if self.halves[1].largest[0].is_some() {
            return;
        }
        self.halves = [Half::new(), Half::new()];
        self.observer = QuicObserver::default();
        if let Some(id) = id {
            self.first_id = id;
            self.told_ids.push((id, Side::Server));
        }
    }

    /// Takes a packet; true when it was decrypted.
    pub(super) fn packet(
        &mut self,
        packet: &Packet<'_>,
        keys: &mut Keys,
        shown: &mut Shown,
    ) -> bool {
        shown.begin(packet.header.clone(), None);
        if self.is_over {
            return false;
        }
        let is_opened = match self.open(packet, keys) {
            Opened::Number(number, plain) => {
                shown.number(number);
                self.frames(packet, &plain, shown);
                true
            }
            Opened::WantsKey => {
                self.wait(packet, keys, shown);
                false
            }
            Opened::Failed => {
                // Where the first packet was not captured, nobody knows of what the keys of Initial ones are made.
                if packet.header.level() != Level::Initial {
                    shown.tell(Told::Note("the keys do not fit".to_owned()));
                }
                false
            }
        };
        self.go_on(keys, shown);
        is_opened
    }

    /// Decrypts a packet, when its keys are there.
    fn open(&mut self, packet: &Packet<'_>, keys: &mut Keys) -> Opened {
        let level = packet.header.level();
        let version = match packet.header.long {
            Some((_, version)) => version,
            None => self.version,
        };
        let half = &mut self.halves[at(packet.side)];
        let largest = half.largest[level.space()];
        let mut plain = Vec::new();
        let mut open = |keys: &mut PacketKeys| {
            let opened = keys.open(packet.bytes, packet.number_at, largest, &mut plain)?;
            plain.drain(..opened.frames.start);
            Some(opened.number)
        };
        let slot = match level {
            Level::Initial => {
                if half.initial.as_ref().is_none_or(|it| it.0 != version) {
                    let initial = PacketKeys::initial(version, self.first_id.bytes(), packet.side);
                    half.initial = initial.map(|keys| (version, keys));
                }
                let Some((_, keys)) = &mut half.initial else {
                    return Opened::Failed;
                };
                let Some(number) = open(keys) else {
                    return Opened::Failed;
                };
                half.largest[0] = largest.max(Some(number));
                return Opened::Number(number, plain);
            }
            Level::Early => &mut half.early,
            Level::Handshake => &mut half.handshake,
            Level::Traffic => &mut half.traffic,
        };
        let number = match slot {
            Some(keys) => open(keys),
            None => {
                let (side, log) = (packet.side, &keys.log);
                let mut candidates = self.observer.keys(side, level, version, log);
                if candidates.is_empty() {
                    return Opened::WantsKey;
                }
                let mut each = candidates.iter_mut().enumerate();
                let found = each.find_map(|(i, keys)| open(keys).map(|number| (i, number)));
                found.map(|(i, number)| {
                    *slot = Some(candidates.swap_remove(i));
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
            (half.initial, half.early, half.handshake) = (None, None, None);
        }
        Opened::Number(number, plain)
    }

    /// Keeps a packet until its key comes.
    fn wait(&mut self, packet: &Packet<'_>, keys: &mut Keys, shown: &mut Shown) {
        if !keys.are_given() {
            return;
        }
        self.waiting_bytes += packet.bytes.len();
        if self.waiting_bytes > WAITING_BYTES_MAX {
            return self.end("not decrypted: the log has no key for it", shown);
        }
        self.waiting.push(Waiting {
            side: packet.side,
            header: packet.header.clone(),
            bytes: packet.bytes.to_vec(),
            number_at: packet.number_at,
        });
        let has_more = keys.read_file();
        if !has_more && !std::mem::replace(&mut self.was_told_of_key, true) {
            shown.tell(Told::Note("no key for it yet".to_owned()));
        }
    }

    /// Decrypts what waits, when secrets have come since.
    fn go_on(&mut self, keys: &mut Keys, shown: &mut Shown) {
        if self.waiting.is_empty() || self.keys_tried == keys.count() {
            return;
        }
        self.keys_tried = keys.count();
        self.waiting_bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let packet = Packet {
                side: waiting.side,
                header: waiting.header.clone(),
                bytes: &waiting.bytes,
                number_at: waiting.number_at,
            };
            match self.open(&packet, keys) {
                Opened::Number(number, plain) => {
                    shown.begin(packet.header.clone(), Some(packet.side));
                    shown.number(number);
                    self.frames(&packet, &plain, shown);
                }
                Opened::WantsKey if !self.is_over => {
                    self.waiting_bytes += waiting.bytes.len();
                    self.waiting.push(waiting);
                }
                Opened::WantsKey | Opened::Failed => {}
            }
        }
    }

    fn frames(&mut self, packet: &Packet<'_>, plain: &[u8], shown: &mut Shown) {
        let (side, level) = (packet.side, packet.header.level());
        if let Some((PacketType::Initial | PacketType::Handshake, version)) = packet.header.long
            && side == Side::Server
        {
            self.version = version;
        }
        let mut rest = plain;
        while !rest.is_empty() && !self.is_over {
            let Some(frame) = frames::next(&mut rest) else {
                return shown.tell(Told::Note("a frame that is not understood".to_owned()));
            };
            shown.tell(Told::Frame(frame.line));
            match frame.content {
                Content::Crypto { offset, data } => self.crypto(side, level, (offset, data), shown),
                Content::Stream(part) => self.stream(side, &part, shown),
                Content::NewId(id) => self.told_ids.extend(Id::new(id).map(|id| (id, side))),
                Content::Close(close) => shown.tell(Told::Close(close)),
                Content::Nothing => {}
            }
        }
    }

    fn crypto(&mut self, side: Side, level: Level, part: (u64, &[u8]), shown: &mut Shown) {
        let stream = &mut self.halves[at(side)].crypto[level.space()];
        if stream.put_at(part.0, part.1).is_err() {
            return self.end("not decrypted: packets are missing", shown);
        }
        let ready = stream.ready().len();
        let messages = self.observer.crypto(side, level, stream.ready());
        stream.consume(ready);
        match messages {
            Ok(messages) => {
                for told in messages.into_iter().map(Told::message) {
                    if matches!(told, Told::Hello(_)) {
                        self.keys_tried = u64::MAX; // What waits may have waited for the suite.
                    }
                    shown.tell(told);
                }
            }
            Err(obstacle) => self.end(&format!("not decrypted: {obstacle}"), shown),
        }
    }

    fn stream(&mut self, side: Side, part: &StreamPart<'_>, shown: &mut Shown) {
        if self.observer.may_speak(HTTP3) {
            let http3 = self.http3.get_or_insert_default();
            for frame in http3.take(side, part, shown.keeps_fields) {
                shown.tell(Told::Http3(frame));
            }
        }
    }

    /// Nothing more is decrypted, and why.
    fn end(&mut self, why: &str, shown: &mut Shown) {
        shown.tell(Told::Note(why.to_owned()));
        self.forget();
    }

    fn forget(&mut self) {
        self.is_over = true;
        self.halves = [Half::new(), Half::new()];
        self.observer = QuicObserver::default();
        self.http3 = None;
        (self.waiting, self.waiting_bytes) = (Vec::new(), 0);
    }
}

impl Follow for Connection {
    fn held(&self) -> usize {
        let halves = self.halves.iter().map(Half::held).sum::<usize>();
        let http3 = self.http3.as_ref().map_or(0, |it| it.held());
        halves + http3 + self.waiting_bytes + self.observer.held()
    }

    fn let_go_of_much(&mut self) {
        if self.held() > MUCH_BYTES {
            self.forget();
        }
    }
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Server)
}
