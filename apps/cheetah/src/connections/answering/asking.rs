//! How an application is asked: at which of its addresses, over which connection, and once more where that is no harm.
//!
//! Asked once more is what nobody can have seen: a request on a connection that never stood, of which no body has left; and one
//! without a body that may be repeated (RFC 9110 §9.2.2), when its connection ends without a byte of an answer. The first time where
//! others were answered over that connection before, at the same address over a new one, for the application may have
//! closed it meanwhile (RFC 9112 §9.3.1); then at the addresses that are left, each once.

use std::mem::take;

use exos_program::Timed as _;

use super::failure::{Failure, tell};
use super::{Answering, Stage, Upload};
use crate::applications::Application;
use crate::applications::hearing::Hearing;
use crate::applications::pool::{Opened, Refusal, To, Upstream};
use crate::connections::connection::{Connection, Turn};
use crate::connections::transport::Transport;
use crate::http::asking::ToldEnds;

impl Connection {
    /// Asks at the best address; where there is no way to it at the next.
    pub(super) fn ask_any<T: Transport>(
        &mut self,
        answering: &mut Answering,
        has_waited: bool,
        turn: &mut Turn<'_, T>,
    ) -> Result<(), Failure> {
        let application = answering.asking.asked.application.clone();
        let mut chosen = has_waited.then_some(answering.at);
        loop {
            let applications = &mut turn.shared.applications;
            let next = || applications.choose(&application, answering.tried, turn.now);
            answering.at = chosen.or_else(next).unwrap_or(answering.at);
            let waited = chosen.take().is_some();
            let failure = match self.ask(&application, answering, waited, turn) {
                Ok(()) => return Ok(()),
                Err(refusal) => Failure::Refused(refusal),
            };
            let is_final = matches!(failure, Failure::Refused(Refusal::Busy | Refusal::Unsaid));
            if is_final || !answering.has_another() {
                return Err(failure);
            }
            note_failure(&failure, answering, turn);
        }
    }

    /// Asks where it was chosen to, when there is a connection to it.
    fn ask<T: Transport>(
        &mut self,
        application: &Application,
        answering: &mut Answering,
        has_waited: bool,
        turn: &mut Turn<'_, T>,
    ) -> Result<(), Refusal> {
        let address = &application.addresses[answering.at];
        let kept_within = answering.asking.kept_within();
        let to = To {
            application,
            address,
            kept_within: kept_within.filter(|_| !answering.was_repeated),
            may_be_repeated: answering.asking.may_be_repeated(),
        };
        let (keeps, length) = (application.keep > 0, answering.length());
        let (id, peer) = (self.id(), answering.asking.peer());
        let (transport, told) = (&*turn.transport, &mut self.told_ends);
        let asking = &mut answering.asking;
        let words = || match application.proxy {
            Some(_) => asking.head_for(address, length, keeps),
            None => {
                let nobody = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
                let ends = || transport.ends(id).unwrap_or((nobody, nobody));
                let told = told.get_or_insert_with(|| Box::new(ToldEnds::new(ends())));
                asking.variables(told, length.known)
            }
        };
        let applications = &mut turn.shared.applications;
        let opened = applications.open(to, id, peer, has_waited, turn.now, words)?;
        let Opened::Connected {
            upstream,
            was_kept,
            words,
        } = opened
        else {
            answering.stage = Stage::Waiting;
            answering.asking.waits();
            if !has_waited {
                self.wait_for_application(answering, &turn.shared.applications, turn.now);
            }
            return Ok(());
        };
        if !answering.is_unasked() {
            // Of the last one it may have heard something.
            answering.hearing = Hearing::of(address, answering.asking.question());
        }
        answering.stage = Stage::Asked { upstream, was_kept };
        answering.is_connecting = !applications.has_stood(upstream);
        self.wait_for_application(answering, applications, turn.now);
        answering.body_pace.begin(turn.now);
        if let Upload::Chunked(body) = &mut answering.upload {
            answering.upload = Upload::Whole(take(&mut body.content), 0);
        }
        let has_body = !matches!(answering.upload, Upload::Over);
        let carriers = applications.carriers();
        let words = carriers.begin(upstream, words, has_body, keeps);
        turn.shared.server.use_again(words);
        Ok(())
    }

    /// The connection to an application may stand now: its time to answer begins.
    pub(super) fn see_whether_it_stands<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &Turn<'_, T>,
    ) {
        let applications = &turn.shared.applications;
        if answering.is_connecting && applications.has_stood(upstream) {
            answering.is_connecting = false;
            self.wait_for_application(answering, applications, turn.now);
        }
    }

    /// Something was wrong where it was asked: asks once more, or gives what was wrong back.
    pub(super) fn ask_again<T: Transport>(
        &mut self,
        failure: Failure,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<(), Failure> {
        let Stage::Asked { upstream, was_kept } = answering.stage else {
            return Err(failure);
        };
        let applications = &turn.shared.applications;
        let is_proxied = answering.asking.asked.application.proxy.is_some();
        let never_stood = is_proxied && !applications.has_stood(upstream);
        let is_ended = matches!(failure, Failure::Ended(_)) && answering.hearing.is_fresh();
        let is_harmless = never_stood || is_ended && answering.asking.may_be_repeated();
        if !is_harmless {
            return Err(failure);
        }
        if was_kept && !answering.was_repeated {
            answering.was_repeated = true;
            turn.shared.applications.close(upstream);
            answering.stage = Stage::Collecting;
            turn.shared.counters.upstream_retries += u64::from(is_proxied);
            let application = answering.asking.asked.application.clone();
            return match self.ask(&application, answering, false, turn) {
                Ok(()) => Ok(()),
                Err(_) => Err(failure),
            };
        }
        if !is_proxied || !answering.has_another() {
            return Err(failure);
        }
        note_failure(&failure, answering, turn);
        turn.shared.applications.close(upstream);
        answering.stage = Stage::Collecting;
        self.ask_any(answering, false, turn)
    }
}

impl Answering {
    /// There is an address that was not asked in vain, beside the present one.
    fn has_another(&self) -> bool {
        let application = &self.asking.asked.application;
        let tried = (self.tried | 1 << self.at).count_ones() as usize;
        application.proxy.is_some() && tried < application.addresses.len()
    }
}

/// Another is asked instead of the one that has failed, which is told and left alone for a while.
fn note_failure<T: Transport>(
    failure: &Failure,
    answering: &mut Answering,
    turn: &mut Turn<'_, T>,
) {
    answering.tried |= 1 << answering.at;
    turn.shared.counters.upstream_retries += 1;
    let applications = &mut turn.shared.applications;
    if let Some(proxy) = &answering.asking.asked.application.proxy
        && failure.is_theirs()
    {
        applications.rest(answering.address(), proxy.fail_time, turn.now);
    }
    tell(applications, answering, failure, turn.now);
}
