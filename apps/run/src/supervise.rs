//! The loop of `exos run`: the program's calls, its sockets, and its end.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::task::{Context, Poll as Ready, Waker};

use exos::net::{Events, Interest, Net, Poll, Token, Trigger};
use exos::signals::Signals;
use exos::{Error, Role};
use exos_host::intercept::{self, Call, Calls};
use exos_program::Needs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::calls::{Answer, REFUSED, TOLD, number};
use crate::flow::{Flow, Goes, cut, is_hung_up};
use crate::limits::{GOODBYE_TIME, PIECE};
use crate::options::RunArgs;
use crate::sockets::{Kind, Sockets};
use crate::target::Descriptor;

const CALLS: Token = Token(usize::MAX);
const CHILD: Token = Token(usize::MAX - 1);
const SIGNALS: Token = Token(usize::MAX - 2);

/// Runs the program until it, and all that it has started, has ended.
///
/// # Errors
///
/// The link cannot be made, or the program not be started.
pub fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    let attachment = args
        .link
        .attachment(&Needs::new(Role::Connect(Vec::new())))?;
    let net = Net::attach(attachment)?;
    let signals = Signals::catch()?;
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let (child, calls) = intercept::spawn(&mut command, &TOLD, &REFUSED)?;
    let supervisor = Supervisor::new(net, calls, args.trace);
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
    poll: Poll,
    trace: bool,
}

impl Supervisor {
    fn new(net: Net, calls: Calls, trace: bool) -> io::Result<Self> {
        let poll = Poll::new(&net)?;
        poll.register_fd(calls.as_fd(), CALLS, Interest::READABLE, Trigger::Level)?;
        Ok(Self {
            net,
            calls,
            sockets: Sockets::default(),
            poll,
            trace,
        })
    }

    /// Until the program has ended, and what it has started.
    fn run(&mut self, mut child: Child, signals: &Signals) -> io::Result<ExitStatus> {
        let mut ended = None;
        let child_fd = self.poll.register_child(&child, CHILD)?;
        self.poll
            .register_fd(signals.fd(), SIGNALS, Interest::READABLE, Trigger::Level)?;
        let mut events = Events::default();
        loop {
            self.poll.wait(&mut events, None)?;
            for event in events.iter() {
                match event.token {
                    CALLS if self.has_nobody()? => {
                        let status = ended.map_or_else(|| child.wait(), Ok)?;
                        self.sockets = Sockets::default();
                        self.net.close(GOODBYE_TIME)?;
                        return Ok(status);
                    }
                    CALLS => self.take_calls()?,
                    CHILD => {
                        ended = child.try_wait()?;
                        if ended.is_some() {
                            self.poll.deregister_fd(child_fd.as_fd())?;
                        }
                    }
                    SIGNALS => {
                        let _ = signals.stop_requested();
                        let pid = rustix::process::Pid::from_child(&child);
                        if ended.is_none() {
                            let _ =
                                rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                        }
                    }
                    // It may have been removed by an event before.
                    Token(token) if self.sockets.all.contains(token / 2) => self.turn(token / 2),
                    Token(_) => {}
                }
            }
        }
    }

    /// No process is left whose calls are told.
    fn has_nobody(&self) -> io::Result<bool> {
        let revents = self.ready()?;
        Ok(revents.contains(PollFlags::HUP) && !revents.contains(PollFlags::IN))
    }

    fn ready(&self) -> io::Result<PollFlags> {
        let mut fds = [PollFd::new(&self.calls, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default()))?;
        Ok(fds[0].revents())
    }

    fn take_calls(&mut self) -> io::Result<()> {
        while self.ready()?.contains(PollFlags::IN) {
            let Some(call) = self.calls.next()? else {
                continue;
            };
            match self.answer(&call) {
                Ok(Answer::Pass) => self.calls.let_pass(&call),
                Ok(Answer::Value(value)) => self.respond(&call, Ok(value)),
                Ok(Answer::Later) => {}
                Err(error) => self.respond(&call, Err(error)),
            }
        }
        Ok(())
    }

    fn respond(&self, call: &Call, result: io::Result<i64>) {
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
            Kind::Failed => Ok(()),
        }
    }

    /// Goes on with a socket.
    pub fn turn(&mut self, key: usize) {
        let socket = &mut self.sockets.all[key];
        let goes = match &mut socket.kind {
            Kind::Flowing(flow) => match flow.turn(&socket.end) {
                Ok(goes) => goes,
                Err(error) => {
                    socket.error = Some(error);
                    cut(&socket.end);
                    Goes::On
                }
            },
            Kind::Listening(_) => self.turn_of_listener(key),
            Kind::Connecting(_) => self.turn_of_attempt(key),
            Kind::Failed => Goes::On,
        };
        let end = &self.sockets.all[key].end;
        let is_flowing = matches!(self.sockets.all[key].kind, Kind::Flowing(_));
        if goes == Goes::Closed || (!is_flowing && is_hung_up(end).unwrap_or(true)) {
            self.sockets.remove(key);
        }
    }

    /// Takes the connections that were made, and gives them to the calls that wait.
    fn turn_of_listener(&mut self, key: usize) -> Goes {
        let socket = &mut self.sockets.all[key];
        let Kind::Listening(listening) = &mut socket.kind else {
            return Goes::On;
        };
        while let Ok((stream, peer)) = listening.listener.accept() {
            // It cannot fail.
            let _ = stream.set_nonblocking(true);
            listening.made.push_back((stream, peer));
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(&socket.end, &[0], flags);
        }
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
        Goes::On
    }

    /// Sees whether a connection that is being opened stands.
    fn turn_of_attempt(&mut self, key: usize) -> Goes {
        let socket = &mut self.sockets.all[key];
        let Kind::Connecting(connecting) = &mut socket.kind else {
            return Goes::On;
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Ready::Ready(opened) = connecting.stream.poll_opened(&mut cx) else {
            return Goes::On;
        };
        drain(&socket.end, connecting.filled);
        let waiting = std::mem::take(&mut connecting.waiting);
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
        match &mut self.sockets.all[key].kind {
            Kind::Flowing(_) => {
                self.turn(key);
                Goes::On
            }
            _ => Goes::On,
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
