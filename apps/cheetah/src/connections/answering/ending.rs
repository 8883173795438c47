//! How a request that an application answers ends: whole, refused, too late, or with its client.

use std::mem::take;

use exos_program::Timed as _;

use super::failure::{Failure, tell};
use super::kept::WITHOUT_ANSWER;
use super::{Answering, Stage, Step, Upload};
use crate::applications::proxy::answer::AnswerError;
use crate::applications::reply::{Framing, ReplyError};
use crate::connections::connection::{Connection, Outcome, Turn};
use crate::connections::shared::Shared;
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;
use crate::http::Use;
use crate::http::asking::Said;
use crate::message::Status;

/// What the log says of a request whose client went away before there was an answer: nginx's number for that.
const CLIENT_GONE: Said = Said {
    code: 499,
    head_len: 0,
    len: 0,
};

impl Connection {
    /// The application gives no answer, or not the rest.
    pub(super) fn fail<T: Transport>(
        &mut self,
        failure: &Failure,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Step {
        note(failure, answering, turn);
        match &mut answering.begun {
            // What has come still goes: without a last chunk, or all of its length, the client knows that it is not all.
            Some(begun)
                if matches!(begun.framing, Framing::Chunked | Framing::Length(_))
                    && !self.is_stream() =>
            {
                begun.persistent = false;
                turn.shared.counters.broken_off += 1;
                Step::Whole
            }
            // Nobody says anything any more: both sides end.
            Some(begun) if begun.framing == Framing::Tunnel && matches!(failure, Failure::Late) => {
                Step::Whole
            }
            Some(_) => Step::Broken,
            None if let Some(kept) = turn
                .shared
                .server
                .kept_for_error(&mut answering.asking, turn.now) =>
            {
                self.send_kept(&kept, WITHOUT_ANSWER, answering, turn);
                Step::Whole
            }
            None => self.refuse_asking(failure.status(), answering.skip(), answering, turn),
        }
    }

    /// The body is none that can be handed on: nobody knows where it ends. Where an answer has begun, its client hears of that by its end.
    pub(super) fn refuse_body<T: Transport>(
        &mut self,
        status: Status,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Step {
        match answering.begun {
            Some(_) => {
                answering.refuses_body = true;
                Step::Broken
            }
            None => self.refuse_asking(status, None, answering, turn),
        }
    }

    pub(super) fn refuse_asking<T: Transport>(
        &mut self,
        status: Status,
        skip: Option<u64>,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Step {
        self.give_back(answering, turn.shared);
        let shared = &mut *turn.shared;
        let persistent = skip.is_some() && !shared.stopping;
        let (server, out) = (&mut shared.server, &mut shared.out);
        let http = self.http_mut();
        http.refuse_asking(server, status, &answering.asking, persistent, out);
        http.answered_by_application(persistent, skip.unwrap_or(0));
        self.send_out(&mut shared.out, turn.transport);
        Step::Whole
    }

    /// What it waits for has not come in time.
    pub(in crate::connections) fn end_wait_answering<T: Transport>(
        &mut self,
        turn: &mut Turn<'_, T>,
    ) -> Outcome {
        let Some(mut answering) = self.answering.take() else {
            return Outcome::Broken;
        };
        let step = match self.waits_for() {
            Wait::Body => self.refuse_body(Status::RequestTimeout, &mut answering, turn),
            _ if answering.stage == Stage::Waiting => {
                self.fail(&Failure::Waited, &mut answering, turn)
            }
            _ => match self.ask_again(Failure::Late, &mut answering, turn) {
                Ok(()) => Step::GoesOn,
                Err(failure) => self.fail(&failure, &mut answering, turn),
            },
        };
        match step {
            Step::Whole => {
                self.end_answering(answering, turn);
                self.serve_behind(turn)
            }
            Step::GoesOn => {
                self.answering = Some(answering);
                Outcome::GoesOn
            }
            Step::Broken => {
                self.answering = Some(answering);
                Outcome::Broken
            }
        }
    }

    /// The response is queued whole.
    pub(super) fn end_answering<T: Transport>(
        &mut self,
        mut answering: Box<Answering>,
        turn: &mut Turn<'_, T>,
    ) {
        if let Some(begun) = answering.begun {
            if let Stage::Asked { upstream, .. } = answering.stage
                && matches!(answering.upload, Upload::Over)
                && answering.hearing.may_be_followed()
            {
                let application = &answering.asking.asked.application;
                let applications = &mut turn.shared.applications;
                applications.release(upstream, application, turn.now);
                answering.stage = Stage::Collecting;
            }
            if begun.is_too_long {
                let failure = Failure::Reply(ReplyError::Long);
                tell(
                    &mut turn.shared.applications,
                    &answering,
                    &failure,
                    turn.now,
                );
            }
            let skip = answering.skip();
            let persistent = begun.persistent && skip.is_some();
            let http = self.http_mut();
            http.answered_by_application(persistent, skip.unwrap_or(0));
            http.log_application(&mut turn.shared.server, &answering.asking, begun.said);
        }
        self.give_back(&mut answering, turn.shared);
        self.wait(turn.now, Wait::Sending);
        self.begin_next(turn);
    }

    /// The connection to the application is not needed any more, or none will be.
    pub(super) fn give_back(&mut self, answering: &mut Answering, shared: &mut Shared) {
        // Those who wait for its answer go on.
        answering.asking.keeps = Use::None;
        let applications = &mut shared.applications;
        applications.uncollect(answering.asking.peer(), take(&mut answering.collected));
        match answering.stage {
            Stage::Collecting => {}
            Stage::Waiting => applications.forget(self.id(), answering.address()),
            Stage::Asked { upstream, .. } => {
                if !answering.hearing.is_over() {
                    let is_cut = matches!(
                        answering.upload,
                        Upload::Length(_) | Upload::Whole(..) | Upload::Flowing(_)
                    );
                    applications.carriers().abort(upstream, is_cut);
                }
                applications.close(upstream);
            }
        }
        answering.stage = Stage::Collecting;
    }

    /// The connection is over, in the middle of this.
    pub(in crate::connections) fn abandon_answering(&mut self, shared: &mut Shared) {
        let Some(mut answering) = self.answering.take() else {
            return;
        };
        self.give_back(&mut answering, shared);
        let said = answering.begun.map_or(CLIENT_GONE, |begun| begun.said);
        let server = &mut shared.server;
        self.http_mut()
            .log_application(server, &answering.asking, said);
    }
}

/// Counts and tells what is wrong with an application. Of several upstreams others are asked for a while.
fn note<T: Transport>(failure: &Failure, answering: &Answering, turn: &mut Turn<'_, T>) {
    let shared = &mut *turn.shared;
    let Some(proxy) = &answering.asking.asked.application.proxy else {
        shared.counters.application_failures += 1;
        return tell(&mut shared.applications, answering, failure, turn.now);
    };
    if answering.is_tunnel() {
        return; // What is wrong behind a change of protocol is between the two.
    }
    if matches!(
        failure,
        Failure::Reply(ReplyError::Answer(AnswerError::Unchanged))
    ) {
        return; // Nothing is: any client can ask a page for a tunnel.
    }
    shared.counters.upstream_failures += 1;
    if failure.is_theirs() {
        let applications = &mut shared.applications;
        applications.rest(answering.address(), proxy.fail_time, turn.now);
    }
    tell(&mut shared.applications, answering, failure, turn.now);
}
