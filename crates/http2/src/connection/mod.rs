//! One connection of a server: frames in, events out, and what is to be sent appended to a vector.
//!
//! Call [`Connection::receive`] with what has come and was not taken, again and again until it takes nothing; each call takes one
//! frame, or what a client's connection begins with, and gives what that means. It never wants more than
//! [`WHOLE_FRAME_LEN_MAX`](crate::limits::WHOLE_FRAME_LEN_MAX) bytes in one piece. When it fails, the connection is over: what
//! tells the peer why is appended.
//!
//! A [`Event::Request`] is answered by [`Connection::send_head`], then [`Connection::begin_data`] and that many bytes behind each,
//! within [`Connection::room`]. Bytes of a body come with [`Event::Data`], and are the caller's to keep until [`Connection::consume`]
//! says that they have gone: so a client sends no more than is asked for.

mod data;
mod event;
mod headers;
mod sending;
mod settings;
mod streams;

pub use event::Event;

use headers::Memo;
use settings::PeerSettings;
use streams::{ReceiveWindow, Streams};

use crate::allowance::Allowance;
use crate::error::Fault;
use crate::fields::Fields;
use crate::frame::{FrameHead, PREFACE, StreamId, flag, kind, payload, push_ping, push_reset};
use crate::hpack::{Decoder, DynamicEncoder};
use crate::limits::{
    CONNECTION_WINDOW, DEFAULT_WINDOW, EMPTY_FRAMES, FRAME_HEAD_LEN, FRAME_LEN_MAX,
    HEADER_TABLE_LEN, PINGS, PRIORITIES, RESETS, SETTINGS, SMALL_WINDOWS, STREAM_FAULTS,
};
use crate::state::State;

/// How far its end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    /// Nobody speaks of it.
    Staying,
    /// The client was told.
    Told,
    /// Streams beyond this one are not seen to.
    Gone(StreamId),
}

/// What its beginning still lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// All of it.
    Nothing,
    /// SETTINGS behind the preface.
    Preface,
    /// Nothing.
    Settings,
}

/// A header block that goes on in another frame.
#[derive(Debug, Default)]
struct Block {
    stream: StreamId,
    is_end: bool,
    /// It says that its stream depends on itself.
    is_wrong: bool,
    frames: u8,
    bytes: Vec<u8>,
}

/// What a peer may still do that brings nothing.
#[derive(Debug)]
struct Allowances {
    resets: Allowance,
    settings: Allowance,
    pings: Allowance,
    empty: Allowance,
    priority: Allowance,
    windows: Allowance,
    faults: Allowance,
}

/// A server's side of a connection.
#[derive(Debug)]
pub struct Connection {
    begun: Begun,
    going: Going,
    peer: PeerSettings,
    streams: Streams,
    /// What may be sent on all streams.
    send_window: i32,
    receive_window: ReceiveWindow,
    decoder: Decoder,
    fields: Fields,
    memo: Memo,
    block: Option<Box<Block>>,
    encoder: DynamicEncoder,
    /// The client has said of a response how urgent it is.
    says_priorities: bool,
    allowances: Allowances,
    /// In seconds.
    now: u32,
}

impl Connection {
    /// One on which nothing has come; appends our settings.
    pub fn server(out: &mut Vec<u8>) -> Connection {
        settings::push_first(out);
        Connection {
            begun: Begun::Nothing,
            going: Going::Staying,
            peer: PeerSettings::default(),
            streams: Streams::default(),
            send_window: DEFAULT_WINDOW as i32,
            receive_window: ReceiveWindow::new(CONNECTION_WINDOW),
            decoder: Decoder::new(HEADER_TABLE_LEN),
            fields: Fields::new(),
            memo: Memo::default(),
            block: None,
            encoder: DynamicEncoder::default(),
            says_priorities: false,
            allowances: Allowances {
                resets: Allowance::new(RESETS),
                settings: Allowance::new(SETTINGS),
                pings: Allowance::new(PINGS),
                empty: Allowance::new(EMPTY_FRAMES),
                priority: Allowance::new(PRIORITIES),
                windows: Allowance::new(SMALL_WINDOWS),
                faults: Allowance::new(STREAM_FAULTS),
            },
            now: 0,
        }
    }

    /// Sets the time in seconds, from any beginning: what a peer may do too often comes back with it.
    #[inline]
    pub fn set_time(&mut self, secs: u32) {
        self.now = secs;
    }

    /// Streams to which a response is owed, or the rest of one.
    #[inline]
    pub fn stream_count(&self) -> usize {
        self.streams.owed()
    }

    /// The client's first settings have come.
    pub fn has_begun(&self) -> bool {
        self.begun == Begun::Settings
    }

    /// A header block has begun and not ended.
    pub fn is_within_headers(&self) -> bool {
        self.block.is_some()
    }

    /// Bytes that are kept of a header block that has not ended.
    pub fn headers_len(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.bytes.len())
    }

    /// Takes what the connection begins with, or one frame: how many bytes, and what it means. Nothing where it is not whole.
    ///
    /// # Errors
    ///
    /// The connection is over. What tells the peer is appended.
    #[inline]
    pub fn receive<'a>(
        &'a mut self,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event<'a>>), Fault> {
        let head = match self.next_frame(bytes) {
            Ok(Next::Frame(head)) => head,
            Ok(Next::Preface) => return Ok((PREFACE.len(), None)),
            Ok(Next::Nothing) => return Ok((0, None)),
            Err(fault) => {
                self.fail(fault, out);
                return Err(fault);
            }
        };
        let taken = FRAME_HEAD_LEN + head.len;
        // The connection is needed once more where the frame is wrong: then there is no event that refers to it.
        let payload = &bytes[FRAME_HEAD_LEN..taken];
        let (last, at) = (self.last_seen_to(), out.len());
        match self.handle_frame(&head, payload, out) {
            Ok(event) => Ok((taken, event)),
            Err(fault) => {
                let why = fault.to_string();
                out.truncate(at);
                crate::frame::push_go_away(out, last, fault.code(), why.as_bytes());
                Err(fault)
            }
        }
    }

    /// The last stream that is seen to; it never goes up again (RFC 9113 §6.8).
    fn last_seen_to(&self) -> StreamId {
        match self.going {
            Going::Gone(last) => last,
            Going::Staying | Going::Told => self.streams.last,
        }
    }

    fn next_frame(&mut self, bytes: &[u8]) -> Result<Next, Fault> {
        if self.begun == Begun::Nothing {
            let len = bytes.len().min(PREFACE.len());
            if bytes[..len] != PREFACE[..len] {
                return Err(Fault::Preface);
            }
            if len < PREFACE.len() {
                return Ok(Next::Nothing);
            }
            self.begun = Begun::Preface;
            return Ok(Next::Preface);
        }
        let Some(head) = FrameHead::parse(bytes) else {
            return Ok(Next::Nothing);
        };
        if head.len > FRAME_LEN_MAX {
            return Err(Fault::FrameLength);
        }
        if self.begun == Begun::Preface {
            // RFC 9113 §3.4: they come first.
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return Err(Fault::Preface);
            }
        }
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(Fault::HeadersOrder);
        }
        match bytes.len() >= FRAME_HEAD_LEN + head.len {
            true => Ok(Next::Frame(head)),
            false => Ok(Next::Nothing),
        }
    }

    fn handle_frame<'a>(
        &'a mut self,
        head: &FrameHead,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        match head.kind {
            kind::DATA => self.handle_data(head, bytes, out),
            kind::HEADERS => self.handle_headers(head, bytes, out),
            kind::CONTINUATION => self.handle_continuation(head, bytes, out),
            kind::PRIORITY => self.handle_priority(head, bytes).map(|()| None),
            kind::PRIORITY_UPDATE => self.handle_priority_update(head, bytes),
            kind::RST_STREAM => self.handle_reset(head, bytes),
            kind::SETTINGS => {
                let are_theirs = self.handle_settings(head, bytes, out)?;
                self.begun = Begun::Settings;
                Ok(are_theirs.then_some(Event::Room))
            }
            kind::PUSH_PROMISE => Err(Fault::Push),
            kind::PING => self.handle_ping(head, bytes, out),
            kind::GOAWAY => {
                if head.stream != 0 {
                    return Err(Fault::StreamNumber);
                }
                self.allow_useless()?;
                let (_, code) = payload::go_away(bytes)?;
                Ok(Some(Event::GoAway { code }))
            }
            kind::WINDOW_UPDATE => self.handle_window_update(head, bytes, out),
            // Frames of unknown types mean nothing (§4.1).
            _ => self.allow_useless().map(|()| None),
        }
    }

    /// Nothing is sent on streams that nobody has opened; those of even numbers would be ours (§5.1.1).
    fn check_used(&self, stream: StreamId) -> Result<(), Fault> {
        match stream > self.streams.last || stream.is_multiple_of(2) {
            true => Err(Fault::IdleStream),
            false => Ok(()),
        }
    }

    fn allow_useless(&mut self) -> Result<(), Fault> {
        match self.allowances.empty.take(EMPTY_FRAMES, self.now) {
            true => Ok(()),
            false => Err(Fault::EmptyFlood),
        }
    }

    fn handle_reset<'a>(
        &mut self,
        head: &FrameHead,
        bytes: &[u8],
    ) -> Result<Option<Event<'a>>, Fault> {
        let (stream, code) = (head.stream, payload::reset(bytes)?);
        if stream == 0 {
            return Err(Fault::StreamNumber);
        }
        self.check_used(stream)?;
        if !self.allowances.resets.take(RESETS, self.now) {
            return Err(Fault::ResetFlood);
        }
        if self.streams.get(stream).is_none() {
            self.streams.forget_reset(stream);
            return Ok(None);
        }
        self.change_state(stream, State::Closed);
        Ok(Some(Event::Reset { stream, code }))
    }

    fn handle_ping<'a>(
        &mut self,
        head: &FrameHead,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Fault> {
        if head.stream != 0 {
            return Err(Fault::StreamNumber);
        }
        let opaque = payload::ping(bytes)?;
        if !self.allowances.pings.take(PINGS, self.now) {
            return Err(Fault::PingFlood);
        }
        if !head.has(flag::ACK) {
            push_ping(out, true, opaque);
        } else if self.going == Going::Told && opaque == sending::GOING_PING {
            self.finish_going(out);
            return Ok(Some(Event::Gone));
        }
        Ok(None)
    }

    #[inline]
    fn change_state(&mut self, id: StreamId, state: State) {
        match state {
            State::Closed => self.streams.remove(id),
            _ => {
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.state = state;
                }
            }
        }
    }

    /// A stream ends by a fault; it need not be there.
    fn fail_stream<'a>(
        &mut self,
        stream: StreamId,
        fault: Fault,
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, Fault> {
        if !self.allowances.faults.take(STREAM_FAULTS, self.now) {
            return Err(Fault::FaultFlood);
        }
        push_reset(out, stream, fault.code());
        self.change_state(stream, State::Closed);
        self.streams.note_reset(stream);
        Ok(Event::Fault { stream, fault })
    }
}

/// What is at the beginning of what has come.
enum Next {
    Nothing,
    Preface,
    Frame(FrameHead),
}
