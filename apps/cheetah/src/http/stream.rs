//! The request of a stream of HTTP/2: answered at once where that is possible, else kept as text.

use exos_buf::Slice;
use exos_http2::message::RequestHead;

use super::asking::Asking;
use super::attempt::Attempt;
use super::missing::Missing;
use super::outcome::Unanswered;
use super::response::tail::Tail;
use super::server::Server;
use crate::limits::BODY_SKIP_LEN_MAX;
use crate::log::Unfinished;
use crate::message::Fault;
use crate::message::http2::{Headers, head_text, request};
use crate::message::request::Body;

/// What became of it. Of a response the first two slices are its header block, the others its content.
#[derive(Debug)]
pub(crate) enum Streamed {
    /// The response is there, all of it.
    Whole {
        /// It is to be sent when the body has come, of which nobody has need: until then it is not known whether the request is sound
        /// (RFC 9113 §8.1.1), and a client that sends may not read. One that is refused hears of it at once, and may send no more.
        behind_body: bool,
    },
    /// Its beginning is there, and this follows.
    Tail(Box<Tail>),
    /// The request, whose text this is, waits for something.
    Waits(Box<Missing>, Vec<u8>),
    /// An application answers it.
    Asks(Box<Asking>),
}

impl Server {
    /// Answers a request; `is_end` where it has no body. The line of the log is queued on `lines`.
    #[inline]
    pub(crate) fn answer_stream(
        &mut self,
        head: &RequestHead<'_>,
        is_end: bool,
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) -> Streamed {
        let mut headers = Headers::new();
        let request = match request(head, is_end, &mut headers) {
            Ok(request) => request,
            Err(fault) => return self.refuse_head(fault, head, attempt, lines, out),
        };
        match self.answer(&request, attempt, lines, out) {
            Ok((_, status, None)) => Streamed::Whole {
                behind_body: match request.body {
                    _ if request.expects_continue || status.code() >= 400 => false,
                    Body::Length(len) => len > 0 && len <= BODY_SKIP_LEN_MAX,
                    Body::Chunked | Body::UnknownCoding => true,
                },
            },
            Ok((_, _, Some(tail))) => Streamed::Tail(tail),
            Err(unanswered) => match (head_text(&request), unanswered) {
                (Ok(text), Unanswered::Waits(missing)) => Streamed::Waits(missing, text),
                (Ok(text), Unanswered::Asks(mut asking)) => {
                    asking.head = text.into();
                    Streamed::Asks(asking)
                }
                (Err(fault), _) => self.refuse_head(fault, head, attempt, lines, out),
            },
        }
    }

    /// Refuses a request that is none for us.
    fn refuse_head(
        &mut self,
        fault: Fault,
        head: &RequestHead<'_>,
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) -> Streamed {
        let line = [head.method().as_bytes(), b" ", head.path().unwrap_or(b"*")];
        let line = [&line.concat()[..], b" HTTP/2.0"].concat();
        self.refuse_fault(fault, &line, attempt, lines, out);
        Streamed::Whole { behind_body: false }
    }

    /// Refuses a request whose fields were not kept.
    pub(crate) fn refuse_stream(
        &mut self,
        attempt: &Attempt,
        lines: &mut Unfinished,
        out: &mut Vec<Slice>,
    ) {
        self.refuse_fault(Fault::HeadTooLong, b"", attempt, lines, out);
    }
}
