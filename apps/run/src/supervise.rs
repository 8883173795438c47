//! The loop of `exos run`: the program's calls, its sockets, and its end.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use exos::net::{Events, Interest, Net, Token, Trigger};
use exos::{Error, Exos, LinkKind, Role};
use exos_host::children::{adopt_orphans, end_descendants, reap, signal_descendants};
use exos_host::intercept::{self, Call};
use exos_host::limits::raise_descriptors;
use exos_host::priority;
use exos_host::signals::StartSignals;
use exos_program::{Needs, reachable_addresses};
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::set_current_timer_slack;

use crate::answer::Answer;
use crate::calls::{BECOMING, Sockets, TOLD};
use crate::check::{check, look_at};
use crate::context::Context;
use crate::counters::{CallCounters, report};
use crate::guard;
use crate::limits::{CALLS_AT_ONCE, DELIVERY_LOOK, GOODBYE_TIME, ONE_REQUEST};
use crate::options::RunArgs;
use crate::sharing::Sharing;
use crate::signals::{CAUGHT, Signals, take};
use crate::trace::Trace;
use crate::unix::ready;

const CALLS: Token = Token(usize::MAX);
const CHILD: Token = Token(usize::MAX - 1);
const ASKED: Token = Token(usize::MAX - 2);
const REPORT: Token = Token(usize::MAX - 3);
const TRACED: Token = Token(usize::MAX - 4);

/// Runs the program until it, and all that it has started, has ended.
///
/// # Errors
///
/// The link cannot be made, or the program not be started.
pub fn run(args: &RunArgs) -> Result<ExitCode, Error> {
    if let Some(program) = &args.check {
        return check(program);
    }
    if let Some(supervisor) = args.guard_of {
        return guard::guard(supervisor, &args.command, args.start_signals);
    }
    // Before any is caught here, and before there are threads.
    let start_signals =
        StartSignals::take(&CAUGHT).map_err(|e| Error::io("cannot look at signals", e))?;
    let finding = match look_at(&args.command[0]) {
        Ok(finding) => finding,
        Err(refusal) => return Ok(refusal.tell()),
    };
    let shares = args.shares(&finding)?;
    let attachment = args
        .link
        .attachment(&Needs::new(Role::Connect(Vec::new())))?;
    let link = attachment.link.clone();
    let net = Net::attach(attachment)?;
    if args.link.link.is_none() {
        announce(&link, &net);
    }
    let signals = Signals::catch().map_err(|e| Error::io("cannot catch signals", e))?;
    // Without us it would have sockets that nobody is at the other end of, and so would those that it leaves behind.
    let mut command = guard::command(&args.command, start_signals);
    // Where the guard is killed, what it would have adopted is ours.
    adopt_orphans().map_err(|e| Error::io("cannot adopt orphans", e))?;
    let trace = match args.trace {
        true => Some(Trace::new().map_err(|e| Error::io("cannot make a pipe for calls", e))?),
        false => None,
    };
    let sharing = match shares {
        true => {
            let (file, trace) = (&finding.file, trace.as_ref());
            Some(Sharing::new(&mut command, file, trace)?)
        }
        false => None,
    };
    let told: Vec<_> = match sharing {
        None => TOLD.to_vec(),
        Some(_) => [TOLD, &BECOMING].concat(),
    };
    let (child, calls) = intercept::spawn(&mut command, &told)?;
    // Each of its sockets is a descriptor of ours.
    raise_descriptors()?;
    // A pause is to be as long as it is meant to be; the kernel adds 50 µs otherwise.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let memory = sharing.as_ref().map(Sharing::memory);
    let status = Context::new(net, calls, trace, memory).and_then(|cx| {
        let guard = Pid::from_child(&child);
        Supervisor::new(cx, sharing, guard, signals)?.run()
    });
    // Those that are left had their time, or hear now that they have no network any more.
    let patience = status.as_ref().map_or(GOODBYE_TIME, |_| Duration::ZERO);
    let status = end_descendants(patience).and(status);
    let status = status.map_err(|e| Error::io("cannot go on with the program", e))?;
    Ok(exit_code(status))
}

/// Says where the program is found, for one that runs it without naming a link.
fn announce(link: &LinkKind, net: &Net) {
    let what = match link {
        LinkKind::OwnPair(_) => {
            "a pair of interfaces made for it, which this host alone reaches (other hosts: --link xdp:INTERFACE --address ADDRESS)".into()
        }
        LinkKind::OwnTap(_) => {
            "a TAP device in a user namespace of its own, which nothing outside reaches (other hosts: by the daemon, or as root)".into()
        }
        _ => net.with(|exos| exos.describe_link()),
    };
    let addresses = net.with(|exos| reachable_addresses(exos));
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    exos_program::info!("exos run: at {}, by {what}", addresses.join(", "));
}

/// The program's, as a shell says it.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}

/// A program that runs.
struct Supervisor {
    cx: Context,
    sockets: Sockets,
    counters: CallCounters,
    /// The [guard] of the program and of all that it starts, whose status is the program's.
    guard: Pid,
    /// How the guard has ended, once it has.
    ended: Option<ExitStatus>,
    /// Nobody is left whose calls are told.
    is_alone: bool,
    /// When to wait no longer, for processes that were asked to end or for what they wrote to be delivered.
    over: Option<Instant>,
    /// When it was last asked to end: what comes within a moment is that request.
    asked: Option<Instant>,
    signals: Signals,
    holds_spins: bool,
}

impl Supervisor {
    fn new(
        cx: Context,
        sharing: Option<Sharing>,
        guard: Pid,
        signals: Signals,
    ) -> io::Result<Self> {
        let poll = &cx.poll;
        if let Some(sharing) = &sharing {
            sharing.hear(poll)?;
            let link = |exos: &mut Exos| (exos.link().name().to_owned(), exos.stack.config().mtu);
            let (name, mtu) = cx.net.with(link);
            sharing.name_interface(&name, mtu)?;
        }
        for (fd, token) in [
            (cx.calls.as_fd(), CALLS),
            (signals.to_end.as_fd(), ASKED),
            (signals.to_report.as_fd(), REPORT),
            (signals.to_reap.as_fd(), CHILD),
        ] {
            poll.register_fd(fd, token, Interest::READABLE, Trigger::Level)?;
        }
        if let Some(trace) = cx.tracing() {
            poll.register_fd(trace.lines(), TRACED, Interest::READABLE, Trigger::Level)?;
        }
        Ok(Self {
            cx,
            sockets: Sockets::new(sharing),
            counters: CallCounters::default(),
            guard,
            ended: None,
            is_alone: false,
            over: None,
            asked: None,
            signals,
            holds_spins: false,
        })
    }

    /// Until the program has ended, and what it has started, and until what they wrote last is delivered.
    fn run(mut self) -> io::Result<ExitStatus> {
        // On a core of the program's: packets would wait for the end of its slice, some milliseconds, and the other end for them. Where
        // the kernel does not know that, they do.
        let _ = priority::prompt();
        for call in self.cx.calls.take_first() {
            self.take_call(&call);
        }
        let mut events = Events::default();
        loop {
            self.sockets.look_at_shared(&self.cx);
            let left = self.time_left()?;
            if left == Some(Duration::ZERO) {
                return self.end();
            }
            let told = self.sockets.tell(&self.cx);
            let left = Some(left.map_or(told, |left| left.min(told)));
            let left = self.sockets.before_waiting(&self.cx, left)?;
            // Looking for packets takes the time of a program that could run.
            let is_held = self.sockets.others_want_core();
            if is_held != std::mem::replace(&mut self.holds_spins, is_held) {
                self.cx.net.with(|exos| exos.hold_spins(is_held));
            }
            self.cx.poll.wait(&mut events, self.cx.later().wait(left))?;
            let tokens = events.iter().map(|event| event.token.0);
            self.sockets.after_waiting(tokens);
            for event in events.iter() {
                self.handle(event.token)?;
            }
            for token in self.cx.later().take() {
                self.sockets.handle(&self.cx, token)?;
            }
        }
    }

    /// How long it may wait, once all are to end: no time where nobody is left and all is delivered, or that took too long.
    fn time_left(&self) -> io::Result<Option<Duration>> {
        let Some(over) = self.over else {
            return Ok(None);
        };
        let left = over.saturating_duration_since(Instant::now());
        if !self.is_alone || !self.sockets.are_none() {
            return Ok(Some(left));
        }
        // That something is delivered is no event.
        Ok(Some(match self.cx.net.close(Duration::ZERO)? {
            0 => Duration::ZERO,
            _ => left.min(DELIVERY_LOOK),
        }))
    }

    /// Closes what there is; what is not delivered by now has had its time.
    fn end(self) -> io::Result<ExitStatus> {
        self.cx.net.set_linger(Duration::ZERO);
        if let Some(status) = self.ended {
            return Ok(status);
        }
        let ended = waitpid(Some(self.guard), WaitOptions::empty())?;
        let (_, status) = ended.ok_or(io::ErrorKind::NotFound)?;
        Ok(ExitStatus::from_raw(status.as_raw()))
    }

    fn handle(&mut self, token: Token) -> io::Result<()> {
        match token {
            CALLS => self.take_calls()?,
            CHILD => {
                let _ = take(&self.signals.to_reap);
                let (guard, ended) = (self.guard, &mut self.ended);
                // Its number may be another's afterwards.
                reap(|pid, status| {
                    if pid == guard {
                        ended.get_or_insert(status);
                    }
                })?;
            }
            ASKED => {
                let _ = take(&self.signals.to_end);
                self.ask_to_end()?;
            }
            TRACED => {
                if let Some(trace) = self.cx.tracing() {
                    trace.pass_on();
                }
            }
            REPORT => {
                let _ = take(&self.signals.to_report);
                let (shared, intercepted) = self.sockets.counters();
                report(self.counters, shared, intercepted);
            }
            Token(token) => self.sockets.handle(&self.cx, token)?,
        }
        Ok(())
    }

    /// Has the guard ask the program to end, or those that it has left behind; where somebody has killed the guard, asks these. They
    /// get their time once. Who asks a process and then its group, as timeout(1) does, asks once.
    fn ask_to_end(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.asked.is_some_and(|asked| now < asked + ONE_REQUEST) {
            return Ok(());
        }
        self.asked = Some(now);
        match (self.ended, self.over) {
            (None, _) => drop(kill_process(self.guard, guard::ORDER)),
            (Some(_), None) => {
                signal_descendants(Signal::TERM, None)?;
                self.over = Some(Instant::now() + GOODBYE_TIME);
            }
            (Some(_), Some(_)) => self.over = Some(Instant::now()),
        }
        Ok(())
    }

    /// No process is left whose calls are told.
    fn has_nobody(&mut self) -> io::Result<()> {
        self.cx.poll.deregister_fd(self.cx.calls.as_fd())?;
        self.is_alone = true;
        self.over = Some(Instant::now() + GOODBYE_TIME);
        // Of some the end was told before all that they had written was taken.
        self.sockets.go_on_with_all(&self.cx);
        Ok(())
    }

    /// Answers calls; more come with the next turn, so that packets are not kept waiting.
    fn take_calls(&mut self) -> io::Result<()> {
        for _ in 0..CALLS_AT_ONCE {
            let ready = ready(&self.cx.calls, PollFlags::IN)?;
            if !ready.contains(PollFlags::IN) {
                return match ready.contains(PollFlags::HUP) {
                    true => self.has_nobody(),
                    false => Ok(()),
                };
            }
            if let Some(call) = self.cx.calls.next()? {
                self.take_call(&call);
            }
        }
        Ok(())
    }

    fn take_call(&mut self, call: &Call) {
        match self.sockets.answer(&self.cx, call) {
            Ok(Answer::Pass) => {
                self.counters.passed += 1;
                self.cx.let_pass(call);
                return;
            }
            Ok(Answer::Value(value)) => self.cx.respond(call, Ok(value)),
            Ok(Answer::Later) => {}
            Err(error) => self.cx.respond(call, Err(error)),
        }
        self.counters.answered += 1;
    }
}
