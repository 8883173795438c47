//! What the loop does with all that is shared.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use exos::Error;
use exos::net::{Interest, Poll, Token, Trigger};
use exos::watch::{Holder, Holders, Protocol};
use exos_host::affinity::has_one_core;
use exos_host::intercept::{self, Call};
use exos_preload::memory::{
    AWAKE, DESCRIPTORS, MARKED, MARKED_DATAGRAMS, NAP_MICROSECONDS, NAPS, PROCESSES, SLEEPS,
    Shared, Untouched,
};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, connect_unspec, socket};
use rustix::pipe::{PipeFlags, pipe_with};

use super::entry::Kind;
use super::gathering::Gathering;
use super::library::Library;
use super::news::hear;
use super::processes::{PROCESS, Processes};
use super::sockets::{BY_LOOPBACK, SHARED, SharedSockets};
use super::untouched::Touched;
use crate::answer::Answer;
use crate::context::Context;
use crate::counters::SocketCounters;
use crate::target::Descriptor;
use crate::trace::Trace;

/// The token of what programs wake us by.
const BELL: usize = PROCESS + PROCESSES;

/// Naps without anything to do, after which we sleep until something comes.
const NAPS_MAX: u32 = 4;

/// All that is shared.
pub(crate) struct Sharing {
    pub(super) memory: Rc<Shared>,
    pub(super) sockets: SharedSockets,
    pub(super) processes: Processes,
    pub(super) library: Library,
    /// The end that programs write to by its name, and ours.
    bell: (OwnedFd, OwnedFd),
    has_worked: bool,
    naps: u32,
    pub(super) gathering: Gathering,
    pub(super) touched: Touched,
    /// A process could not have the memory, which was said.
    pub(super) has_said_no_room: bool,
}

impl Sharing {
    /// Makes the memory, and has the program that the command starts load the library.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory.
    pub fn new(
        command: &mut Command,
        program: &Path,
        trace: Option<&Trace>,
    ) -> Result<Self, Error> {
        Self::make(command, program, trace).map_err(|e| {
            Error::io("cannot make memory for sockets", e)
                .mend("allow it more address space (ulimit -v), or take --intercept")
        })
    }

    fn make(command: &mut Command, program: &Path, trace: Option<&Trace>) -> io::Result<Self> {
        let memory = Rc::new(Shared::create()?);
        let library = Library::new(program)?;
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        library.tell(command, &memory, &theirs, trace);
        Ok(Self {
            sockets: SharedSockets::new(Rc::clone(&memory)),
            processes: Processes::new(Rc::clone(&memory)),
            memory,
            library,
            bell: (theirs, ours),
            has_worked: false,
            naps: 0,
            gathering: Gathering::new(Instant::now(), has_one_core()),
            touched: Touched::default(),
            has_said_no_room: false,
        })
    }

    /// Whether a program may run, as far as is known, that has no processor but ours.
    pub fn others_want_core(&self) -> bool {
        self.gathering.has_one_core() && !self.memory.all_wait()
    }

    /// Where programs count what they do.
    pub fn memory(&self) -> Rc<Shared> {
        Rc::clone(&self.memory)
    }

    /// Says by which interface of this host packets come (loopback stands for one that is elsewhere), and how long they can be.
    pub fn name_interface(&self, name: &str, mtu: usize) -> io::Result<()> {
        const LOOPBACK: u32 = 1;
        let asked = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = name_to_index(&asked, name).unwrap_or(LOOPBACK);
        self.memory.interface().store(index, Ordering::Relaxed);
        self.memory.mtu().store(mtu as u32, Ordering::Relaxed);
        Ok(())
    }

    pub fn hear(&self, poll: &Poll) -> io::Result<()> {
        let (token, readable) = (Token(BELL), Interest::READABLE);
        poll.register_fd(self.bell.1.as_fd(), token, readable, Trigger::Level)
    }

    pub fn sockets(&self) -> &SharedSockets {
        &self.sockets
    }

    pub fn is_empty(&self) -> bool {
        self.sockets.table.is_empty()
    }

    pub fn counters(&self) -> SocketCounters {
        SocketCounters {
            untouched: self.sockets.untouched,
            ..self.sockets.table.counters()
        }
    }

    /// Says which processes have each socket.
    pub fn add_holders(&self, holders: &mut Holders) {
        for (pid, number) in self.processes.sockets() {
            let Some(entry) = self.sockets.table.get(number) else {
                continue;
            };
            let protocol = match entry.kind {
                Kind::Datagrams(_) => Protocol::Udp,
                _ => Protocol::Tcp,
            };
            let holder = Holder::Process(pid);
            holders.add(protocol, entry.local, entry.peer, holder);
        }
    }

    /// The part of the memory that the caller's process has, of a call that the library makes for it to have a shared socket.
    pub fn shared_for(&mut self, call: &Call) -> Option<(&mut SharedSockets, u32)> {
        // The table of a process has no place for larger numbers.
        let has_place = (call.args[0] as usize) < DESCRIPTORS;
        let part = match call.args[3] {
            MARKED if has_place => self.part_asking(call)?,
            _ => return None,
        };
        self.touched.take(part, call.args[0] as i32);
        Some((&mut self.sockets, part))
    }

    /// The caller's part, of a call that connects a socket that nothing was done to before, as the library says. Others can say so, too: the
    /// part is to be the caller's, and the number nothing that is known of its process. None where the kernel or the program did something
    /// to the socket beneath the library.
    pub fn untouched_for(&mut self, call: &Call) -> Option<(&mut SharedSockets, Untouched)> {
        let said = Untouched::of(call.args[4]).filter(|_| call.args[3] == MARKED)?;
        let fd = i32::try_from(call.args[0]).ok()?;
        let is_new = self.memory.is_nothing(said.part, fd)
            && self.processes.is_of(call.thread, said.part)
            && !self.touched.take(said.part, fd);
        (is_new && self.sockets.table.has_room()).then_some((&mut self.sockets, said))
    }

    /// Something was done to a socket of TCP by a call that came here, by way of the library or beneath it.
    pub fn touch(&mut self, call: &Call) {
        if let Some(part) = self.part_calling(call) {
            self.touched.note(part, call.args[0] as i32);
        }
    }

    /// The part of the caller's process, where there is room for another socket.
    pub(super) fn part_asking(&self, call: &Call) -> Option<u32> {
        let has_room = self.sockets.table.has_room();
        has_room.then(|| self.part_calling(call))?
    }

    /// The part of the caller's process. The thread that a process began with has its number.
    pub(super) fn part_calling(&self, call: &Call) -> Option<u32> {
        let part = self.processes.part_of(call.thread);
        part.or_else(|| {
            let pid = intercept::process_of(call.thread).ok()?;
            self.processes.part_of(pid)
        })
    }

    /// The shared socket for datagrams that a call is of, which the library makes.
    pub fn datagrams_of(&mut self, call: &Call) -> Option<(&mut SharedSockets, u32)> {
        if call.args[3] != MARKED_DATAGRAMS {
            return None;
        }
        let part = self.part_calling(call)?;
        let number = self.memory.assigned(part, call.args[0] as i32)?;
        let entry = self.sockets.table.get(number)?;
        let is_it = matches!(entry.kind, Kind::Datagrams(_));
        is_it.then_some((&mut self.sockets, number))
    }

    /// Looks at what programs have done; says whether they have done anything.
    pub fn look(&mut self, cx: &Context) -> bool {
        self.processes.look_at_others(Instant::now());
        let mut numbers = Vec::new();
        self.memory.work().drain(|number| numbers.push(number));
        if numbers.is_empty() {
            return false;
        }
        self.has_worked = true;
        self.gathering.have_done(Instant::now());
        for number in numbers {
            self.has_news_of(cx, number);
        }
        true
    }

    /// Sends what there is, wakes programs that there is news for, and says how long to wait.
    pub fn before_waiting(
        &mut self,
        cx: &Context,
        left: Option<Duration>,
    ) -> io::Result<Option<Duration>> {
        self.naps = match std::mem::take(&mut self.has_worked) {
            true => 0,
            false => self.naps.saturating_add(1),
        };
        cx.net.flush()?;
        let now = Instant::now();
        if self.gathering.after_turn(now) {
            self.gather(cx, now);
        }
        let (does, most) = match self.naps < self.naps_max() {
            true => (NAPS, Some(Duration::from_micros(NAP_MICROSECONDS))),
            false => (SLEEPS, None),
        };
        // Before that: they may have done it by the time that we go on.
        let now = Instant::now();
        if self.sockets.news.wake() {
            self.gathering.told(now);
        }
        // Behind that: those that have done it by now need not wake us.
        self.memory.engine().store(does, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.memory.work().is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        let due = self.processes.due();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        Ok(left.into_iter().chain(most).chain(due).min())
    }

    /// Wakes programs that there is news for, and takes what they do for it in one.
    fn gather(&mut self, cx: &Context, now: Instant) {
        let (bell, calls) = (self.bell.1.as_fd(), cx.calls.as_fd());
        if self.sockets.news.wake_and_gather(bell, calls) {
            self.gathering.told(now);
        }
        // It leaves when the next turn begins, before that takes packets in.
        if self.look(cx) {
            self.gathering.was_worth_it();
        }
    }

    /// How many naps there are without anything to do. On a core that we share with programs the end of each takes it from one that runs, so
    /// there is one where they do several things; none where all wait, or have not begun with what they were told: they wake us then.
    fn naps_max(&self) -> u32 {
        let gathering = &self.gathering;
        let may_do_more = gathering.is_burst() && !gathering.is_unanswered();
        match gathering.has_one_core() {
            true => u32::from(may_do_more && !self.memory.all_wait()),
            false => NAPS_MAX,
        }
    }

    pub fn after_waiting(&mut self, has_events: bool) {
        self.memory.engine().store(AWAKE, Ordering::Relaxed);
        self.has_worked |= has_events;
        let may_wait = self.gathering.has_one_core() || self.gathering.is_on();
        self.sockets.news.wake_at_once(!may_wait);
    }

    /// An event of a shared socket, of a process, or of the bell.
    pub fn handle(&mut self, cx: &Context, token: usize) -> io::Result<()> {
        match token {
            BELL => hear(self.bell.1.as_fd()),
            BY_LOOPBACK.. => {
                let number = (token - BY_LOOPBACK) as u32;
                self.sockets.hear_loopback(number);
                self.has_news_of(cx, number);
            }
            PROCESS.. => {
                let part = (token - PROCESS) as u32;
                self.sockets.marks.forget(part);
                self.touched.forget(part);
                if let Some(pid) = self.processes.ended(&cx.poll, part)? {
                    self.process_ended(pid);
                }
            }
            number => {
                self.has_news_of(cx, (number - SHARED) as u32);
            }
        }
        Ok(())
    }

    /// Has a socket of the kernel's leave its peer, for a program that has no part of the memory; then tells those that have one, which
    /// would have the answer of before if they asked earlier.
    pub fn disconnect_kernels(&self, call: &Call) -> io::Result<Answer> {
        let descriptor = Descriptor::of(call, call.args[0] as i32)?;
        connect_unspec(&descriptor.fd)?;
        self.memory.disconnected().fetch_add(1, Ordering::Release);
        Ok(Answer::Value(0))
    }

    fn has_news_of(&mut self, cx: &Context, number: u32) {
        self.gathering.note(number);
        self.sockets.turn(cx, number);
    }

    /// What a process held is free, and nobody waits for news with it.
    pub(super) fn process_ended(&mut self, pid: u32) {
        let numbers = self.sockets.table.numbers();
        self.memory.unlock_of(pid, numbers);
        self.sockets.news.forget(pid);
    }
}
