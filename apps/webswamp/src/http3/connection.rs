//! A connection of HTTP/3 as its client sees it: what is asked on it, and what leaves.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use exos_http3::control::{self, Opened};
use exos_http3::response::{Reader, Sections};
use exos_http3::{ErrorCode, Fault, frame};
use exos_inet::Instant;
use exos_quic::Link;
use exos_quic::quinn_proto::{self, Dir, StreamId, VarInt};
use exos_tls::TlsError;

use crate::multiplexed::{Code, Multiplexed};
use crate::request::Request;

/// A request under way.
#[derive(Debug)]
pub(super) struct Stream {
    /// Whose it is.
    pub(super) slot: u32,
    pub(super) reader: Reader,
    /// What is left to send of it.
    pub(super) upload: Bytes,
    /// All of it, where it leaves as early data, which the server may not take.
    asked: Option<Bytes>,
}

/// What becomes of early data (RFC 9001 §4.6), of which a connection's first requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// None is sent.
    None,
    /// Some may be.
    Offered,
    /// Some may have been.
    Begun,
    /// The server has taken it, or not.
    Answered(bool),
}

/// A connection.
pub struct Connection {
    pub(super) quic: quinn_proto::Connection,
    /// By which its events find the engine's, and by which the engine finds it.
    pub(super) token: u64,
    pub(super) number: u32,
    /// Of several sockets, the one that it is on.
    pub(super) socket: usize,
    pub(super) begun: Instant,
    /// Of its handshake: a certificate was looked at, which was not good for this reason.
    pub(super) is_full: bool,
    pub(super) refusal: Option<TlsError>,
    pub(super) has_stood: bool,
    pub(super) early: Early,
    /// Nothing more is heard of it.
    pub(super) is_over: bool,
    /// The time by quinn's clock, as it was when something was last done with the connection.
    pub(super) time: std::time::Instant,
    /// It stands among those that have news.
    pub(super) is_listed: bool,

    pub(super) streams: BTreeMap<StreamId, Stream>,
    /// The stream of the next request.
    next: Option<StreamId>,
    /// The fewest that the server has allowed at once.
    allowed: Option<u32>,
    /// The server takes no more requests.
    pub(super) is_going_away: bool,
    /// Streams of requests that have something to read.
    pub(super) readable: VecDeque<StreamId>,
    /// The code with which the server has closed the connection, until it is told.
    pub(super) closed_by: Option<Code>,
    /// What the server breaks the rules by, until it is told.
    pub(super) fault: Option<Fault>,
    /// From which stream on requests are not handled, until it is told.
    pub(super) gone_from: Option<u64>,
    /// The server's streams in one direction.
    pub(super) others: BTreeMap<StreamId, control::Reader>,
    pub(super) opened: Opened,
    pub(super) sections: Sections,
}

impl Link for Connection {
    fn quic(&mut self) -> &mut quinn_proto::Connection {
        &mut self.quic
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut it = f.debug_struct("Connection");
        it.field("token", &self.token)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(
        quic: quinn_proto::Connection,
        (token, number, socket): (u64, u32, usize),
        (now, time): (Instant, std::time::Instant),
    ) -> Self {
        Self {
            quic,
            token,
            number,
            socket,
            begun: now,
            is_full: false,
            refusal: None,
            has_stood: false,
            early: Early::None,
            is_over: false,
            time,
            is_listed: false,
            streams: BTreeMap::new(),
            next: None,
            allowed: None,
            is_going_away: false,
            readable: VecDeque::new(),
            closed_by: None,
            fault: None,
            gone_from: None,
            others: BTreeMap::new(),
            opened: Opened::default(),
            sections: Sections::default(),
        }
    }

    /// It stands.
    pub(super) fn stand(&mut self) {
        self.has_stood = true;
        if self.early == Early::None {
            return self.begin();
        }
        let is_taken = self.quic.accepted_0rtt();
        self.early = Early::Answered(is_taken);
        if !is_taken {
            return self.begin_again();
        }
        let held = self.streams.iter().filter(|(_, it)| !it.upload.is_empty());
        let held: Vec<StreamId> = held.map(|(id, _)| *id).collect();
        held.into_iter().for_each(|id| self.send(id));
    }

    /// The server hears our settings (RFC 9114 §6.2.1).
    pub(super) fn begin(&mut self) {
        let control = self.quic.streams().open(Dir::Uni);
        // A server that leaves no room for it breaks the rules (§6.2), and has none of our settings.
        let control = control.filter(|control| {
            let written = self.quic.send_stream(*control).write(&frame::settings());
            written.is_ok()
        });
        if control.is_none() {
            self.fault = Some(Fault::StreamKind);
        }
    }

    /// The server has taken nothing of what was sent before it stood: QUIC has forgotten its streams, and all is asked again on others.
    fn begin_again(&mut self) {
        self.next = None;
        self.readable.clear();
        let streams = std::mem::take(&mut self.streams);
        self.begin();
        for mut stream in streams.into_values() {
            let Some(id) = self.quic.streams().open(Dir::Bi) else {
                // It leaves less room than it said it would.
                self.fault = Some(Fault::StreamKind);
                return;
            };
            stream.upload = stream.asked.take().unwrap_or_default();
            self.streams.insert(id, stream);
            self.send(id);
        }
    }

    /// Ends it, with this code.
    pub(super) fn close(&mut self, code: ErrorCode) {
        self.is_over = true;
        let code = VarInt::from_u32(code.0);
        self.quic.close(self.time, code, Bytes::new());
    }

    /// Sends what is left of a request, as far as there is room.
    pub(super) fn send(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let mut left = [std::mem::take(&mut stream.upload)];
        let mut out = self.quic.send_stream(id);
        while !left[0].is_empty() {
            match out.write_chunks(&mut left) {
                Ok(_) => {}
                // There is room again by an event; or the server wants no more of it, which is told by another.
                Err(_) => {
                    let [left] = left;
                    stream.upload = left;
                    return;
                }
            }
        }
        let _ = out.finish();
    }

    /// Gives up the stream of a request that is forgotten.
    pub(super) fn give_up(&mut self, id: StreamId, code: ErrorCode) {
        let code = VarInt::from_u32(code.0);
        // What has ended in one direction needs nothing there.
        let _ = self.quic.recv_stream(id).stop(code);
        let _ = self.quic.send_stream(id).reset(code);
    }
}

impl Multiplexed for Connection {
    fn streams(&self) -> usize {
        self.streams.len()
    }

    fn room(&mut self, most: u32) -> usize {
        let count = self.streams.len() as u32;
        if self.is_used_up() || count >= most {
            return 0;
        }
        if self.next.is_none() {
            self.next = self.quic.streams().open(Dir::Bi);
        }
        if self.next.is_none() {
            let fewest = self.allowed.map_or(count, |before| before.min(count));
            self.allowed = Some(fewest);
        }
        usize::from(self.next.is_some())
    }

    fn allowed(&self) -> Option<u32> {
        self.allowed
    }

    fn is_used_up(&self) -> bool {
        self.is_going_away || self.is_over
    }

    fn ask(&mut self, slot: u32, request: &Request) {
        let id = self.next.take().expect("there is room");
        let mut stream = Stream {
            slot,
            reader: Reader::new(request.is_head()),
            upload: request.frames().expect("it was made for HTTP/3").clone(),
            asked: None,
        };
        if !self.has_stood {
            stream.asked = Some(stream.upload.clone());
        }
        self.streams.insert(id, stream);
        // What may change something waits until it stands (RFC 8470 §3).
        if self.has_stood || request.is_safe() {
            self.send(id);
        }
    }

    fn cancel(&mut self, slot: u32) {
        let mut streams = self.streams.iter();
        let found = streams.find(|(_, stream)| stream.slot == slot);
        if let Some(id) = found.map(|(id, _)| *id) {
            self.streams.remove(&id);
            self.give_up(id, ErrorCode::REQUEST_CANCELLED);
        }
    }

    fn take_slots(&mut self) -> Vec<u32> {
        let streams = std::mem::take(&mut self.streams);
        streams.values().map(|stream| stream.slot).collect()
    }
}
