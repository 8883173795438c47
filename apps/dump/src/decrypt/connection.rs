//! One connection that is decrypted: the bytes of both sides in order, and the TLS in them.

use exos_tls::keylog::KeyLog;
use exos_tls::observer::{Observer, Obstacle, Seen, Side};
use exos_wire::SeqNumber;
use exos_wire::tcp::TcpFlags;
use exos_wire::tls::{CLIENT_HELLO, HANDSHAKE, RecordView};

use super::generations::Follow;
use super::http2::Frames;
use super::stream::{Missing, Stream};
use super::{Endpoint, Item, Segment, Shown};
use crate::limits::WAITING_BYTES_MAX;

/// What a connection takes beside itself: secrets, suites, the name of a protocol, what an allocator takes of each, and its place in a table.
const OWN_COST: usize = 512;

/// Record type of data.
const APPLICATION_DATA: u8 = 23;

/// A connection of which both sides are followed from their first bytes on.
#[derive(Debug)]
pub(super) struct Connection {
    client: Endpoint,
    from_client: Stream,
    /// `None` until its first number is known.
    from_server: Option<Stream>,
    observer: Observer,
    /// The frames of client and server, where they have agreed on HTTP/2.
    http2: Option<Box<[Frames; 2]>>,
    wants_key: bool,
    was_told_of_key: bool,
    /// Client and server have sent their last segments.
    has_finished: [bool; 2],
    /// Nothing more is decrypted.
    is_over: bool,
}

/// A record in the middle of a connection: one that is encrypted, or ends a handshake.
pub(super) fn is_middle_of_tls(data: &[u8]) -> bool {
    RecordView::parse(data).is_ok_and(|record| record.content_type() == APPLICATION_DATA)
}

/// The segment begins with a client's hello.
fn begins_with_hello(data: &[u8]) -> bool {
    RecordView::parse(data).is_ok_and(|record| {
        record.content_type() == HANDSHAKE && record.fragment().first() == Some(&CLIENT_HELLO)
    })
}

impl Connection {
    /// A client's SYN begins one, and where that was not captured its hello.
    pub(super) fn begin(segment: &Segment<'_>) -> Option<Self> {
        let (is_syn, has_ack) = (
            segment.flags.contains(TcpFlags::SYN),
            segment.flags.contains(TcpFlags::ACK),
        );
        let (first, server) = match (is_syn, has_ack) {
            (true, false) => (after_syn(segment.seq), None),
            (false, true) if begins_with_hello(segment.data) => (segment.seq, Some(segment.ack)),
            _ => return None,
        };
        let from_server = server.map(Stream::new);
        Some(Self {
            from_server,
            from_client: Stream::new(first),
            is_over: false,
            ..Self::unknown(segment)
        })
    }

    /// One of which the begin was not captured: nothing is told of it.
    pub(super) fn unknown(segment: &Segment<'_>) -> Self {
        Self {
            client: segment.from,
            from_client: Stream::new(segment.seq),
            from_server: None,
            observer: Observer::default(),
            http2: None,
            wants_key: false,
            was_told_of_key: false,
            has_finished: [false; 2],
            is_over: true,
        }
    }

    /// It has begun with this segment, or with what was sent again in it.
    pub(super) fn is_begin(&self, segment: &Segment<'_>) -> bool {
        let first = match segment.flags.contains(TcpFlags::SYN) {
            true => after_syn(segment.seq),
            false => segment.seq,
        };
        self.client == segment.from && self.from_client.first() == first
    }

    /// Takes a segment, and appends what is to be told of it.
    pub(super) fn segment(&mut self, segment: &Segment<'_>, log: &KeyLog, shown: &mut Shown) {
        if self.is_over {
            return;
        }
        let is_client = segment.from == self.client;
        self.has_finished[usize::from(!is_client)] |= segment.flags.contains(TcpFlags::FIN);
        let seq = match segment.flags.contains(TcpFlags::SYN) {
            true => after_syn(segment.seq),
            false => segment.seq,
        };
        if !is_client && self.from_server.is_none() {
            self.from_server = Some(Stream::new(seq));
        }
        let stream = match is_client {
            true => Some(&mut self.from_client),
            false => self.from_server.as_mut(),
        };
        if let Some(stream) = stream.filter(|_| !segment.data.is_empty()) {
            let put = stream.put(seq, segment.data);
            if !segment.is_whole {
                return self.end("not decrypted: the capture has cut packets", shown);
            }
            if put == Err(Missing) {
                return self.end("not decrypted: packets are missing", shown);
            }
        }
        self.go_on(segment.from, log, shown);
    }

    /// Decrypts what both sides have sent: a segment of one may be what the other's records wait for. What was sent against this direction
    /// is told with a note.
    pub(super) fn go_on(&mut self, from: Endpoint, log: &KeyLog, shown: &mut Shown) {
        self.wants_key = false;
        let (this, other) = match from == self.client {
            true => (Side::Client, Side::Server),
            false => (Side::Server, Side::Client),
        };
        // A hello of this side may be what the other waits for, and the other's messages what this one does.
        for (side, is_late) in [(this, false), (other, true), (this, false)] {
            if self.is_over {
                return;
            }
            let before = shown.items.len();
            self.go_on_with(side, log, shown);
            if is_late && shown.items.len() > before {
                let note = "of the other side, late".to_owned();
                shown.items.insert(before, Item::Note(note));
            } else if !is_late && before > 0 && shown.items.len() > before && side == this {
                let note = "of this side".to_owned();
                shown.items.insert(before, Item::Note(note));
            }
        }
    }

    /// Decrypts what one side has sent.
    fn go_on_with(&mut self, side: Side, log: &KeyLog, shown: &mut Shown) {
        let stream = match side {
            Side::Client => Some(&mut self.from_client),
            Side::Server => self.from_server.as_mut(),
        };
        let Some(stream) = stream.filter(|stream| !stream.ready().is_empty()) else {
            return;
        };
        let mut seen = Vec::new();
        let plain = &mut shown.plain;
        let observed = self
            .observer
            .observe(side, stream.ready(), log, plain, &mut seen);
        let protocol = self.observer.protocol();
        for seen in seen {
            match seen {
                Seen::Message(kind) => shown.items.push(Item::Message(kind)),
                Seen::Alert(level, what) => shown.items.push(Item::Alert(level, what)),
                Seen::Data(range) if protocol == Some(b"h2") => {
                    let http2 = self.http2.get_or_insert_default();
                    let of_side = &mut http2[usize::from(side == Side::Server)];
                    let mut frames = Vec::new();
                    let taken = of_side.take(&shown.plain[range], &mut frames);
                    frames.into_iter().for_each(|frame| shown.add_frame(frame));
                    if taken.is_err() {
                        let note = "HTTP/2 that is not understood".to_owned();
                        shown.items.push(Item::Note(note));
                    }
                }
                // Of records that end together, the data is one.
                Seen::Data(range) => match shown.items.last_mut() {
                    Some(Item::Data(before)) if before.end == range.start => before.end = range.end,
                    _ => shown.items.push(Item::Data(range)),
                },
            }
        }
        match observed {
            Ok(taken) => {
                stream.consume(taken.bytes);
                self.wants_key |= taken.wants_key;
                if stream.ready().len() > WAITING_BYTES_MAX {
                    let why = match taken.wants_key {
                        true => "not decrypted: the log has no key for it",
                        false => "not decrypted: the other side was not captured",
                    };
                    self.end(why, shown);
                }
            }
            Err(Obstacle::NotTls) => self.forget(),
            Err(obstacle) => self.end(&format!("not decrypted: {obstacle}"), shown),
        }
    }

    /// A record waits for its key, which was not told of yet.
    pub(super) fn is_to_tell_of_key(&mut self) -> bool {
        self.wants_key && !std::mem::replace(&mut self.was_told_of_key, true)
    }

    /// A record waits for its key.
    pub(super) fn wants_key(&self) -> bool {
        self.wants_key
    }

    /// Nothing more is decrypted, and why.
    fn end(&mut self, why: &str, shown: &mut Shown) {
        shown.items.push(Item::Note(why.to_owned()));
        self.forget();
    }
}

impl Follow for Connection {
    fn held(&self) -> usize {
        let from_server = self.from_server.as_ref().map_or(0, Stream::held);
        let frames = self.http2.iter().flat_map(|both| both.iter());
        let frames = frames.map(Frames::held).sum::<usize>();
        let streams = self.from_client.held() + from_server;
        size_of::<Self>() + OWN_COST + streams + self.observer.held() + frames
    }

    fn is_done(&self) -> bool {
        self.is_over || self.has_finished == [true; 2]
    }

    /// It stays known as one of which there is nothing to tell.
    fn forget(&mut self) {
        self.is_over = true;
        self.wants_key = false;
        self.from_client.clear();
        self.from_server.iter_mut().for_each(Stream::clear);
        self.observer = Observer::default();
        self.http2 = None;
    }
}

/// The number of the first byte behind a SYN.
fn after_syn(seq: SeqNumber) -> SeqNumber {
    SeqNumber(seq.0.wrapping_add(1))
}
