//! Requests that an application answers: the body goes there, the answer comes from there, each as fast as the other side
//! takes it.
//!
//! ```text
//!   collecting ──enough of the body──> waiting ──a connection──> asked ──the end of the request──> over
//!        │                                │                        │
//!        └ 408, 413, 400                  └ 502, 503, 504          └ 502, 504; behind the first byte, the connection breaks
//! ```
//!
//! A body whose length is said waits in the client's receive queue until the application takes it, and an answer in the
//! application's socket until the client does; what is queued for either is bounded. Requests behind it wait until the
//! answer is queued whole.

mod ending;
mod failure;
mod relaying;

use std::mem::take;

use exos_buf::Buffer;
use exos_inet::Instant;
use exos_program::Timed as _;

use super::bounds::BodyPace;
use super::connection::{Connection, Outcome, Turn};
use super::transport::Transport;
use super::wait::Wait;
use crate::applications::Applications;
use crate::applications::pool::{Opened, Refusal, Upstream};
use crate::applications::reply::{Framing, Reply};
use crate::applications::upload::{BodyError, Chunked};
use crate::http::asking::Said;
use crate::http::{Asking, Attempt};
use crate::limits::{BODY_SKIP_LEN_MAX, CHUNKED_BODY_LEN_MAX};
use crate::message::Status;
use crate::message::request::Body;
use failure::Failure;

/// A request that an application answers, on its way.
#[derive(Debug)]
pub(super) struct Answering {
    asking: Box<Asking>,
    upload: Upload,
    stage: Stage,
    /// It is asked for the second time.
    was_repeated: bool,
    /// How fast its client sends the body.
    body_pace: BodyPace,
    /// Bytes of the body that are kept.
    collected: usize,
    reply: Reply,
    /// What the client has been told, when the head has been sent.
    begun: Option<Begun>,
}

/// What of the body is still to come.
#[derive(Debug)]
enum Upload {
    /// This much.
    Length(u64),
    /// What the chunks say.
    Chunked(Chunked),
    /// Nothing of the client; of the content of chunks, this many bytes have been handed on.
    Whole(Vec<u8>, usize),
    /// Nothing.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody is asked before enough of the body is there.
    Collecting,
    /// For a connection to the application.
    Waiting,
    /// Over this connection. It may be one that others were answered over before.
    Asked { upstream: Upstream, was_kept: bool },
}

/// An answer of which the client has the head.
#[derive(Clone, Copy, Debug)]
struct Begun {
    framing: Framing,
    persistent: bool,
    said: Said,
    /// The application says more than it said that it would.
    is_too_long: bool,
}

impl Begun {
    /// The client gets nothing of what may still come: nobody waits for that.
    fn has_all(&self) -> bool {
        self.framing == Framing::Without || self.is_too_long
    }
}

/// How far it has come.
enum Step {
    /// There is more to come.
    GoesOn,
    /// The response is queued whole.
    Whole,
    /// The client has got a part of what it was promised, and will not get the rest.
    Broken,
}

impl Answering {
    fn new(asking: Box<Asking>, now: Instant) -> Answering {
        let content_max = asking.asked.application.body_max.min(CHUNKED_BODY_LEN_MAX);
        Answering {
            upload: match asking.body {
                Body::Length(0) => Upload::Over,
                Body::Length(len) => Upload::Length(len),
                Body::Chunked | Body::UnknownCoding => {
                    Upload::Chunked(Chunked::new(content_max as usize))
                }
            },
            asking,
            stage: Stage::Collecting,
            was_repeated: false,
            body_pace: BodyPace::new(now),
            collected: 0,
            reply: Reply::default(),
            begun: None,
        }
    }

    /// The length of the body, of which enough is there.
    fn length(&self) -> Option<u64> {
        match (&self.asking.body, &self.upload) {
            (_, Upload::Chunked(body)) => Some(body.content.len() as u64),
            (_, Upload::Whole(content, _)) => Some(content.len() as u64),
            (Body::Length(0), _) => None,
            (Body::Length(len), _) => Some(*len),
            _ => None,
        }
    }

    /// Bytes of the body that will still come, if another request may follow them.
    fn skip(&self) -> Option<u64> {
        let skip = match &self.upload {
            Upload::Over | Upload::Whole(..) => Some(0),
            Upload::Length(left) if self.asking.persistent => Some(*left),
            Upload::Chunked(body) if body.is_over() => Some(0),
            Upload::Length(_) | Upload::Chunked(_) => None,
        };
        skip.filter(|skip| self.asking.persistent && *skip <= BODY_SKIP_LEN_MAX)
    }
}

impl Connection {
    /// A request was consumed that an application answers; true when it is answered at once.
    pub(super) fn begin_answering<T: Transport>(
        &mut self,
        asking: Box<Asking>,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        let waits_for_leave = asking.expects_continue && asking.has_body();
        if waits_for_leave && turn.transport.readable(self.id()).is_empty() {
            // RFC 9110 §10.1.1: what can be known without the body has been looked at.
            if self.is_stream() {
                turn.transport.send_leave(self.id());
            } else {
                let leave = Buffer::from_static(b"HTTP/1.1 100 Continue\r\n\r\n");
                self.send(leave.into(), turn.transport);
            }
        }
        self.answering = Some(Box::new(Answering::new(asking, turn.now)));
        if let Some(answering) = self.answering.take() {
            self.wait_for_body(&answering, turn);
            self.answering = Some(answering);
        }
        let Some(is_whole) = self.answer_on(turn) else {
            // Its client has finished in the middle of the body.
            self.abandon_answering(turn.shared);
            self.finish(turn);
            return false;
        };
        is_whole
    }

    /// Something may go on: its client has sent or taken something, or the application has.
    pub(super) fn go_on_answering<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        match self.answer_on(turn) {
            None => Outcome::Broken,
            Some(true) => self.serve_behind(turn),
            Some(false) => Outcome::GoesOn,
        }
    }

    /// Answers the requests behind one that an application has answered.
    fn serve_behind<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        if self.is_finished() {
            return Outcome::GoesOn;
        }
        let missing = self.serve(Attempt::default(), turn);
        self.finish_if_the_client_has(turn);
        missing.into()
    }

    /// Goes as far as it goes now: true when the response is queued whole, nothing when the connection is to break.
    fn answer_on<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Option<bool> {
        let Some(mut answering) = self.answering.take() else {
            return Some(false);
        };
        match self.step(&mut answering, turn) {
            Step::GoesOn => {
                self.answering = Some(answering);
                Some(false)
            }
            Step::Whole => {
                self.end_answering(*answering, turn);
                Some(true)
            }
            Step::Broken => {
                turn.shared.counters.broken_off += 1;
                self.answering = Some(answering);
                None
            }
        }
    }

    fn step<T: Transport>(&mut self, answering: &mut Answering, turn: &mut Turn<'_, T>) -> Step {
        if answering.stage == Stage::Collecting {
            match self.collect(answering, turn) {
                Ok(true) => {}
                Ok(false) if self.has_client_finished() => return Step::Broken,
                Ok(false) => return Step::GoesOn,
                Err(BodyError::Syntax) => {
                    return self.refuse_body(Status::BadRequest, answering, turn);
                }
                Err(BodyError::NoRoom) => {
                    return self.refuse_body(Status::ServiceUnavailable, answering, turn);
                }
                Err(BodyError::TooLong) => {
                    return self.refuse_body(Status::ContentTooLarge, answering, turn);
                }
            }
        }
        if !matches!(answering.stage, Stage::Asked { .. }) {
            let has_waited = answering.stage == Stage::Waiting;
            if let Err(refusal) = self.ask(answering, has_waited, turn) {
                return self.fail(&Failure::Refused(refusal), answering, turn);
            }
        }
        let Stage::Asked { upstream, .. } = answering.stage else {
            return Step::GoesOn;
        };
        self.hand_on(upstream, answering, turn);
        let is_uploading = self.upload(upstream, answering, turn);
        match self.download(upstream, answering, turn) {
            Ok(true) => return Step::Whole,
            Ok(false) => {}
            Err(Failure::Ended(_)) if self.asks_again(answering, turn) => return Step::GoesOn,
            Err(failure) => return self.fail(&failure, answering, turn),
        }
        match is_uploading
            && self.has_client_finished()
            && turn.transport.readable(self.id()).is_empty()
        {
            true => Step::Broken,
            false => Step::GoesOn,
        }
    }

    /// Asks the application, when there is a connection to it.
    fn ask<T: Transport>(
        &mut self,
        answering: &mut Answering,
        has_waited: bool,
        turn: &mut Turn<'_, T>,
    ) -> Result<(), Refusal> {
        let application = answering.asking.asked.application.clone();
        let applications = &mut turn.shared.applications;
        let may_be_kept = !answering.was_repeated && answering.asking.may_be_repeated();
        let (id, peer) = (self.id(), answering.asking.peer());
        let opened =
            applications.open(&application, id, peer, may_be_kept, has_waited, turn.now)?;
        let Opened::Connected { upstream, was_kept } = opened else {
            if !has_waited {
                self.wait_for_application(turn.now, application.timeout);
            }
            answering.stage = Stage::Waiting;
            return Ok(());
        };
        self.wait_for_application(turn.now, application.timeout);
        answering.body_pace.begin(turn.now);
        answering.stage = Stage::Asked { upstream, was_kept };
        let nobody = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
        let ends = turn.transport.ends(self.id()).unwrap_or((nobody, nobody));
        let keeps = application.keep > 0;
        let variables = answering.asking.variables(ends, answering.length());
        if let Upload::Chunked(body) = &mut answering.upload {
            answering.upload = Upload::Whole(take(&mut body.content), 0);
        }
        let has_body = !matches!(answering.upload, Upload::Over);
        applications
            .carriers()
            .begin(upstream, &variables, has_body, keeps);
        Ok(())
    }

    /// The client has taken all that there was of an answer.
    pub(super) fn wait_for_more(&mut self, now: Instant, applications: &Applications) -> bool {
        let Some(answering) = &self.answering else {
            return false;
        };
        let timeout = answering.asking.asked.application.timeout;
        let is_full = match answering.stage {
            Stage::Asked { upstream, .. } => applications.body_room(upstream) == 0,
            Stage::Collecting | Stage::Waiting => false,
        };
        match answering.upload {
            Upload::Length(_) if !is_full => self.wait(now, Wait::Body),
            _ => self.wait_for_application(now, timeout),
        }
        true
    }
}
