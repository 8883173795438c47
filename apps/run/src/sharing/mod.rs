//! Sockets in memory that is shared with the programs that use them: the memory's upkeep, the processes, and who is to be woken.
//!
//! What a program does to its sockets it notes in the memory, and we look at that between packets; what comes, we note there, and wake
//! those that sleep, all that a turn has to tell at once. While there is something to do we look again within a tenth of a
//! millisecond, so that a program need not wake us for each call.

mod asked;
mod becoming;
mod datagrams;
mod flowing;
mod gathering;
mod socket;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use exos::Error;
use exos::net::{Interest, Poll, Token, Trigger};
use exos_host::intercept::{self, Call};
use exos_preload::LIBRARY;
use exos_preload::memory::{
    AWAKE, DESCRIPTORS, MARK, MARKED, NAP_MICROSECONDS, NAPS, PROCESSES, SLEEPS, SOCKETS, Shared,
    WATCHERS,
};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::pipe::{PipeFlags, pipe_with};

pub(crate) use self::datagrams::has_room;
use self::gathering::{GATHER, Gathering};
pub(crate) use self::socket::Listening;
use self::socket::{Entry, Kind};
use crate::calls::{Answer, fails};
use crate::counters::{SharedCounters, calls_of};

use crate::supervise::Supervisor;

/// Tokens from here on: shared sockets by their numbers, then processes by theirs, then the bell.
pub(crate) const SHARED: usize = 1 << 40;
const PROCESS: usize = SHARED + SOCKETS;
const BELL: usize = PROCESS + PROCESSES;

/// Naps without anything to do, after which we sleep until something comes.
const NAPS_MAX: u32 = 4;

/// How long after a process was about to become another program it is looked which descriptors it has kept.
const EXEC_TIMES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// How long a child that is being made may take to say that it is there, once its parent has ended.
const CHILD_TIME: Duration = Duration::from_secs(10);

/// What descriptors of shared sockets count.
const MARKED_COUNT: u64 = MARK as u64;

/// All that is shared.
pub(crate) struct Sharing {
    pub memory: Shared,
    pub entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Listeners whose connections have to wait for a socket.
    pub stalled: Vec<u32>,
    pub count: usize,
    pub counters: SharedCounters,
    /// The library, for programs to load.
    library: OwnedFd,
    /// The end that programs write to by its name, and ours.
    bell: (OwnedFd, OwnedFd),
    /// Parts of the memory that processes have, by their numbers, with what tells that they have ended.
    parts: HashMap<u32, (u32, OwnedFd)>,
    /// By what watchers are woken, and whose they are.
    wakers: Vec<Option<(OwnedFd, u32)>>,
    to_wake: [u64; WATCHERS / 64],
    /// Processes that become other programs, and when to look at them.
    become_another: Vec<(Instant, u32)>,
    /// Parts of processes that are not there, and since when.
    orphans: HashMap<u32, Instant>,
    has_worked: bool,
    naps: u32,
    gathering: Gathering,
}

impl Sharing {
    /// Makes the memory, and has the command load the library.
    ///
    /// # Errors
    ///
    /// The kernel gives no memory.
    pub fn new(command: &mut Command) -> Result<Self, Error> {
        let made = || {
            let memory = Shared::create()?;
            let library = memfd_create("exos-preload", MemfdFlags::CLOEXEC)?;
            std::fs::File::from(library.try_clone()?).write_all(LIBRARY)?;
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            Ok((memory, library, (theirs, ours)))
        };
        let (memory, library, bell) =
            made().map_err(|e: io::Error| Error::io("cannot make memory for sockets", e))?;
        let sharing = Self {
            memory,
            entries: Vec::new(),
            free: Vec::new(),
            stalled: Vec::new(),
            count: 0,
            counters: SharedCounters::default(),
            library,
            bell,
            parts: HashMap::new(),
            wakers: (0..WATCHERS).map(|_| None).collect(),
            to_wake: [0; WATCHERS / 64],
            become_another: Vec::new(),
            orphans: HashMap::new(),
            has_worked: false,
            naps: 0,
            gathering: Gathering::new(Instant::now()),
        };
        sharing.tell(command);
        Ok(sharing)
    }

    /// Says by which interface of this host packets come; loopback stands for one that is elsewhere.
    pub fn name_interface(&self, name: &str) -> io::Result<()> {
        const LOOPBACK: u32 = 1;
        let asked = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let index = name_to_index(&asked, name).unwrap_or(LOOPBACK);
        self.memory.interface().store(index, Ordering::Relaxed);
        Ok(())
    }

    pub fn hear(&self, poll: &Poll) -> io::Result<()> {
        let (token, readable) = (Token(BELL), Interest::READABLE);
        poll.register_fd(self.bell.1.as_fd(), token, readable, Trigger::Level)
    }

    /// A number for a socket.
    pub fn insert(&mut self, entry: Entry) -> Option<u32> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.entries.len() < SOCKETS => {
                self.entries.push(None);
                self.entries.len() as u32 - 1
            }
            None => return None,
        };
        self.entries[number as usize] = Some(entry);
        self.count += 1;
        self.counters.sockets += 1;
        Some(number)
    }

    /// Whether there is room for another.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.entries.len() < SOCKETS
    }

    /// Nobody refers to a socket any more.
    pub fn remove(&mut self, number: u32) -> Option<Entry> {
        let entry = self.entries.get_mut(number as usize)?.take()?;
        self.counters.calls += calls_of(&self.memory, number);
        self.counters.moved.add(entry.moved());
        self.memory.renew(number);
        for stalled in std::mem::take(&mut self.stalled) {
            self.memory.work().set(stalled);
        }
        if entry.has_moved_much() {
            self.memory.free_rings(number);
        }
        self.free.push(number);
        self.count -= 1;
        Some(entry)
    }

    /// There is news of a socket: something to read, room to write, or both.
    pub fn tell_of(&mut self, number: u32, [reading, writing]: [bool; 2]) {
        if !reading && !writing {
            return;
        }
        for watcher in self.memory.watchers(number) {
            self.memory.watcher(watcher).news.set(number);
            self.to_wake[watcher as usize / 64] |= 1 << (watcher % 64);
        }
        fence(Ordering::SeqCst);
        let socket = self.memory.socket(number);
        for (told, turn, waiters) in [
            (reading, &socket.came, &socket.readers),
            (writing, &socket.left, &socket.writers),
        ] {
            if told && waiters.load(Ordering::Relaxed) > 0 {
                self.memory.wake(turn);
            }
        }
    }

    /// Wakes those that there is news for, and that sleep.
    fn wake(&mut self) {
        for (at, word) in self.to_wake.iter_mut().enumerate() {
            let mut word = std::mem::take(word);
            while word != 0 {
                let watcher = at as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                if self.memory.watcher(watcher).is_to_be_told()
                    && let Some((waker, _)) = &self.wakers[watcher as usize]
                {
                    // One that counts already is awake.
                    let _ = rustix::io::write(waker, &1_u64.to_ne_bytes());
                }
            }
        }
    }

    /// Processes that have become programs without the library: the descriptors that were closed with that are let go of.
    fn look_at_others(&mut self, now: Instant) {
        while let Some(at) = self.become_another.iter().position(|(due, _)| *due <= now) {
            let (_, pid) = self.become_another.swap_remove(at);
            let Some(&(part, _)) = self.parts.get(&pid) else {
                continue;
            };
            let descriptors: Vec<_> = self.memory.descriptors(part).collect();
            for (fd, _) in descriptors {
                let is_ours = match intercept::counter(pid, fd) {
                    Ok(counter) => matches!(counter, Some((MARKED_COUNT, _))),
                    // Of one that may not be looked into nothing is known.
                    Err(error) => error.kind() != io::ErrorKind::NotFound,
                };
                if !is_ours {
                    self.let_go(part, fd);
                }
            }
        }
    }

    fn let_go(&self, part: u32, fd: i32) {
        if let Some((number, true)) = self.memory.unassign(part, fd) {
            self.memory.work().set(number);
        }
    }

    /// Parts of children that were made and ended before they came to say so.
    fn sweep(&mut self) {
        let known: Vec<u32> = self.parts.values().map(|(part, _)| *part).collect();
        let now = Instant::now();
        for part in (0..PROCESSES as u32).filter(|part| !known.contains(part)) {
            let pid = self.memory.process(part).pid.load(Ordering::Acquire);
            if pid == 0 || intercept::process(pid).is_ok() {
                self.orphans.remove(&part);
                continue;
            }
            // The child of one that has just ended may come yet.
            let seen = self.orphans.entry(part).or_insert(now);
            if now.duration_since(*seen) > CHILD_TIME {
                self.orphans.remove(&part);
                self.leave(part);
            }
        }
    }

    fn leave(&mut self, part: u32) {
        let descriptors: Vec<_> = self.memory.descriptors(part).collect();
        for (fd, _) in descriptors {
            self.let_go(part, fd);
        }
        self.memory.leave_process(part);
    }

    /// What a process had is let go of.
    fn process_ended(&mut self, pid: u32, part: u32) {
        self.leave(part);
        self.sweep();
        self.memory.unlock_of(pid, self.entries.len());
        for (watcher, waker) in self.wakers.iter_mut().enumerate() {
            if waker.take_if(|(_, of)| *of == pid).is_some() {
                self.memory.watcher(watcher as u32).reset();
                self.memory.leave_watcher(watcher as u32);
            }
        }
    }
}

impl Supervisor {
    /// Whether sockets are shared with anybody.
    pub fn has_shared(&self) -> bool {
        self.sharing
            .as_ref()
            .is_some_and(|sharing| sharing.count > 0)
    }

    /// The part of the memory that the caller's process has, of a call that the library makes for it.
    pub fn part_of(&self, call: &Call) -> Option<u32> {
        // The table of a process has no place for larger numbers.
        let has_place = (call.args[0] as usize) < DESCRIPTORS;
        match call.args[3] {
            MARKED if has_place => self.part_asking(call),
            _ => None,
        }
    }

    /// As above, of a call by which the library asks for something.
    fn part_asking(&self, call: &Call) -> Option<u32> {
        let sharing = self.sharing.as_ref().filter(|sharing| sharing.has_room())?;
        let pid = intercept::process_of(call.thread).ok()?;
        sharing.parts.get(&pid).map(|(part, _)| *part)
    }

    /// A `connect` that a signal has interrupted is made again, of what is a shared socket by now.
    pub fn connect_shared_again(&mut self, call: &Call) -> Option<io::Result<Answer>> {
        let part = self.part_of(call)?;
        let sharing = self.sharing.as_mut()?;
        let number = sharing.memory.assigned(part, call.args[0] as i32)?;
        let entry = sharing.entries.get_mut(number as usize)?.as_mut()?;
        Some(match &mut entry.kind {
            Kind::Connecting(_, waiting) => {
                waiting.retain(|call| self.calls.waits(call));
                waiting.push(*call);
                Ok(Answer::Later)
            }
            Kind::Flowing(_) => fails(libc::EISCONN),
            _ => match sharing
                .memory
                .socket(number)
                .error
                .swap(0, Ordering::AcqRel)
            {
                0 => fails(libc::ECONNABORTED),
                number => fails(number as i32),
            },
        })
    }

    /// The users of sockets that listen there.
    pub fn listeners_at(&self, at: SocketAddr) -> impl Iterator<Item = u32> {
        let entries = self.sharing.iter().flat_map(|sharing| &sharing.entries);
        entries
            .flatten()
            .filter_map(move |entry| match &entry.kind {
                Kind::Listening(listening) if entry.local == at => Some(listening.user),
                _ => None,
            })
    }

    /// Whether a shared socket has this port.
    pub fn shares_port(&self, port: u16) -> bool {
        let entries = self.sharing.iter().flat_map(|sharing| &sharing.entries);
        entries.flatten().any(|entry| entry.local.port() == port)
    }

    /// Looks at what programs have done.
    pub fn share(&mut self) {
        let Some(sharing) = &mut self.sharing else {
            return;
        };
        sharing.look_at_others(Instant::now());
        let mut numbers = Vec::new();
        sharing.memory.work().drain(|number| numbers.push(number));
        sharing.has_worked |= !numbers.is_empty();
        numbers
            .iter()
            .for_each(|number| sharing.gathering.note(*number));
        for number in numbers {
            self.turn_of_shared(number);
        }
    }

    /// Sends what there is, wakes whom there is news for, and says how long to wait.
    pub fn before_waiting(&mut self, left: Option<Duration>) -> io::Result<Option<Duration>> {
        let Some(sharing) = &mut self.sharing else {
            return Ok(left);
        };
        sharing.naps = match std::mem::take(&mut sharing.has_worked) {
            true => 0,
            false => sharing.naps + 1,
        };
        let (does, most) = match sharing.naps {
            0..NAPS_MAX => (NAPS, Some(Duration::from_micros(NAP_MICROSECONDS))),
            _ => (SLEEPS, None),
        };
        self.net.flush()?;
        if sharing.gathering.after_turn(Instant::now()) {
            // Awake, so that nobody wakes us.
            sharing.wake();
            std::thread::sleep(GATHER);
        }
        let memory = &sharing.memory;
        memory.engine().store(does, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        sharing.wake();
        if !sharing.memory.work().is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        let due = sharing.become_another.iter().map(|(due, _)| *due).min();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        Ok(left.into_iter().chain(most).chain(due).min())
    }

    pub fn wakes_up(&mut self, has_events: bool) {
        if let Some(sharing) = &mut self.sharing {
            sharing.memory.engine().store(AWAKE, Ordering::Relaxed);
            sharing.has_worked |= has_events;
        }
    }

    /// An event of a shared socket, of a process, or of the bell.
    pub fn turn_of_sharing(&mut self, token: usize) -> io::Result<()> {
        let Some(sharing) = &mut self.sharing else {
            return Ok(());
        };
        match token {
            BELL => {
                let mut bytes = [0; 64];
                // What it rings for is looked at anyway.
                let _ = rustix::io::read(&sharing.bell.1, &mut bytes);
            }
            PROCESS.. => {
                let part = (token - PROCESS) as u32;
                let pid = sharing.parts.iter().find(|(_, (of, _))| *of == part);
                if let Some(pid) = pid.map(|(pid, _)| *pid)
                    && let Some((part, end)) = sharing.parts.remove(&pid)
                {
                    self.poll.deregister_fd(end.as_fd())?;
                    sharing.process_ended(pid, part);
                }
            }
            number => {
                let number = (number - SHARED) as u32;
                sharing.gathering.note(number);
                self.turn_of_shared(number);
            }
        }
        Ok(())
    }
}
