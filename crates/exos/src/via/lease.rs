//! Our part of an interface, as long as the daemon lends it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use exos_host::error::{Error, ErrorKind};
use exos_inet::{Instant, Stack};
use exos_link::{Facts, XdpLink};
use exos_xok::message::Mode;
use exos_xok::message::{
    Answer, Farewell, GrantId, InterfaceInfo, LocalAddress, Notice, PortWish, Refusal, Request,
    Secret, VERSION,
};
use exos_xok::{Claim, Endpoint, Protocol};

use crate::limits::{
    ANSWER_TIME, BEGINNING_TIME, GREETING_TIME, LOOK_EVERY, MESSAGES_AT_ONCE, NEIGHBOUR_SLEEP,
    RETRY_EVERY,
};
use crate::via::bypass;
use crate::via::control::{self, AskError, Control, Heard};
use crate::via::ending::Ending;
use crate::via::news::{Lost, News};
use crate::via::shared::Shared;

/// Whether the daemon is there.
#[derive(Debug)]
pub(super) enum State {
    There(Control),
    /// Found again: greeted, and its answer is waited for until then.
    Greeting(Control, Instant),
    /// Gone; to be looked for at that time.
    Away(Instant),
    /// Nothing is ours any more.
    Over,
}

/// A part of an interface, lent by the daemon.
#[derive(Debug)]
pub struct Via {
    pub(super) path: PathBuf,
    pub(super) state: State,
    pub(super) interface: InterfaceInfo,
    /// Those of the interface's addresses that our stack has.
    pub(super) addresses: Vec<LocalAddress>,
    pub(super) slot: u32,
    pub(super) direct: bool,
    pub(super) token: Secret,
    pub(super) grants: Vec<(GrantId, Claim)>,
    /// Which of them are held together with other programs.
    pub(super) divided: Vec<GrantId>,
    /// For which grants a successor is awaited when we go, and how long, in milliseconds.
    pub(super) promised: Vec<(GrantId, u32)>,
    pub(super) shared: Shared,
    pub(super) news: VecDeque<News>,
    pub(super) ending: Vec<Ending>,
    /// When the daemon was last listened to.
    pub(super) looked: Instant,
}

impl Via {
    /// Asks the daemon at `path` for a link on an interface, the only one it serves when `None`.
    ///
    /// # Errors
    ///
    /// There is no daemon, or it refuses; with what to do about it.
    pub fn open(
        path: &Path,
        interface: Option<&str>,
        mode: Mode,
        program: &str,
    ) -> Result<(Self, XdpLink), Error> {
        let mut control = Control::connect(path)?;
        control.set_patience(BEGINNING_TIME);
        let hello = Request::Hello { version: VERSION };
        let (answer, fds) = control.ask(&hello)?;
        let Answer::Welcome { interfaces, .. } = answer else {
            return Err(control::bad("no welcome"));
        };
        let mut shared = Shared::map(fds)?;
        let attach = Request::Attach {
            interface: interface.unwrap_or_default().to_owned(),
            mode,
            chunks: 0,
            program: program.to_owned(),
        };
        let (answer, fds) = control.ask_while_busy(&attach)?;
        let Answer::Attached {
            slot, token, facts, ..
        } = answer
        else {
            return Err(control::bad("no link"));
        };
        let interface = interfaces.into_iter().find(|i| i.index == facts.interface);
        let interface = interface.ok_or_else(|| control::bad("a link of an unknown interface"))?;
        shared.select(interface.index);
        let mut link = XdpLink::adopt(&interface.name, &Facts::from_bytes(&facts.link), fds)?;
        if !facts.direct {
            bypass::ask(&mut control, &mut link)?;
        }
        let via = Self {
            path: path.to_owned(),
            state: State::There(control),
            addresses: interface.addresses.clone(),
            interface,
            slot,
            direct: facts.direct,
            token,
            grants: Vec::new(),
            divided: Vec::new(),
            promised: Vec::new(),
            shared,
            news: VecDeque::new(),
            ending: Vec::new(),
            looked: Instant::START,
        };
        Ok((via, link))
    }

    /// The interface that a part is lent of.
    pub fn interface(&self) -> &InterfaceInfo {
        &self.interface
    }

    /// The slot's number, as others see it.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// What the slot is known by.
    pub(crate) fn token(&self) -> Secret {
        self.token
    }

    /// True for a queue of the interface itself: nobody checks what is sent, and the host and programs of this machine
    /// cannot be reached by it.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// What is ours: which packets come, and from where we may send.
    pub fn grants(&self) -> &[(GrantId, Claim)] {
        &self.grants
    }

    /// Claims a port of an address, for one connection or for all.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there.
    pub fn claim(
        &mut self,
        protocol: Protocol,
        local: IpAddr,
        port: PortWish,
        remote: Option<SocketAddr>,
    ) -> Result<(GrantId, Claim), AskError> {
        let request = Request::Claim {
            protocol,
            local: Some(local),
            port,
            remote: remote.map(Endpoint::from),
        };
        self.ask_for_grant(&request)
    }

    pub(super) fn ask_for_grant(
        &mut self,
        request: &Request,
    ) -> Result<(GrantId, Claim), AskError> {
        match self.ask(request)? {
            Answer::Granted { grant, claim } => {
                self.grants.push((grant, claim));
                Ok((grant, claim))
            }
            _ => Err(AskError::Failed(control::bad("no grant"))),
        }
    }

    /// Claims all packets that a filter matches and nobody's exact grant covers, as policy allows (`filters`). They
    /// come as they are: the stack knows only those of its own addresses and ports. Waits while the programs of our user
    /// have asked for too many.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there.
    pub fn claim_filter(&mut self, filter: &str) -> Result<GrantId, AskError> {
        let filter = filter.to_owned();
        let (answer, _) = self
            .control()?
            .ask_while_busy(&Request::ClaimFilter { filter })?;
        match answer {
            Answer::GrantedFilter { grant } => Ok(grant),
            _ => Err(AskError::Failed(control::bad("no grant"))),
        }
    }

    /// A port of ours for a connection to `to`, which no other program gets: by the first of our addresses from which policy
    /// lets us connect.
    pub fn claim_ephemeral(&mut self, to: SocketAddr) -> Result<SocketAddr, Error> {
        self.claim_towards(Protocol::Tcp, to)
    }

    /// A port of ours for datagrams to and from `to`, as [`claim_ephemeral`](Self::claim_ephemeral) gives one for a connection.
    ///
    /// # Errors
    ///
    /// The daemon refuses, or is not there.
    pub fn claim_datagrams(&mut self, to: SocketAddr) -> Result<SocketAddr, Error> {
        self.claim_towards(Protocol::Udp, to)
    }

    fn claim_towards(&mut self, protocol: Protocol, to: SocketAddr) -> Result<SocketAddr, Error> {
        let family = |ip: &IpAddr| ip.is_ipv4() == to.is_ipv4();
        let ours = self.addresses.iter().map(|a| a.ip);
        let ours: Vec<IpAddr> = ours.filter(family).collect();
        let mut refusal = None;
        for ip in ours {
            match self.claim(protocol, ip, PortWish::Ephemeral, Some(to)) {
                Ok((_, claim)) => return Ok(SocketAddr::new(claim.local, claim.port)),
                Err(AskError::Refused(Refusal::NotAllowed, text)) => {
                    refusal.get_or_insert(AskError::Refused(Refusal::NotAllowed, text));
                }
                Err(e) => return Err(e.into()),
            }
        }
        let name = &self.interface.name;
        Err(refusal.map_or_else(
            || {
                Error::new(format!("{name} has no address to connect to {to} from"))
                    .of_kind(ErrorKind::NoAddress)
            },
            Error::from,
        ))
    }

    /// Gives a grant back.
    pub fn release(&mut self, grant: GrantId) -> Result<(), Error> {
        self.ask(&Request::Release { grant })?;
        self.grants.retain(|(id, _)| *id != grant);
        self.divided.retain(|id| *id != grant);
        self.promised.retain(|(id, _)| *id != grant);
        Ok(())
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, AskError> {
        self.control()?.ask(request).map(|(answer, _)| answer)
    }

    pub(super) fn control(&mut self) -> Result<&mut Control, AskError> {
        match &mut self.state {
            State::There(control) => Ok(control),
            _ => Err(AskError::Failed(
                Error::new("the daemon is not there now")
                    .mend("start it again")
                    .of_kind(ErrorKind::DaemonFails),
            )),
        }
    }

    /// What has happened since the last call, the oldest first.
    pub fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Readable when the daemon has said something.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::There(control) | State::Greeting(control, _) => Some(control.as_fd()),
            State::Away(_) | State::Over => None,
        }
    }

    /// When to call [`serve`](Self::serve) at the latest.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let daemon = match &self.state {
            State::Away(until) | State::Greeting(_, until) => Some(*until),
            State::There(_) | State::Over => None,
        };
        let awaited = self.shared.is_awaiting().then_some(now + NEIGHBOUR_SLEEP);
        let ending = self.next_ending();
        [daemon, awaited, ending].into_iter().flatten().min()
    }

    /// Answers what the stack asks, passes on what has changed, and keeps the daemon in touch.
    pub(crate) fn serve(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(ip) = stack.poll_unresolved() {
            if !self.shared.resolve(now, ip, stack)
                && let State::There(control) = &mut self.state
            {
                // What cannot be sent now is asked for again by the stack.
                let _ = control.send(&Request::Resolve { ip });
            }
        }
        if now - self.looked < LOOK_EVERY {
            return;
        }
        self.looked = now;
        self.shared.serve(now, stack);
        self.listen(now);
        self.give_back(now, stack);
    }

    /// Hears what the daemon says, or looks for it.
    pub(super) fn listen(&mut self, now: Instant) {
        if let State::Away(at) = self.state
            && at <= now
        {
            self.state = match self.greet(now) {
                Some(greeting) => greeting,
                None => State::Away(now + RETRY_EVERY),
            };
        }
        if let State::There(control) = &mut self.state {
            // What it begins with has been asked for.
            control.set_patience(ANSWER_TIME);
        }
        for _ in 0..MESSAGES_AT_ONCE {
            let heard = match &mut self.state {
                State::There(control) => control.receive(),
                State::Greeting(_, until) if *until <= now => Ok(Heard::Closed),
                State::Greeting(control, _) => control.receive(),
                State::Away(_) | State::Over => return,
            };
            match heard {
                Ok(Heard::Nothing) => return,
                Ok(Heard::Notice(notice)) => self.handle_notice(now, notice),
                Ok(Heard::Answer(_, answer, fds)) => self.handle_answer(answer, fds),
                Ok(Heard::Closed) | Err(_) => self.lose(now),
            }
        }
    }

    /// The greeting of a daemon that listens again: who we are and which slot is ours.
    pub(super) fn greet(&mut self, now: Instant) -> Option<State> {
        let mut control = Control::connect_now(&self.path).ok()?;
        let token = self.token;
        control.send(&Request::Hello { version: VERSION }).ok()?;
        control.send(&Request::Reattach { token }).ok()?;
        Some(State::Greeting(control, now + GREETING_TIME))
    }

    pub(super) fn lose(&mut self, now: Instant) {
        if matches!(self.state, State::There(_)) {
            self.news.push_back(News::Away);
        }
        self.state = State::Away(now + RETRY_EVERY);
    }

    pub(super) fn handle_notice(&mut self, now: Instant, notice: Notice) {
        match notice {
            Notice::Revoke {
                what,
                deadline_ms,
                reason,
            } => {
                let within = Duration::from_millis(u64::from(deadline_ms));
                self.handle_revoke(now, what, within, reason);
            }
            Notice::Goodbye(Farewell::Stopping) => self.over("it stops"),
            Notice::Goodbye(Farewell::Revoked) => {
                self.over("its policy does not allow the link any more");
            }
            // These are followed by the end of the connection, and we look for the daemon again. One that is full has turned
            // away a connection by which we wanted to come back.
            Notice::Goodbye(Farewell::Restarting | Farewell::Full) => {}
            // The tables are looked at anyway.
            Notice::Changed { .. } => {}
        }
    }

    /// What comes unasked for: answers to a greeting, and to what nobody waited for.
    pub(super) fn handle_answer(&mut self, answer: Answer, fds: Vec<std::os::fd::OwnedFd>) {
        if !matches!(self.state, State::Greeting(..)) {
            return;
        }
        match answer {
            Answer::Welcome { .. } => {
                // Without tables the old ones stay, which nobody writes any more.
                if let Ok(tables) = Shared::map(fds) {
                    self.shared.replace(tables);
                }
            }
            Answer::Attached { grants, .. } => {
                self.grants = grants;
                let state = std::mem::replace(&mut self.state, State::Over);
                if let State::Greeting(control, _) = state {
                    self.state = State::There(control);
                    self.news.push_back(News::Back);
                }
            }
            Answer::Refused { text, .. } => self.over(&text),
            _ => {}
        }
    }

    /// Nothing is ours any more.
    pub(super) fn over(&mut self, reason: &str) {
        self.state = State::Over;
        self.news.push_back(News::Revoked {
            what: Lost::Link,
            within: Duration::ZERO,
            reason: reason.to_owned(),
        });
    }
}
