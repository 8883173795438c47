//! What can be wrong with an application: what its client is answered, and what the operator reads.

use exos_inet::Instant;
use exos_inet::tcp::Reason;
use rustix::io::Errno;

use super::Answering;
use crate::applications::Applications;
use crate::applications::pool::Refusal;
use crate::applications::proxy::answer::AnswerError;
use crate::applications::reply::ReplyError;
use crate::message::Status;

/// Why an application has given no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Refused(Refusal),
    Reply(ReplyError),
    /// It has closed the connection, or never had it.
    Ended(Reason),
    /// There is no session of TLS with it, for this reason.
    Session(String),
    /// It says nothing.
    Late,
    /// None of its connections was free in time: it was not asked.
    Waited,
}

impl Failure {
    pub(super) fn status(&self) -> Status {
        match self {
            Failure::Refused(Refusal::Busy) | Failure::Reply(ReplyError::Overloaded) => {
                Status::ServiceUnavailable
            }
            Failure::Refused(Refusal::Unsaid) => Status::BadRequest,
            Failure::Ended(Reason::TimedOut) | Failure::Late | Failure::Waited => {
                Status::GatewayTimeout
            }
            _ => Status::BadGateway,
        }
    }

    /// It is the upstream's, and no want of descriptors or places here.
    pub(super) fn is_theirs(&self) -> bool {
        use Errno as E;
        match self {
            Failure::Refused(Refusal::Busy | Refusal::Unsaid) | Failure::Waited => false,
            // Any client can ask a page for a tunnel.
            Failure::Reply(ReplyError::Answer(AnswerError::Unchanged)) => false,
            Failure::Refused(Refusal::Failed(errno)) => !matches!(
                *errno,
                E::AGAIN | E::MFILE | E::NFILE | E::NOBUFS | E::NOMEM | E::ADDRNOTAVAIL
            ),
            Failure::Reply(_) | Failure::Ended(_) | Failure::Session(_) | Failure::Late => true,
        }
    }

    /// What the operator reads.
    fn text(&self, answering: &Answering) -> String {
        let application = &answering.asking.asked.application;
        let is_unix = !answering.address().is_port();
        match self {
            Failure::Refused(Refusal::Busy) if application.proxy.is_some() => {
                "too many requests wait for it; give it more `connections`, or more upstreams".to_owned()
            }
            Failure::Refused(Refusal::Unsaid) => {
                "the request cannot be written again, and nothing was sent".to_owned()
            }
            Failure::Waited => {
                let secs = application.timeout.as_secs_f64();
                format!("a request waited {secs} s for one of its connections; give it more `connections`")
            }
            Failure::Late if answering.is_connecting => {
                "it does not answer a connection in time; see `connect_timeout`".to_owned()
            }
            Failure::Refused(Refusal::Busy) => {
                "too many requests wait for it; give it more processes, and more `connections`".to_owned()
            }
            Failure::Refused(Refusal::Failed(Errno::NOENT)) => {
                "there is no such socket; start the application, or correct its address".to_owned()
            }
            Failure::Refused(Refusal::Failed(Errno::CONNREFUSED)) | Failure::Ended(Reason::Refused) => {
                "nobody listens there; start the application, or correct its address".to_owned()
            }
            Failure::Refused(Refusal::Failed(Errno::ACCESS | Errno::PERM)) if is_unix => {
                "this server's user may not connect to it; see listen.owner and listen.mode of php-fpm".to_owned()
            }
            Failure::Refused(Refusal::Failed(errno)) => format!("cannot connect: {errno}"),
            Failure::Reply(error) => error.to_string(),
            Failure::Session(why) => why.clone(),
            Failure::Ended(Reason::Done | Reason::Reset) => {
                "it closed the connection before the end of its answer".to_owned()
            }
            Failure::Ended(reason) => format!("the connection to it is over: {reason:?}"),
            Failure::Late => {
                let secs = application.timeout.as_secs_f64();
                format!("it said nothing for {secs} s; see `timeout`")
            }
        }
    }
}

/// Tells the operator what is wrong with an application, not too often.
pub(super) fn tell(
    applications: &mut Applications,
    answering: &Answering,
    failure: &Failure,
    now: Instant,
) {
    let address = answering.address();
    if applications.may_tell(address, now) {
        let asked = &answering.asking.asked;
        let path = [&*asked.script, &*asked.info].concat();
        let (path, what) = (String::from_utf8_lossy(&path), failure.text(answering));
        exos_program::warn!(
            "exos serve: {address}, asked for {}: {what}",
            path.escape_debug()
        );
    }
}

/// Tells the operator what an application says, not too much.
pub(super) fn tell_warnings(
    answering: &mut Answering,
    applications: &mut Applications,
    now: Instant,
) {
    for line in answering.hearing.take_warnings() {
        let address = answering.address();
        if !applications.may_warn(address, now) {
            return;
        }
        exos_program::warn!("exos serve: {address} says: {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_application_has_a_status() {
        for (failure, status) in [
            (Failure::Refused(Refusal::Busy), Status::ServiceUnavailable),
            (
                Failure::Refused(Refusal::Failed(Errno::NOENT)),
                Status::BadGateway,
            ),
            (
                Failure::Reply(ReplyError::Overloaded),
                Status::ServiceUnavailable,
            ),
            (Failure::Reply(ReplyError::NoHead), Status::BadGateway),
            (Failure::Ended(Reason::Done), Status::BadGateway),
            (Failure::Ended(Reason::Refused), Status::BadGateway),
            (Failure::Ended(Reason::TimedOut), Status::GatewayTimeout),
            (Failure::Late, Status::GatewayTimeout),
            (Failure::Waited, Status::GatewayTimeout),
            (Failure::Refused(Refusal::Unsaid), Status::BadRequest),
        ] {
            assert_eq!(failure.status(), status, "{failure:?}");
        }
    }

    /// What is wanting here is not held against the upstream: others would be given its requests, and fail next.
    #[test]
    fn an_upstream_rests_for_its_own_failures_alone() {
        for (failure, is_theirs) in [
            (Failure::Refused(Refusal::Busy), false),
            (Failure::Refused(Refusal::Unsaid), false),
            (Failure::Waited, false),
            (
                Failure::Reply(ReplyError::Answer(AnswerError::Unchanged)),
                false,
            ),
            (
                Failure::Reply(ReplyError::Answer(AnswerError::Protocol)),
                true,
            ),
            (Failure::Refused(Refusal::Failed(Errno::MFILE)), false),
            (Failure::Refused(Refusal::Failed(Errno::AGAIN)), false),
            (Failure::Refused(Refusal::Failed(Errno::CONNREFUSED)), true),
            (Failure::Late, true),
            (Failure::Ended(Reason::Reset), true),
        ] {
            assert_eq!(failure.is_theirs(), is_theirs, "{failure:?}");
        }
    }
}
