//! The loop of `exos run`: the program's calls, its sockets, and its end.

use std::hash::RandomState;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::task::{Context, Poll as Ready, Waker};
use std::time::{Duration, Instant};

use exos::net::{Events, Interest, Net, Poll, Token, Trigger};
use exos::{Error, Role};
use exos_host::children::end_with_us;
use exos_host::intercept::{self, Call, Calls};
use exos_host::limits::raise_descriptors;
use exos_program::Needs;
use rustix::event::PollFlags;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::set_current_timer_slack;

use crate::calls::{Answer, BECOMING, REFUSED, TOLD, number};
use crate::check::{check, look_at};
use crate::counters::CallCounters;
use crate::flow::{Flow, Goes, cut, is_hung_up, ready};
use crate::limits::{CALLS_AT_ONCE, GOODBYE_TIME, PIECE};
use crate::options::RunArgs;
use crate::sharing::{SHARED, Sharing};
use crate::signals::{Signals, take};
use crate::sockets::{Kind, Sockets};
use crate::target::Descriptor;

const CALLS: Token = Token(usize::MAX);
const CHILD: Token = Token(usize::MAX - 1);
const ASKED: Token = Token(usize::MAX - 2);
const REPORT: Token = Token(usize::MAX - 3);

/// Runs the program until it, and all that it has started, has ended.
///
/// # Errors
///
/// The link cannot be made, or the program not be started.
pub fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    if let Some(program) = &args.check {
        return check(program);
    }
    let shares = match look_at(&args.command[0]) {
        Ok(finding) => args.shares(&finding)?,
        Err(refusal) => return Ok(refusal.tell()),
    };
    let attachment = args
        .link
        .attachment(&Needs::new(Role::Connect(Vec::new())))?;
    let net = Net::attach(attachment)?;
    let signals = Signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    // Without us it would have sockets that nobody is at the other end of.
    end_with_us(&mut command);
    let sharing = match shares {
        true => Some(Sharing::new(&mut command)?),
        false => None,
    };
    let told: Vec<_> = match sharing {
        None => TOLD.to_vec(),
        Some(_) => [&TOLD[..], &BECOMING].concat(),
    };
    let (child, calls) = intercept::spawn(&mut command, &told, &REFUSED)?;
    // Each of its sockets is a descriptor of ours.
    raise_descriptors()?;
    // A pause is to be as long as it is meant to be; the kernel adds 50 µs otherwise.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let supervisor = Supervisor::new(net, calls, args.trace, sharing);
    let status = supervisor.and_then(|mut supervisor| supervisor.run(child, &signals));
    let status = status.map_err(|e| Error::io("cannot go on with the program", e))?;
    Ok(exit_code(status))
}

/// The program's, as a shell says it.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}

/// A program that runs.
pub(crate) struct Supervisor {
    pub net: Net,
    pub calls: Calls,
    pub sockets: Sockets,
    pub poll: Poll,
    trace: bool,
    pub counters: CallCounters,
    /// Sockets that are shared with programs, where any may be.
    pub sharing: Option<Sharing>,
    /// Through which bytes pass.
    buffer: Box<[u8]>,
    /// From which ports are drawn.
    pub random: RandomState,
    pub ports_drawn: u64,
}

impl Supervisor {
    fn new(net: Net, calls: Calls, trace: bool, sharing: Option<Sharing>) -> io::Result<Self> {
        let poll = Poll::new(&net)?;
        if let Some(sharing) = &sharing {
            sharing.hear(&poll)?;
            sharing.name_interface(&net.with(|exos| exos.link().name().to_owned()))?;
        }
        poll.register_fd(calls.as_fd(), CALLS, Interest::READABLE, Trigger::Level)?;
        Ok(Self {
            net,
            calls,
            sockets: Sockets::default(),
            poll,
            trace,
            counters: CallCounters::default(),
            sharing,
            buffer: vec![0; PIECE].into_boxed_slice(),
            random: RandomState::new(),
            ports_drawn: 0,
        })
    }

    /// Until the program has ended, and what it has started, and until what they wrote last is delivered.
    fn run(&mut self, mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
        let mut ended = None;
        // When nobody is left to wait for.
        let mut over: Option<Instant> = None;
        let child_fd = self.poll.register_child(&child, CHILD)?;
        for (requests, token) in [(&signals.to_end, ASKED), (&signals.to_report, REPORT)] {
            let (fd, readable) = (requests.as_fd(), Interest::READABLE);
            self.poll.register_fd(fd, token, readable, Trigger::Level)?;
        }
        for call in self.calls.take_first() {
            self.take_call(&call);
        }
        let mut events = Events::default();
        loop {
            self.share();
            let left = over.map(|end| end.saturating_duration_since(Instant::now()));
            let is_idle = || self.sockets.all.is_empty() && !self.has_shared();
            if left == Some(Duration::ZERO) || (over.is_some() && is_idle()) {
                let status = ended.map_or_else(|| child.wait(), Ok)?;
                self.sockets = Sockets::default();
                self.sharing = None;
                self.net.close(left.unwrap_or_default())?;
                return Ok(status);
            }
            let left = self.before_waiting(left)?;
            self.poll.wait(&mut events, left)?;
            self.wakes_up(!events.is_empty());
            for event in events.iter() {
                match event.token {
                    CALLS if self.has_nobody()? => {
                        self.poll.deregister_fd(self.calls.as_fd())?;
                        over = Some(Instant::now() + GOODBYE_TIME);
                        // Of some the end was told before all that they had written was taken.
                        let all: Vec<usize> = self.sockets.all.iter().map(|(key, _)| key).collect();
                        all.into_iter().for_each(|key| self.turn(key));
                    }
                    CALLS => self.take_calls()?,
                    CHILD => {
                        ended = child.try_wait()?;
                        if ended.is_some() {
                            self.poll.deregister_fd(child_fd.as_fd())?;
                        }
                    }
                    ASKED => {
                        take(&signals.to_end);
                        let pid = Pid::from_child(&child);
                        match ended {
                            None => drop(kill_process(pid, Signal::TERM)),
                            // Those that it has left behind go on without us.
                            Some(_) => over = Some(Instant::now()),
                        }
                    }
                    REPORT => {
                        take(&signals.to_report);
                        self.tell_counters();
                    }
                    Token(token) if token >= SHARED => self.turn_of_sharing(token)?,
                    // It may have been removed by an event before.
                    Token(token) if self.sockets.all.contains(token / 2) => self.turn(token / 2),
                    Token(_) => {}
                }
            }
        }
    }

    /// No process is left whose calls are told.
    fn has_nobody(&self) -> io::Result<bool> {
        let ready = ready(&self.calls, PollFlags::IN)?;
        Ok(ready.contains(PollFlags::HUP) && !ready.contains(PollFlags::IN))
    }

    /// Answers calls; more come with the next turn, so that packets are not kept waiting.
    fn take_calls(&mut self) -> io::Result<()> {
        for _ in 0..CALLS_AT_ONCE {
            if !ready(&self.calls, PollFlags::IN)?.contains(PollFlags::IN) {
                return Ok(());
            }
            if let Some(call) = self.calls.next()? {
                self.take_call(&call);
            }
        }
        Ok(())
    }

    fn take_call(&mut self, call: &Call) {
        match self.answer(call) {
            Ok(Answer::Pass) => {
                self.counters.passed += 1;
                self.calls.let_pass(call);
                return;
            }
            Ok(Answer::Value(value)) => self.respond(call, Ok(value)),
            Ok(Answer::Later) => {}
            Err(error) => self.respond(call, Err(error)),
        }
        self.counters.answered += 1;
    }

    pub fn respond(&self, call: &Call, result: io::Result<i64>) {
        self.trace(call, &result);
        self.calls
            .answer(call, result.map_err(|error| number(&error)));
    }

    /// A line as strace has it.
    pub fn trace(&self, call: &Call, result: &io::Result<i64>) {
        if !self.trace {
            return;
        }
        let name = match call.number {
            libc::SYS_bind => "bind",
            libc::SYS_listen => "listen",
            libc::SYS_connect => "connect",
            libc::SYS_accept | libc::SYS_accept4 => "accept",
            libc::SYS_getsockname => "getsockname",
            libc::SYS_getpeername => "getpeername",
            libc::SYS_getsockopt => "getsockopt",
            _ => "setsockopt",
        };
        let (thread, fd) = (call.thread, call.args[0]);
        match result {
            Ok(value) => exos_program::info!("[{thread}] {name}({fd}) = {value}"),
            Err(error) => {
                let error = io::Error::from_raw_os_error(number(error));
                exos_program::info!("[{thread}] {name}({fd}) = -1, {error}");
            }
        }
    }

    /// Has a socket's news come as events.
    pub fn wait_for(&mut self, key: usize) -> io::Result<()> {
        let socket = &self.sockets.all[key];
        let (of_net, of_program) = (Token(2 * key), Token(2 * key + 1));
        let (both, edge) = (Interest::BOTH, Trigger::Edge);
        self.poll
            .register_fd(socket.end.as_fd(), of_program, both, edge)?;
        match &socket.kind {
            Kind::Listening(l) => self.poll.register(&l.listener, of_net, both, edge),
            Kind::Connecting(c) => self.poll.register(&c.stream, of_net, both, edge),
            Kind::Flowing(flow) => self.poll.register(&flow.stream, of_net, both, edge),
            Kind::Datagrams(flow) => self.poll.register(&flow.socket, of_net, both, edge),
            Kind::Failed => Ok(()),
        }
    }

    /// Goes on with a socket, until its program has closed it.
    pub fn turn(&mut self, key: usize) {
        match self.sockets.all[key].kind {
            Kind::Listening(_) => self.turn_of_listener(key),
            Kind::Connecting(_) => self.turn_of_attempt(key),
            Kind::Flowing(_) | Kind::Datagrams(_) | Kind::Failed => {}
        }
        let socket = &mut self.sockets.all[key];
        let closed = match &mut socket.kind {
            Kind::Flowing(flow) => {
                let goes = flow.turn(&socket.end, &mut self.buffer);
                socket.error = socket.error.take().or(flow.error.take());
                goes.is_ok_and(|goes| goes == Goes::Closed)
            }
            Kind::Datagrams(flow) => {
                let goes = flow.turn(&socket.end, &mut self.buffer);
                socket.error = flow.error.take().or(socket.error.take());
                goes.is_ok_and(|goes| goes == Goes::Closed)
            }
            _ => is_hung_up(&socket.end).unwrap_or(false),
        };
        if closed {
            let (waiting, number) = self.sockets.remove(key);
            for call in waiting {
                self.respond(&call, Err(io::Error::from_raw_os_error(number)));
            }
        }
    }

    /// Takes connections that were made, as many as the program wants to wait.
    pub fn take_made(&mut self, key: usize) {
        let socket = &mut self.sockets.all[key];
        let Kind::Listening(listening) = &mut socket.kind else {
            return;
        };
        let had_none = listening.made.is_empty();
        while listening.made.len() < listening.backlog
            && let Ok((stream, peer)) = listening.listener.accept()
        {
            // It cannot fail.
            let _ = stream.set_nonblocking(true);
            listening.made.push_back((Flow::new(stream), peer));
        }
        if had_none && !listening.made.is_empty() {
            socket.say_readable();
        }
    }

    /// Takes the connections that were made, and gives them to the calls that wait.
    fn turn_of_listener(&mut self, key: usize) {
        self.take_made(key);
        while let Kind::Listening(listening) = &mut self.sockets.all[key].kind
            && !listening.made.is_empty()
            && let Some(call) = listening.waiting.pop_front()
        {
            // One that was interrupted meanwhile leaves the connection to the next.
            if !self.calls.waits(&call) {
                continue;
            }
            let descriptor = Descriptor::of(&call, call.args[0] as i32);
            let given = descriptor.and_then(|descriptor| self.give(&call, key, &descriptor));
            if let Err(error) = given {
                self.respond(&call, Err(error));
            }
        }
    }

    /// Sees whether a connection that is being opened stands.
    fn turn_of_attempt(&mut self, key: usize) {
        let socket = &mut self.sockets.all[key];
        let Kind::Connecting(connecting) = &mut socket.kind else {
            return;
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Ready::Ready(opened) = connecting.stream.poll_opened(&mut cx) else {
            return;
        };
        drain(&socket.end, connecting.filled);
        let mut waiting = std::mem::take(&mut connecting.waiting);
        waiting.retain(|call| self.calls.waits(call));
        let Kind::Connecting(connecting) = std::mem::replace(&mut socket.kind, Kind::Failed) else {
            unreachable!("it was just looked at");
        };
        let result = match opened {
            Ok(()) => {
                socket.kind = Kind::Flowing(Flow::new(connecting.stream));
                Ok(0)
            }
            Err(error) => {
                let number = number(&error);
                if waiting.is_empty() {
                    socket.error = Some(error);
                }
                cut(&socket.end);
                Err(number)
            }
        };
        for call in waiting {
            self.respond(&call, result.map_err(io::Error::from_raw_os_error));
        }
    }
}

/// Takes out what a socket was filled with.
fn drain(end: &OwnedFd, mut count: usize) {
    let mut bytes = vec![0; PIECE.min(count)];
    while count > 0 {
        let wanted = bytes.len().min(count);
        match recv(end, &mut bytes[..wanted], RecvFlags::DONTWAIT) {
            Ok((taken @ 1.., _)) => count -= taken,
            _ => return,
        }
    }
}
