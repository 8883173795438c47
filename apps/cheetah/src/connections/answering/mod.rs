//! Requests that an application answers: the body goes there, the answer comes from there, each as fast as the other side
//! takes it.
//!
//! ```text
//!   collecting ──enough of the body──> waiting ──a connection──> asked ──the end of the request──> over
//!        │                                │                        │
//!        └ 408, 413, 400                  └ 502, 503, 504          └ 502, 504; behind the first byte, the connection breaks
//! ```
//!
//! A body whose length is said waits in the client's receive queue until the application takes it, and so does what is beyond the first
//! MiB of a chunked one for an upstream; an answer waits in the application's socket until the client takes it. What is queued for either is
//! bounded. Requests behind it wait until the answer is queued whole.

mod asking;
mod ending;
mod failure;
mod flowing;
mod heard;
mod kept;
mod relaying;
mod trailers;

use exos_buf::Buffer;
use exos_inet::{Duration, Instant};
use exos_program::Timed as _;

use super::bounds::BodyPace;
use super::connection::{Connection, Outcome, Turn};
use super::transport::Transport;
use super::wait::Wait;
use crate::applications::chunks::BodyError;
use crate::applications::hearing::Hearing;
use crate::applications::pool::Upstream;
use crate::applications::reply::Framing;
use crate::applications::upload::{Chunked, Flowing, Length};
use crate::applications::{Address, Applications};
use crate::http::asking::Said;
use crate::http::{Asking, Attempt};
use crate::limits::{BODY_SKIP_LEN_MAX, CHUNKED_BODY_LEN_MAX};
use crate::message::Status;
use crate::message::request::Body;

/// A request that an application answers, on its way.
#[derive(Debug)]
pub(super) struct Answering {
    asking: Box<Asking>,
    upload: Upload,
    stage: Stage,
    /// Which of the application's addresses is asked, and the bits of those that were asked in vain.
    at: usize,
    tried: u64,
    /// What carries it has not come to stand.
    is_connecting: bool,
    /// It is asked for the second time.
    was_repeated: bool,
    /// How fast its client sends the body.
    body_pace: BodyPace,
    /// Bytes of the body that are kept.
    collected: usize,
    /// It goes on in chunks: there are fields behind it, or it is longer than what is collected.
    is_chunked: bool,
    hearing: Hearing,
    /// What the client has been told, when the head has been sent.
    begun: Option<Begun>,
    /// The body cannot be had, and the answer has begun.
    refuses_body: bool,
}

/// What of the body is still to come.
#[derive(Debug)]
enum Upload {
    /// This much.
    Length(u64),
    /// What the chunks say: it is collected until it is whole, or too long for that.
    Chunked(Chunked),
    /// What the chunks say: it goes to an upstream as it comes, in chunks.
    Flowing(Flowing),
    /// All that comes, until the client ends its side: another protocol.
    Tunnel,
    /// Nothing of the client; of the content of chunks, or of these as an upstream gets them, this many bytes have been handed on.
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
        let application = &asking.asked.application;
        let content_max = match application.proxy {
            Some(_) => application.body_max,
            None => application.body_max.min(CHUNKED_BODY_LEN_MAX),
        };
        let hearing = Hearing::of(&application.addresses[0], asking.question());
        Answering {
            upload: match asking.body {
                Body::Length(0) => Upload::Over,
                Body::Length(len) => Upload::Length(len),
                Body::Chunked | Body::UnknownCoding => Upload::Chunked(Chunked::new(content_max)),
            },
            asking,
            stage: Stage::Collecting,
            at: 0,
            tried: 0,
            is_connecting: false,
            was_repeated: false,
            body_pace: BodyPace::new(now),
            collected: 0,
            is_chunked: false,
            hearing,
            begun: None,
            refuses_body: false,
        }
    }

    /// Where the application is asked.
    fn address(&self) -> &Address {
        &self.asking.asked.application.addresses[self.at]
    }

    /// Another protocol is spoken.
    fn is_tunnel(&self) -> bool {
        self.begun
            .is_some_and(|begun| begun.framing == Framing::Tunnel)
    }

    /// When it breaks, nothing went wrong here: the other end of a tunnel was reset, or the client's body could not be had.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_tunnel() || self.refuses_body
    }

    /// No application has heard of it.
    pub(super) fn is_unasked(&self) -> bool {
        self.tried == 0 && !self.was_repeated && !matches!(self.stage, Stage::Asked { .. })
    }

    /// It was asked just now over a link, and has no body: it leaves behind this turn, and nothing has come of it.
    fn is_on_its_way(&self) -> bool {
        let is_linked = matches!(
            self.stage,
            Stage::Asked {
                upstream: Upstream::Request(_),
                ..
            }
        );
        is_linked && matches!(self.upload, Upload::Over)
    }

    /// What the application is waited for, and how long.
    fn patience(&self, applications: &Applications) -> (Wait, Duration) {
        let application = &self.asking.asked.application;
        let Some(proxy) = &application.proxy else {
            return (Wait::Application, application.timeout);
        };
        match self.stage {
            _ if self.is_tunnel() => (Wait::Tunnel, proxy.tunnel_time),
            Stage::Asked { upstream, .. } if !applications.has_stood(upstream) => {
                (Wait::Upstream, proxy.connect_time)
            }
            _ => (Wait::Upstream, application.timeout),
        }
    }

    /// The length of the body, of which enough is there.
    fn length(&self) -> Length {
        let known = match (&self.asking.body, &self.upload) {
            _ if self.is_chunked => None,
            (_, Upload::Chunked(body)) => Some(body.content.len() as u64),
            (_, Upload::Whole(content, _)) => Some(content.len() as u64),
            (Body::Length(0), _) => None,
            (Body::Length(len), _) => Some(*len),
            _ => None,
        };
        Length {
            known,
            is_chunked: self.is_chunked,
        }
    }

    /// Bytes of the body that will still come, if another request may follow them.
    fn skip(&self) -> Option<u64> {
        let skip = match &self.upload {
            Upload::Over | Upload::Whole(..) => Some(0),
            Upload::Length(left) if self.asking.persistent => Some(*left),
            Upload::Chunked(body) if body.is_over() => Some(0),
            Upload::Length(_) | Upload::Chunked(_) | Upload::Flowing(_) | Upload::Tunnel => None,
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
        if turn.transport.readable(self.id()).is_empty() {
            self.finish_if_the_client_has(turn);
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
                self.end_answering(answering, turn);
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
                Err(error) => return self.refuse_body(status_of(error), answering, turn),
            }
        }
        if !matches!(answering.stage, Stage::Asked { .. }) {
            let has_waited = answering.stage == Stage::Waiting;
            if let Err(failure) = self.ask_any(answering, has_waited, turn) {
                return self.fail(&failure, answering, turn);
            }
            if answering.is_on_its_way() {
                return Step::GoesOn;
            }
        }
        let Stage::Asked { upstream, .. } = answering.stage else {
            return Step::GoesOn;
        };
        self.see_whether_it_stands(upstream, answering, turn);
        self.hand_on(upstream, answering, turn);
        let mut is_uploading = match self.upload(upstream, answering, turn) {
            Ok(is_uploading) => is_uploading,
            Err(error) => return self.refuse_body(status_of(error), answering, turn),
        };
        let was_tunnel = answering.is_tunnel();
        match self.download(upstream, answering, turn) {
            Ok(true) => return Step::Whole,
            Ok(false) => {}
            Err(failure) => match self.ask_again(failure, answering, turn) {
                Ok(()) => return Step::GoesOn,
                Err(failure) => return self.fail(&failure, answering, turn),
            },
        }
        if answering.is_tunnel() && !was_tunnel {
            // What an eager client has sent already.
            self.upload_tunnel(upstream, answering, turn);
            is_uploading = false;
        }
        match is_uploading
            && self.has_client_finished()
            && turn.transport.readable(self.id()).is_empty()
        {
            true => Step::Broken,
            false => Step::GoesOn,
        }
    }

    /// The application, or what is there in its place, has its time from now on.
    fn wait_for_application(
        &mut self,
        answering: &Answering,
        applications: &Applications,
        now: Instant,
    ) {
        let (wait, time) = answering.patience(applications);
        self.wait_until(wait, now + time);
    }

    /// The client has taken all that there was of an answer.
    pub(super) fn wait_for_more(&mut self, now: Instant, applications: &Applications) -> bool {
        let Some(answering) = self.answering.take() else {
            return false;
        };
        let is_full = match answering.stage {
            Stage::Asked { upstream, .. } => applications.body_room(upstream) == 0,
            Stage::Collecting | Stage::Waiting => false,
        };
        match answering.upload {
            Upload::Length(_) | Upload::Flowing(_) if !is_full => self.wait(now, Wait::Body),
            _ => self.wait_for_application(&answering, applications, now),
        }
        self.answering = Some(answering);
        true
    }
}

/// What a client is told whose body cannot be had.
fn status_of(error: BodyError) -> Status {
    match error {
        BodyError::Syntax => Status::BadRequest,
        BodyError::NoRoom => Status::ServiceUnavailable,
        BodyError::TooLong => Status::ContentTooLarge,
        BodyError::WithoutLength => Status::LengthRequired,
    }
}
