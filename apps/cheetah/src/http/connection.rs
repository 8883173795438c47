//! One connection: bytes in, slices out.
//!
//! # Rules of the interface
//!
//! The caller hands over the bytes that the connection has received and not yet consumed. What
//! comes back says how many of them are consumed; the rest stays in the TCP receive buffer and is
//! presented again, from the same place, with whatever has arrived since. So an unfinished request
//! is stored once, by TCP, and an idle connection costs the 40 bytes of this type.
//!
//! Slices are appended to `out` in the order in which they are to be sent. Requests are taken
//! only while less than `room` bytes of responses are queued by this call: a client that
//! pipelines faster than it reads is held back by its own receive window. Nor are more than [`REQUESTS_AT_ONCE`] taken, so that
//! other connections have their turn.
//!
//! A request for a document that is not in memory is not answered yet: it stays unconsumed, with all that
//! follows it, and [`Next::Wait`] names the document. When it has come, or is known not to come, the
//! caller presents the bytes again, with what it knows as an [`Attempt`]. Nothing of the request is kept
//! elsewhere, so a client that goes away meanwhile leaves nothing behind.
//!
//! The content of a long file follows its response as a [`Tail`], which comes with [`Next::Tail`]. When all of it is queued the caller presents the unconsumed bytes again.
//!
//! The caller says which of the bytes sent have been taken ([`ServerConnection::acknowledged`]), which is when responses are
//! logged, and when the connection is over ([`ServerConnection::end`]).
//!
//! After [`Next::Close`] the caller sends what is queued and then FIN, and goes on receiving and
//! dropping for a while: closing at once with unread data would reset the connection and may take
//! the response with it (RFC 9112 §9.6).

use std::net::IpAddr;

use exos_buf::Slice;
use exos_http2::frame::PREFACE;
use exos_inet::Instant;

use super::asking::{Asking, Said};
use super::attempt::Attempt;
use super::missing::Missing;
use super::outcome::Unanswered;
use super::response::tail::Tail;
use super::server::Server;
use crate::applications::proxy::request::upgrade;
use crate::limits::REQUESTS_AT_ONCE;
use crate::log::{Line, Unfinished};
use crate::message::request::{FieldStore, as_http_1_1, is_worth_parsing, parse};
use crate::message::{Fault, Status};

/// The server's side of one HTTP/1 connection.
#[derive(Debug, Default)]
pub struct ServerConnection {
    /// Bytes of a request body still to be dropped.
    skip: u64,
    /// How many unconsumed bytes have been looked at without finding a whole head.
    seen: u32,
    /// The last response has been given out.
    closing: bool,
    /// Lines of the log that wait for responses to be taken.
    lines: Unfinished,
}

/// What became of the bytes presented.
#[derive(Debug)]
pub struct Handled {
    /// This many bytes from the start need not be presented again.
    pub consumed: usize,
    /// This many responses were appended.
    pub responses: usize,
    /// The rules of access let everybody have them.
    pub are_for_all: bool,
    /// What has to happen next.
    pub next: Next,
}

/// What a connection waits for. What is rare is boxed: all others return it, too.
#[derive(Debug)]
pub enum Next {
    /// More bytes from the client.
    Receive,
    /// Room for responses: call again with the unconsumed bytes when some have been sent.
    Send,
    /// A document: call again with the unconsumed bytes when the store has said what became of it.
    Wait(Box<Missing>),
    /// An application, which answers the last request that was consumed: call
    /// [`answered_by_application`](ServerConnection::answered_by_application) when it has, and again with the unconsumed bytes
    /// behind the request's body.
    Ask(Box<Asking>),
    /// What follows the last response to be read and queued: call again with the unconsumed bytes then.
    Tail(Box<Tail>),
    /// Somebody else: the client speaks HTTP/2, and none of what it said is consumed.
    Http2,
    /// Nothing: close after sending.
    Close,
}

impl ServerConnection {
    /// A connection on which nothing has been received.
    pub fn new() -> ServerConnection {
        ServerConnection::default()
    }

    /// True when no part of a request has arrived since the last response: the connection may
    /// be closed after an idle time without an answer, rather than with 408.
    pub fn is_between_requests(&self) -> bool {
        self.skip == 0 && self.seen == 0
    }

    /// Answers the requests in `bytes`, of which none has waited for a document.
    #[inline]
    pub fn handle_bytes(
        &mut self,
        server: &mut Server,
        bytes: &[u8],
        room: usize,
        out: &mut Vec<Slice>,
    ) -> Handled {
        self.handle_again(server, bytes, room, Attempt::default(), out)
    }

    /// Answers the requests in `bytes`, of which the first may have waited.
    #[inline]
    pub fn handle_again(
        &mut self,
        server: &mut Server,
        bytes: &[u8],
        room: usize,
        mut attempt: Attempt,
        out: &mut Vec<Slice>,
    ) -> Handled {
        let (mut rest, mut queued, mut responses, mut are_for_all) = (bytes, 0, 0, true);
        let next = loop {
            if self.closing {
                rest = &[];
                break Next::Close;
            }
            rest = self.skip_to_request(rest);
            if rest.is_empty() || !is_worth_parsing(rest, self.seen as usize) {
                self.seen = rest.len() as u32;
                break Next::Receive;
            }
            if queued >= room || responses >= REQUESTS_AT_ONCE {
                break Next::Send;
            }
            let before = out.len();
            let (head_len, tail) = match self.take_request(server, rest, &attempt, out) {
                Taken::Whole {
                    head_len,
                    is_for_all,
                    tail,
                } => {
                    are_for_all &= is_for_all;
                    (head_len, tail)
                }
                Taken::Unfinished => {
                    self.seen = rest.len() as u32;
                    break Next::Receive;
                }
                Taken::Asks { head_len, asking } => {
                    rest = &rest[head_len..];
                    are_for_all = false;
                    break Next::Ask(asking);
                }
                Taken::Http2 => break Next::Http2,
                Taken::Early => {
                    self.seen = 0; // Worth parsing when the handshake is over.
                    break Next::Receive;
                }
                Taken::Waits(missing) => {
                    self.seen = 0; // Worth parsing whenever it is presented again.
                    break Next::Wait(missing);
                }
            };
            queued += out[before..].iter().map(Slice::len).sum::<usize>();
            responses += 1;
            rest = &rest[head_len..];
            (attempt.has_waited, attempt.begun) = (false, attempt.now);
            if let Some(tail) = tail {
                break Next::Tail(tail);
            }
        };
        Handled {
            consumed: bytes.len() - rest.len(),
            responses,
            are_for_all,
            next,
        }
    }

    /// Answers a request of which this is all that came in time, or whose document did not come. It is the last.
    pub fn refuse(
        &mut self,
        server: &mut Server,
        status: Status,
        bytes: &[u8],
        attempt: &Attempt,
        out: &mut Vec<Slice>,
    ) {
        self.closing = true;
        server.refuse(status, bytes, attempt, &mut self.lines, out);
    }

    /// Answers a request that was for an application.
    pub fn refuse_asking(
        &mut self,
        server: &mut Server,
        status: Status,
        asking: &Asking,
        persistent: bool,
        out: &mut Vec<Slice>,
    ) {
        server.refuse_asking(status, asking, persistent, &mut self.lines, out);
    }

    /// An application has answered a request, or has said this much before that ended.
    pub fn log_application(&mut self, server: &mut Server, asking: &Asking, said: Said) {
        server.log_application(asking, said, &mut self.lines);
    }

    /// An application has answered: behind `skip` bytes another request may follow if `persistent`, else none.
    pub fn answered_by_application(&mut self, persistent: bool, skip: u64) {
        self.closing = !persistent;
        self.skip = skip;
    }

    /// One whose only request is answered, with a line of the log; nothing more is to come.
    pub(crate) fn answered(lines: Unfinished) -> ServerConnection {
        ServerConnection {
            closing: true,
            lines,
            ..ServerConnection::default()
        }
    }

    /// A response of one of its streams, of which `head_len` bytes were the head as it was sent, ends at `end` among all that it is given.
    pub(crate) fn join(
        &mut self,
        server: &mut Server,
        lines: Unfinished,
        head_len: usize,
        end: u64,
    ) {
        if let Some(log) = server.log_mut() {
            log.join(lines, &mut self.lines, head_len as u64, end);
        }
    }

    /// The last response has been given out.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The kernel has given out `len` bytes, which the client has not taken. With a log, the line of that where it is known, and when
    /// its request came.
    pub(crate) fn goes_on_behind(
        &mut self,
        server: &mut Server,
        peer: IpAddr,
        len: u64,
        logged: Option<(Option<Line>, Instant)>,
    ) {
        if let (Some(log), Some((line, begun))) = (server.log_mut(), logged) {
            log.sent_by_others(&mut self.lines, line, peer, begun, len);
        }
    }

    /// Of all that was given out, `left` bytes are still to be taken by the client.
    #[inline]
    pub fn acknowledged(&mut self, server: &mut Server, left: usize) {
        if let Some(log) = server.log_mut() {
            log.acknowledged(&mut self.lines, left);
        }
    }

    /// The client has taken this many bytes of all that its connection was given, where there are others than those of responses.
    #[inline]
    pub(crate) fn acknowledged_until(&mut self, server: &mut Server, position: u64) {
        if let Some(log) = server.log_mut() {
            log.acknowledged_until(&mut self.lines, position);
        }
    }

    /// It is over: what the client has not taken, it will not take.
    pub fn end(&mut self, server: &mut Server) {
        if let Some(log) = server.log_mut() {
            log.ended(&mut self.lines);
        }
    }

    /// It was none: its lines are not written. Gives the last.
    pub(super) fn end_unlogged(self, server: &mut Server) -> Option<Line> {
        server.log_mut()?.take_lines(self.lines)
    }

    /// Drops what is left of a body, and empty lines before a request (RFC 9112 §2.2).
    #[inline]
    fn skip_to_request<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let skipped = bytes
            .len()
            .min(usize::try_from(self.skip).unwrap_or(usize::MAX));
        self.skip -= skipped as u64;
        let mut rest = &bytes[skipped..];
        while let [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] = rest {
            rest = after;
            self.seen = 0;
        }
        rest
    }

    /// Answers the request at the start of `bytes`. After a fault everything counts as its head.
    #[inline]
    fn take_request(
        &mut self,
        server: &mut Server,
        bytes: &[u8],
        attempt: &Attempt,
        out: &mut Vec<Slice>,
    ) -> Taken {
        let mut store = FieldStore::new();
        let (head_len, is_for_all, tail) = match parse(bytes, &mut store) {
            Ok(None) => return Taken::Unfinished,
            // RFC 8470 §3: it waits, for it may have been sent again, and may change something.
            Ok(Some(request))
                if attempt.is_early
                    && attempt.on_stream.is_none()
                    && (!request.method.is_safe() || upgrade(&request).is_some()) =>
            {
                return Taken::Early;
            }
            Ok(Some(request)) => {
                let request = match attempt.on_stream {
                    Some(version) => request.asked_by(version),
                    None => request,
                };
                let (answered, _, tail) =
                    match server.answer(&request, attempt, &mut self.lines, out) {
                        Ok(answered) => answered,
                        Err(Unanswered::Waits(missing)) => return Taken::Waits(missing),
                        Err(Unanswered::Asks(mut asking)) => {
                            let head_len = request.head_len;
                            asking.head = bytes[..head_len].into();
                            self.seen = 0;
                            return Taken::Asks { head_len, asking };
                        }
                    };
                // A stream has one request.
                self.closing = !answered.persistent || attempt.on_stream.is_some();
                self.skip = answered.skip;
                (request.head_len, answered.is_for_all, tail)
            }
            Err(Fault::Version) if attempt.may_be_http2 && begins_http2(bytes) => {
                return match bytes.starts_with(PREFACE) {
                    true => Taken::Http2,
                    false => Taken::Unfinished,
                };
            }
            Err(Fault::Version) if let Some(copy) = as_http_1_1(bytes) => {
                return self.take_request(server, &copy, attempt, out);
            }
            Err(fault) => {
                server.refuse_fault(fault, bytes, attempt, &mut self.lines, out);
                self.closing = true;
                (bytes.len(), true, None)
            }
        };
        self.seen = 0;
        Taken::Whole {
            head_len,
            is_for_all,
            tail,
        }
    }
}

/// Whether a client begins as one of HTTP/2 does that knows it spoken here (RFC 9113 §3.3), or may do so.
fn begins_http2(bytes: &[u8]) -> bool {
    let len = bytes.len().min(PREFACE.len());
    bytes[..len] == PREFACE[..len]
}

/// What became of a request.
enum Taken {
    /// It is answered.
    Whole {
        head_len: usize,
        /// The rules of access let everybody have it.
        is_for_all: bool,
        /// What follows the slices.
        tail: Option<Box<Tail>>,
    },
    /// Not all of it is there.
    Unfinished,
    /// It is none: the client speaks HTTP/2.
    Http2,
    /// It came too early.
    Early,
    /// What it asks for is not there.
    Waits(Box<Missing>),
    /// An application answers it.
    Asks {
        head_len: usize,
        asking: Box<Asking>,
    },
}
