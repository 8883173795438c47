//! The streams of a connection that go one way: our control stream, and the client's streams, which say priorities of requests.

use std::collections::BTreeMap;

use exos_http2::priority::Priority;
use exos_http3::control::{Event, Kind, Opened, Reader};
use exos_http3::{ErrorCode, Fault};
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

use crate::limits::{QUIC_EARLY_PRIORITIES, RECEIVE_BUFFER_LEN};

/// The streams of a connection that go one way.
#[derive(Default)]
pub(super) struct Control {
    /// Ours, and what is to be sent on it.
    ours: Option<StreamId>,
    unsent: Vec<u8>,
    /// The client's, and which of its kinds have been opened.
    theirs: BTreeMap<StreamId, Reader>,
    opened: Opened,
    /// Priorities of requests that have not begun.
    early: Vec<(StreamId, Priority)>,
}

impl Control {
    // Ours.

    /// Opens our stream.
    pub(super) fn open(&mut self, quic: &mut Connection) {
        self.ours = quic.streams().open(Dir::Uni);
        if let Some(ours) = self.ours {
            // Before all responses; a stream that is there can be given any priority.
            let _ = quic.send_stream(ours).set_priority(i32::MAX);
        }
    }

    /// Whether it is our stream.
    pub(super) fn is_ours(&self, stream: StreamId) -> bool {
        self.ours == Some(stream)
    }

    /// Queues what is to be said on our stream.
    pub(super) fn push(&mut self, frames: impl AsRef<[u8]>) {
        self.unsent.extend_from_slice(frames.as_ref());
    }

    /// Sends what is queued.
    pub(super) fn send(&mut self, quic: &mut Connection) {
        let Some(ours) = self.ours.filter(|_| !self.unsent.is_empty()) else {
            return;
        };
        // A client that leaves no room for this hears it when it does.
        if let Ok(len) = quic.send_stream(ours).write(&self.unsent) {
            self.unsent.drain(..len);
        }
    }

    // The client's.

    /// The client has opened a stream.
    pub(super) fn add(&mut self, stream: StreamId) {
        self.theirs.insert(stream, Reader::default());
    }

    /// Reads what has come on a stream of the client's. It may say how urgent requests are: those for which `has_begun` is true,
    /// and those from `next` on, which are to come.
    pub(super) fn receive(
        &mut self,
        quic: &mut Connection,
        stream: StreamId,
        next: u64,
        has_begun: impl Fn(StreamId) -> bool,
    ) -> Result<(), Fault> {
        loop {
            let Some(reader) = self.theirs.get_mut(&stream) else {
                return Ok(());
            };
            let read = quic.recv_stream(stream).read(true).map(|mut chunks| {
                let read = chunks.next(RECEIVE_BUFFER_LEN as usize);
                let _ = chunks.finalize();
                read
            });
            let chunk = match read {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Err(ReadError::Blocked)) => return Ok(()),
                Ok(Ok(None) | Err(ReadError::Reset(_))) | Err(_) => {
                    let ended = reader.end();
                    self.theirs.remove(&stream);
                    return ended;
                }
            };
            let mut rest = &chunk.bytes[..];
            while let Some(event) = reader.receive(&mut rest)? {
                match event {
                    Event::Opened(kind) => {
                        self.opened.open(kind)?;
                        if kind == Kind::Unknown {
                            // RFC 9114 §6.2.3: nobody reads it.
                            let code = VarInt::from_u32(ErrorCode::STREAM_CREATION_ERROR.0);
                            let _ = quic.recv_stream(stream).stop(code);
                            self.theirs.remove(&stream);
                            return Ok(());
                        }
                    }
                    // It takes no pushes, of which there are none.
                    Event::GoAway(_) => {}
                    Event::Priority(number, priority) => {
                        let Ok(of) = VarInt::from_u64(number).map(StreamId::from) else {
                            continue;
                        };
                        if has_begun(of) {
                            set_urgency(quic, of, priority.urgency);
                        } else if number >= next {
                            self.early.retain(|(other, _)| *other != of);
                            if self.early.len() < QUIC_EARLY_PRIORITIES {
                                self.early.push((of, priority));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The head of a request has come, and says that it is this urgent: what was said of it before counts for more.
    pub(super) fn begin_request(&mut self, quic: &mut Connection, stream: StreamId, urgency: u8) {
        let early = self.early.iter().position(|(of, _)| *of == stream);
        let urgency = early.map_or(urgency, |at| self.early.swap_remove(at).1.urgency);
        // Streams begin as the urgency has it that most requests are of.
        if urgency != Priority::default().urgency {
            set_urgency(quic, stream, urgency);
        }
    }
}

/// QUIC sends streams of a higher number first, which is 0 of those of which nothing was said.
fn set_urgency(quic: &mut Connection, stream: StreamId, urgency: u8) {
    // A stream that has ended needs none.
    let number = i32::from(Priority::default().urgency) - i32::from(urgency);
    let _ = quic.send_stream(stream).set_priority(number);
}
