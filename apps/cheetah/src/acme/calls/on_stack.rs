//! A call by the stack of a loop: what the loop has of it, and does in each turn.
//!
//! | what | then |
//! |---|---|
//! | a call waits at the [`Desk`] | connections to its addresses are opened, one after the other (RFC 8305), in [`Caller::turn`] |
//! | one of them stands | the others are reset, and the [`Exchange`] begins on it |
//! | the answer is whole, or there will be none | who waits is told; our side ends, and what is left a moment later is reset |
//!
//! Connections of the server's clients and of calls have their news in one queue of the stack: calls' are told by [`TOKEN`], and come
//! here by [`Caller::news`].

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use exos::Exos;
use exos::names::{Connector, Family};
use exos::via::GrantId;
use exos_buf::Buffer;
use exos_inet::Instant;
use exos_inet::tcp::{ConnectionId, Event, EventSet, Options, Reason};

use super::desk::{Desk, Job};
use super::exchange::Exchange;
use super::{Answered, CallError};
use crate::limits::{ACME_CONNECT_TIME, ACME_GOODBYE_TIME, ACME_READ_LEN, ACME_REQUEST_TIME};

/// The word of the stack's for connections of calls. Those of clients have none.
pub(crate) const TOKEN: u64 = u64::MAX;

/// Makes the calls of a loop.
pub(crate) struct Caller {
    desk: Arc<Desk>,
    current: Option<Current>,
    /// Connections that are not needed any more, and when they are reset.
    ending: Vec<(Opened, Instant)>,
    /// What the stack has told of any of them.
    news: Vec<Event>,
}

/// A connection, and what a daemon lends for it.
#[derive(Clone, Copy)]
struct Opened {
    id: ConnectionId,
    to: SocketAddr,
    grant: Option<GrantId>,
}

/// A call under way.
struct Current {
    job: Job,
    port: u16,
    connector: Connector,
    attempts: Vec<Opened>,
    talk: Option<(Opened, Exchange)>,
    /// Why the last address was not reached.
    failure: String,
    until: Instant,
}

impl Caller {
    /// For calls that are asked at a desk.
    pub(crate) fn new(desk: Arc<Desk>) -> Caller {
        Caller {
            desk,
            current: None,
            ending: Vec::new(),
            news: Vec::new(),
        }
    }

    /// Where news of connections of [`TOKEN`] go.
    pub(crate) fn news(&mut self) -> &mut Vec<Event> {
        &mut self.news
    }

    /// Readable when there may be a call.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.desk.fd()
    }

    /// When to take a turn at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let current = self.current.iter();
        let current =
            current.flat_map(|it| it.connector.poll_timeout().into_iter().chain([it.until]));
        current
            .chain(self.ending.iter().map(|(_, until)| *until))
            .min()
    }

    /// Does what there is to do, behind what the stack has told.
    pub(crate) fn turn(&mut self, exos: &mut Exos) {
        if self.current.is_none()
            && let Some(job) = self.desk.take()
        {
            self.current = Some(Current::new(job, exos.now()));
        }
        if self.current.is_none() && self.ending.is_empty() {
            return;
        }
        for event in std::mem::take(&mut self.news) {
            self.handle_event(exos, event);
        }
        self.go_on(exos);
        let now = exos.now();
        for (late, _) in self.ending.extract_if(.., |(_, until)| *until <= now) {
            exos.stack.tcp.abort(late.id);
            give_back(exos, late);
        }
    }

    /// No calls are made any more.
    pub(crate) fn end(&mut self, exos: &mut Exos) {
        self.desk.close("this server ends");
        if let Some(current) = self.current.take() {
            self.finish(
                exos,
                current,
                Err(CallError::Unreached("this server ends".to_owned())),
            );
        }
        for (opened, _) in self.ending.drain(..) {
            exos.stack.tcp.abort(opened.id);
        }
    }

    fn handle_event(&mut self, exos: &mut Exos, event: Event) {
        let is_over = event.set.contains(EventSet::CLOSED);
        let of_it = |(opened, _): &mut (Opened, Instant)| is_over && opened.id == event.connection;
        for (ended, _) in self.ending.extract_if(.., of_it) {
            give_back(exos, ended);
        }
        let Some(mut current) = self.current.take() else {
            return;
        };
        match current.handle_event(exos, event) {
            Some(made) => self.finish(exos, current, made),
            None => self.current = Some(current),
        }
    }

    /// Opens what is due, and gives up what is late.
    fn go_on(&mut self, exos: &mut Exos) {
        let Some(mut current) = self.current.take() else {
            return;
        };
        match current.go_on(exos) {
            Some(made) => self.finish(exos, current, made),
            None => self.current = Some(current),
        }
    }

    /// A call has come to its end: who waits is told.
    fn finish(&mut self, exos: &mut Exos, current: Current, made: Result<Answered, CallError>) {
        let until = exos.now() + ACME_GOODBYE_TIME;
        for opened in current.attempts {
            exos.stack.tcp.abort(opened.id);
            give_back(exos, opened);
        }
        if let Some((opened, _)) = current.talk {
            exos.stack.tcp.finish(opened.id);
            self.ending.push((opened, until));
        }
        // Who waits may have given up.
        let _ = current.job.reply.send(made);
    }
}

impl Current {
    fn new(job: Job, now: Instant) -> Current {
        let mut connector = Connector::new(None);
        for family in [Family::Ipv6, Family::Ipv4] {
            let all = job.addresses.iter().copied();
            let of_family: Vec<_> = all.filter(|ip| Family::of(*ip) == family).collect();
            connector.handle_family(now, family, &of_family);
        }
        let proxy = job.call.proxy.as_ref();
        Current {
            port: proxy.map_or(job.call.port, |proxy| proxy.port),
            connector,
            attempts: Vec::new(),
            talk: None,
            failure: "no address was reached in time".to_owned(),
            until: now + ACME_CONNECT_TIME,
            job,
        }
    }

    /// News of one of its connections: what the call has come to, if it has.
    fn handle_event(
        &mut self,
        exos: &mut Exos,
        event: Event,
    ) -> Option<Result<Answered, CallError>> {
        if let Some(at) = self
            .attempts
            .iter()
            .position(|it| it.id == event.connection)
        {
            let opened = self.attempts[at];
            if event.set.contains(EventSet::CLOSED) {
                self.attempts.swap_remove(at);
                give_back(exos, opened);
                self.failure = format!("{} {}", opened.to, failure(event.reason));
                self.connector.handle_failed(exos.now(), opened.to.ip());
                return None;
            }
            if event.set.contains(EventSet::CONNECTED) {
                self.attempts.swap_remove(at);
                self.connector.handle_connected(opened.to.ip());
                if let Err(error) = self.begin(exos, opened) {
                    return Some(Err(error));
                }
            }
        }
        self.hear(exos, event)
    }

    /// A connection stands.
    fn begin(&mut self, exos: &mut Exos, opened: Opened) -> Result<(), CallError> {
        for other in self.attempts.drain(..) {
            exos.stack.tcp.abort(other.id);
            give_back(exos, other);
        }
        self.until = exos.now() + ACME_REQUEST_TIME;
        let mut out = Vec::new();
        match Exchange::begin(self.job.call.clone(), &mut out) {
            Ok(begun) => {
                exos.stack.tcp.send(opened.id, Buffer::from(out).whole());
                self.talk = Some((opened, begun));
                Ok(())
            }
            Err(error) => {
                exos.stack.tcp.abort(opened.id);
                give_back(exos, opened);
                Err(error)
            }
        }
    }

    /// Takes what has come on the connection that stands.
    fn hear(&mut self, exos: &mut Exos, event: Event) -> Option<Result<Answered, CallError>> {
        let (opened, exchange) = self.talk.as_mut()?;
        if opened.id != event.connection {
            return None;
        }
        let tcp = &mut exos.stack.tcp;
        let mut out = Vec::new();
        let received = exchange.receive(tcp.readable(opened.id), &mut out);
        if !out.is_empty() {
            tcp.send(opened.id, Buffer::from(out).whole());
        }
        match received {
            Ok(taken) => tcp.consume(opened.id, taken),
            Err(error) => return Some(Err(error)),
        }
        if let Some(answered) = exchange.take_answer() {
            return Some(Ok(answered));
        }
        let is_over =
            event.set.contains(EventSet::CLOSED) || event.set.contains(EventSet::FINISHED);
        let how = match event.set.contains(EventSet::CLOSED) {
            true => failure(event.reason),
            false => failure(Reason::Done),
        };
        let end = is_over.then(|| exchange.end(how));
        end.and_then(Result::err).map(Err)
    }

    /// Opens connections that are due; what the call has come to, if it has.
    fn go_on(&mut self, exos: &mut Exos) -> Option<Result<Answered, CallError>> {
        let now = exos.now();
        if self.talk.is_some() {
            let late = CallError::Failed("it has not answered in time".to_owned());
            return (now >= self.until).then_some(Err(late));
        }
        while let Some(ip) = self.connector.poll_attempt(now) {
            let to = SocketAddr::new(ip, self.port);
            match open(exos, to) {
                Ok(opened) => self.attempts.push(opened),
                Err(why) => {
                    self.failure = format!("{to} cannot be reached: {why}");
                    self.connector.handle_failed(now, ip);
                }
            }
        }
        let has_failed = self.connector.has_failed() || now >= self.until;
        has_failed.then(|| Err(CallError::Unreached(self.failure.clone())))
    }
}

fn open(exos: &mut Exos, to: SocketAddr) -> Result<Opened, String> {
    let source = exos.source(to, None).map_err(|error| error.to_string())?;
    let lent = exos.via().filter(|_| source.is_some());
    let grant = lent.and_then(|via| via.grants().last().map(|(grant, _)| *grant));
    let options = Options::with_receive_buffer(ACME_READ_LEN as u32);
    let now = exos.now();
    let opened = exos.stack.tcp.connect(now, source, to, &options);
    match opened {
        Ok(id) => {
            exos.stack.tcp.set_token(id, TOKEN);
            Ok(Opened { id, to, grant })
        }
        Err(error) => {
            if let (Some(via), Some(grant)) = (exos.via(), grant) {
                let _ = via.release(grant);
            }
            Err(error.to_string())
        }
    }
}

/// The daemon may lend its port to others.
fn give_back(exos: &mut Exos, opened: Opened) {
    if let (Some(via), Some(grant)) = (exos.via(), opened.grant) {
        let _ = via.release(grant);
    }
}

fn failure(reason: Reason) -> &'static str {
    match reason {
        Reason::Refused => "refuses the connection",
        Reason::TimedOut => "does not answer",
        Reason::Unreachable => "cannot be reached",
        Reason::Done => "has ended the connection",
        Reason::Reset => "has reset the connection",
        Reason::Aborted => "was left",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use exos_inet::{Config, Stack};
    use exos_link::{MemoryConfig, MemoryLink};
    use exos_tls::client::Trust;
    use exos_wire::Mac;

    use super::*;

    type Reply = Receiver<Result<Answered, CallError>>;

    /// A call that has begun on a wire at whose other end nobody is.
    fn begun() -> (Caller, Exos, MemoryLink, Reply) {
        let macs = [Mac([2; 6]), Mac([4; 6])];
        let [link, other] = MemoryLink::pair(macs, MemoryConfig::default());
        let mut config = Config::new(macs[0], link.mtu());
        config.addresses = vec![([10, 0, 0, 1].into(), 24)];
        let stack = Stack::new(config, 1, exos::clock::now()).unwrap();
        let mut exos = Exos::new(stack, link.into());
        let (reply, answer) = sync_channel(1);
        let job = Job {
            call: super::super::tests::call(&Trust::Anybody),
            addresses: vec![[10, 0, 0, 2].into()],
            reply,
        };
        let mut caller = Caller::new(Arc::new(Desk::new().unwrap()));
        caller.current = Some(Current::new(job, exos.now()));
        caller.turn(&mut exos);
        (caller, exos, other, answer)
    }

    fn until(caller: &mut Caller) -> &mut Instant {
        &mut caller.current.as_mut().unwrap().until
    }

    #[test]
    fn an_authority_that_is_not_reached_is_given_up_in_time() {
        let (mut caller, mut exos, _other, answer) = begun();
        assert!(answer.try_recv().is_err(), "there is time yet");
        let late = *until(&mut caller);
        assert!(late <= exos.now() + ACME_CONNECT_TIME);
        assert!(caller.poll_timeout().unwrap() <= late);
        *until(&mut caller) = exos.now();
        caller.turn(&mut exos);
        let made = answer.try_recv().unwrap();
        assert!(matches!(made, Err(CallError::Unreached(_))), "{made:?}");
        assert!(caller.current.is_none() && caller.ending.is_empty());
    }

    /// One that takes the connection and says nothing.
    #[test]
    fn an_answer_has_its_time() {
        let (mut caller, mut exos, _other, answer) = begun();
        let current = caller.current.as_mut().unwrap();
        let opened = current.attempts.pop().unwrap();
        current.begin(&mut exos, opened).unwrap();
        caller.turn(&mut exos);
        let late = *until(&mut caller);
        assert!(late > exos.now() + ACME_CONNECT_TIME && late <= exos.now() + ACME_REQUEST_TIME);
        *until(&mut caller) = exos.now();
        caller.turn(&mut exos);
        let made = answer.try_recv().unwrap();
        assert!(matches!(made, Err(CallError::Failed(_))), "{made:?}");
        // What is left of the connection is reset a moment later.
        assert!(caller.poll_timeout().unwrap() <= exos.now() + ACME_GOODBYE_TIME);
        caller.ending[0].1 = exos.now();
        caller.turn(&mut exos);
        assert!(caller.ending.is_empty());
    }
}
