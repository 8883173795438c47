//! What is kept of upstreams' answers, for a request that has gone to one: the upstream says that it still holds, or gives no answer.

use std::rc::Rc;

use exos_buf::Slice;

use super::{Answering, Begun};
use crate::applications::reply::Framing;
use crate::caching::record::Answer;
use crate::connections::connection::{Connection, Turn};
use crate::connections::shared::Shared;
use crate::connections::transport::Transport;
use crate::http::Use;
use crate::http::asking::Said;

/// What Cache-Status says of what is kept and is sent behind an answer with this status (RFC 9211 §2.3).
pub(super) fn said_of(code: u16) -> String {
    format!("Cache-Status: exos; fwd=stale; fwd-status={code}\r\n")
}

/// What it says where there was no answer.
pub(super) const WITHOUT_ANSWER: &str = "Cache-Status: exos; fwd=stale; detail=no-answer\r\n";

impl Connection {
    /// Sends what is kept; the response is queued whole then.
    pub(super) fn send_kept<T: Transport>(
        &mut self,
        kept: &Rc<Answer>,
        said: &str,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) {
        let shared = &mut *turn.shared;
        let persistent = answering.skip().is_some() && !shared.stopping;
        let (server, out) = (&mut shared.server, &mut shared.out);
        let asking = &answering.asking;
        let Some(status) = server.send_kept_after_all(kept, said, asking, persistent, out) else {
            return;
        };
        let len = |slices: &[Slice]| slices.iter().map(Slice::len).sum::<usize>();
        answering.begun = Some(Begun {
            framing: Framing::Without,
            persistent,
            said: Said {
                code: status.code(),
                head_len: len(&out[..out.len().min(2)]),
                len: len(out),
            },
            is_too_long: false,
        });
        self.send_out(&mut shared.out, turn.transport);
    }
}

/// A request asks no more: those who wait for its answer hear so.
pub(super) fn end_fetch(answering: &mut Answering, shared: &mut Shared) {
    if let Use::Fetch(fetch) = std::mem::take(&mut answering.asking.keeps) {
        fetch.end(shared.server.answers_mut());
    }
}
