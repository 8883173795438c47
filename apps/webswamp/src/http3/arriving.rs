//! What comes on a connection of HTTP/3: QUIC's events of its streams, the responses in them, and what the server says of itself.

use exos_http3::control::{self, Event as ControlEvent, Kind, Peer};
use exos_http3::response::Part as ResponsePart;
use exos_http3::{ErrorCode, Fault};
use exos_quic::quinn_proto::{Dir, ReadError, StreamEvent, StreamId, VarInt};

use super::connection::Connection;
use crate::multiplexed::{Code, Loss, News, Part};

/// What has been read of a stream.
enum Read {
    /// All that has come.
    Some,
    /// Nothing follows.
    End,
    /// The server gives it up.
    Reset(u64),
}

impl Connection {
    /// QUIC tells of a stream; what is in it is read by [`take`](Self::take).
    pub(super) fn hear_stream(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(stream) = self.quic.streams().accept(Dir::Uni) {
                    self.others
                        .insert(stream, control::Reader::of(Peer::Server));
                    self.receive_other(stream);
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.receive_other(id),
            StreamEvent::Readable { id } => self.readable.push_back(id),
            StreamEvent::Writable { id } => self.send(id),
            // The server has answered without the rest of the request, or will not (RFC 9114 §4.1).
            StreamEvent::Stopped { id, error_code } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.upload.clear();
                }
                let _ = self.quic.send_stream(id).reset(error_code);
            }
            // Servers open no streams in both directions (§6.1): they are given no room for one.
            StreamEvent::Opened { dir: Dir::Bi }
            | StreamEvent::Finished { .. }
            | StreamEvent::Available { .. } => {}
        }
    }

    /// Gives what has come.
    ///
    /// # Errors
    ///
    /// The server does what no server may. The connection is closed for it.
    pub fn take(&mut self, hear: &mut impl FnMut(News<'_>)) -> Result<(), Fault> {
        while let Some(id) = self.readable.pop_front() {
            if let Err(fault) = self.receive(id, hear) {
                self.fault.get_or_insert(fault);
            }
        }
        if let Some(from) = self.gone_from.take() {
            hear(self.going_away(from));
        }
        if let Some(code) = self.closed_by.take() {
            let is_first = !std::mem::replace(&mut self.is_going_away, true);
            hear(News::GoingAway {
                code,
                is_first,
                has_taken: true,
                unasked: Vec::new(),
            });
        }
        match self.fault.take() {
            None => Ok(()),
            Some(fault) => {
                self.close(fault.code());
                Err(fault)
            }
        }
    }

    /// The server handles no requests from this stream on.
    fn going_away(&mut self, from: u64) -> News<'static> {
        let is_first = !std::mem::replace(&mut self.is_going_away, true);
        let from = VarInt::from_u64(from).map(StreamId::from);
        let behind = match from {
            Ok(from) => self.streams.split_off(&from),
            Err(_) => Default::default(),
        };
        for id in behind.keys() {
            self.give_up(*id, ErrorCode::REQUEST_CANCELLED);
        }
        News::GoingAway {
            code: ErrorCode::NO_ERROR.into(),
            is_first,
            has_taken: from.is_ok_and(|from| from.index() > 0),
            unasked: behind.values().map(|stream| stream.slot).collect(),
        }
    }

    /// Takes what has come of a response.
    fn receive(&mut self, id: StreamId, hear: &mut impl FnMut(News<'_>)) -> Result<(), Fault> {
        // One that was given up.
        if !self.streams.contains_key(&id) {
            return Ok(());
        }
        match self.read_response(id, hear) {
            Ok(Read::Some) => Ok(()),
            Ok(Read::Reset(code)) => {
                let code = ErrorCode(u32::try_from(code).unwrap_or(u32::MAX));
                self.lose(id, Loss::Reset(code.into()), hear);
                Ok(())
            }
            Ok(Read::End) => {
                if let Some(stream) = self.streams.remove(&id) {
                    if !stream.upload.is_empty() {
                        // It has answered without the rest of the body.
                        self.give_up(id, ErrorCode::REQUEST_CANCELLED);
                    }
                    hear(part(stream.slot, None, 0, &[], true));
                }
                Ok(())
            }
            Err(fault) if fault.is_of_stream() => {
                self.lose(id, Loss::Malformed, hear);
                self.give_up(id, fault.code());
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    fn lose(&mut self, id: StreamId, why: Loss, hear: &mut impl FnMut(News<'_>)) {
        if let Some(stream) = self.streams.remove(&id) {
            let slot = stream.slot;
            hear(News::Lost { slot, why });
            if !stream.upload.is_empty() {
                self.give_up(id, ErrorCode::REQUEST_CANCELLED);
            }
        }
    }

    /// Reads a response as far as it has come.
    fn read_response(
        &mut self,
        id: StreamId,
        hear: &mut impl FnMut(News<'_>),
    ) -> Result<Read, Fault> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(Read::Some);
        };
        let mut incoming = self.quic.recv_stream(id);
        let Ok(mut chunks) = incoming.read(true) else {
            return Ok(Read::Some);
        };
        let read = loop {
            let chunk = match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break stream.reader.end().map(|()| Read::End),
                Err(ReadError::Blocked) => break Ok(Read::Some),
                Err(ReadError::Reset(code)) => break Ok(Read::Reset(code.into_inner())),
            };
            let mut rest = &chunk.bytes[..];
            while !rest.is_empty() {
                let before = rest.len();
                let came = match stream.reader.receive(&mut rest, &mut self.sections) {
                    Ok(came) => came,
                    Err(fault) => {
                        let _ = chunks.finalize();
                        return Err(fault);
                    }
                };
                let taken = (before - rest.len()) as u64;
                let slot = stream.slot;
                hear(match came {
                    None => part(slot, None, taken, &[], false),
                    Some(ResponsePart::Head(status)) => part(slot, Some(status), taken, &[], false),
                    Some(ResponsePart::Data(data)) => {
                        part(slot, None, taken - data.len() as u64, data, false)
                    }
                });
            }
        };
        // What it asks for leaves with the next datagram, as all that waits.
        let _ = chunks.finalize();
        read
    }

    /// Takes what has come on a stream of the server's in one direction.
    fn receive_other(&mut self, id: StreamId) {
        if let Err(fault) = self.read_other(id) {
            self.fault.get_or_insert(fault);
        }
    }

    fn read_other(&mut self, id: StreamId) -> Result<(), Fault> {
        let Some(reader) = self.others.get_mut(&id) else {
            return Ok(());
        };
        let mut incoming = self.quic.recv_stream(id);
        let Ok(mut chunks) = incoming.read(true) else {
            return Ok(());
        };
        let went = loop {
            let chunk = match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => chunk,
                Err(ReadError::Blocked) => break Ok(None),
                Ok(None) | Err(ReadError::Reset(_)) => break reader.end().map(|()| Some(id)),
            };
            let mut rest = &chunk.bytes[..];
            let heard = loop {
                match reader.receive(&mut rest) {
                    Ok(None) => break Ok(()),
                    Ok(Some(ControlEvent::Opened(kind))) => {
                        if let Err(fault) = self.opened.open(kind) {
                            break Err(fault);
                        }
                    }
                    Ok(Some(ControlEvent::GoAway(from))) => self.gone_from = Some(from),
                    Ok(Some(ControlEvent::Priority(..))) => {}
                    Err(fault) => break Err(fault),
                }
            };
            if let Err(fault) = heard {
                break Err(fault);
            }
        };
        let is_unknown = reader.kind() == Some(Kind::Unknown);
        let _ = chunks.finalize();
        if went? == Some(id) || is_unknown {
            // Of one that means nothing, nothing is read (RFC 9114 §6.2).
            let code = VarInt::from_u32(ErrorCode::STREAM_CREATION_ERROR.0);
            let _ = self.quic.recv_stream(id).stop(code);
            self.others.remove(&id);
        }
        Ok(())
    }
}

fn part<'a>(
    slot: u32,
    status: Option<u16>,
    framing: u64,
    content: &'a [u8],
    is_end: bool,
) -> News<'a> {
    News::Part(Part {
        slot,
        status,
        framing,
        content,
        is_end,
    })
}

/// What a code says with which a server has closed a connection.
pub(super) fn code(code: VarInt) -> Code {
    let code = u32::try_from(code.into_inner()).unwrap_or(u32::MAX);
    ErrorCode(code).into()
}
