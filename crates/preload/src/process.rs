//! This process: the memory, which of its descriptors are sockets, and its forks.

use std::env;
use std::fs::{File, OpenOptions};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering, fence};

use crate::ask::ask;
use crate::memory::{AWAKE, Ask, DESCRIPTORS, MARK, OWN, SLEEPS, SOCKETS, Shared, VARIABLE};
use crate::memory::{Lock, Socket, state};
use crate::{datagrams, epoll, system};

/// A process whose sockets are shared.
pub struct Here {
    pub shared: Shared,
    bell: AtomicI32,
    /// What descriptors of sockets are copies of.
    mark: AtomicI32,
    /// Its part of the memory, and its number.
    process: AtomicU32,
    pid: AtomicU32,
    /// The part of a child that is being made.
    child: AtomicU32,
}

static HERE: AtomicPtr<Here> = AtomicPtr::new(std::ptr::null_mut());

const NONE: u32 = u32::MAX;

/// This process, if its sockets are shared.
pub fn here() -> Option<&'static Here> {
    // SAFETY: it is set once, to what is never freed.
    unsafe { HERE.load(Ordering::Acquire).as_ref() }
}

/// A descriptor that is a shared socket.
#[derive(Copy, Clone)]
pub struct Found {
    pub here: &'static Here,
    pub number: u32,
    /// Which of those that have had this number.
    pub generation: u32,
}

impl Found {
    pub fn socket(&self) -> &'static Socket {
        self.here.shared.socket(self.number)
    }

    /// It has been closed since, and its number may be another's.
    pub fn is_stale(&self) -> bool {
        self.socket().generation.load(Ordering::SeqCst) != self.generation
    }

    /// To be looked at by who has one of its locks: whether its rings are its own still.
    pub fn check(&self) -> Result<(), i32> {
        let unshared = &LEFT[self.number as usize % SOCKETS];
        match self.is_stale() {
            // Its descriptor lives on.
            true if unshared.load(Ordering::Relaxed) == self.generation.wrapping_add(1) => {
                Err(AGAIN)
            }
            true => Err(system::EBADF),
            false if self.socket().is(state::UNSHARED) => Err(AGAIN),
            false => Ok(()),
        }
    }
}

/// For each number one more than the generation that was last shared no more in this process.
static LEFT: [AtomicU32; SOCKETS] = [const { AtomicU32::new(0) }; SOCKETS];

/// In the place of an error's number: the socket is shared no more, and the call to be made again.
pub const AGAIN: i32 = i32::MAX;

/// The socket that a descriptor is.
pub fn find(fd: i32) -> Option<Found> {
    let here = here()?;
    let place = here.place(fd)?.load(Ordering::Acquire);
    if place == 0 || place == OWN {
        return None;
    }
    let number = place - 1;
    let socket = here.shared.socket(number);
    let generation = socket.generation.load(Ordering::SeqCst);
    if socket.is(state::UNSHARED) {
        unshare(here, fd, number);
        return None;
    }
    Some(Found {
        here,
        number,
        generation,
    })
}

/// Has a descriptor be a Unix socket in place of a shared one; what epoll sets wait for of it, they go on to wait for.
pub fn unshare(here: &'static Here, fd: i32, number: u32) {
    if !here.is_here() {
        // Of a child whose descriptors are its own, but whose memory is ours.
        ask(fd, Ask::Unshare, number as usize);
        return;
    }
    let places = epoll::places(fd, number);
    let generation = here.shared.socket(number).generation.load(Ordering::SeqCst);
    if ask(fd, Ask::Unshare, number as usize) >= 0 {
        LEFT[number as usize % SOCKETS].store(generation.wrapping_add(1), Ordering::Relaxed);
        here.forget(fd);
        for (set, event) in places {
            let mut event = event;
            // SAFETY: the event lives as long as the call.
            unsafe { system::epoll_ctl(set, system::EPOLL_CTL_ADD, fd, &mut event) };
        }
    }
}

/// As above, for a descriptor that may be a shared socket.
pub fn unshare_fd(fd: i32) {
    if let Some(found) = find(fd) {
        unshare(found.here, fd, found.number);
    }
}

impl Here {
    fn place(&self, fd: i32) -> Option<&AtomicU32> {
        if fd < 0 || fd as usize >= DESCRIPTORS {
            return None;
        }
        let process = self.process.load(Ordering::Relaxed);
        (process != NONE).then(|| &self.shared.process(process).descriptors[fd as usize])
    }

    /// A descriptor for a socket.
    pub fn descriptor(&self, close_on_exec: bool) -> Result<i32, i32> {
        let what = match close_on_exec {
            true => system::F_DUPFD_CLOEXEC,
            false => system::F_DUPFD,
        };
        // SAFETY: a descriptor of ours.
        match unsafe { system::fcntl64(self.mark.load(Ordering::Relaxed), what, 0) } {
            fd @ 0.. => Ok(fd),
            _ => Err(system::errno()),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Whether the caller is this process, and not a child that was made without our knowing (vfork(2), clone(2)): its descriptors are
    /// others.
    pub fn is_here(&self) -> bool {
        // SAFETY: always.
        self.pid() == unsafe { system::getpid() } as u32
    }

    /// A descriptor is this socket from now on.
    pub fn assign(&self, fd: i32, number: u32) {
        let process = self.process.load(Ordering::Relaxed);
        if process != NONE {
            self.shared.assign(process, fd, number);
        }
    }

    /// A descriptor is a socket no more.
    pub fn forget(&self, fd: i32) {
        let process = self.process.load(Ordering::Relaxed);
        if process == NONE {
            return;
        }
        let Some(number) = self.shared.assigned(process, fd) else {
            return;
        };
        // Before it is let go of: from then on the number may be another's.
        let is_only = self.shared.socket(number).refs.load(Ordering::Acquire) == 1;
        let mut descriptors = self.shared.descriptors(process);
        let is_it = |(other, of): (i32, u32)| other != fd && of == number;
        if is_only || !descriptors.any(is_it) {
            epoll::forget(self, number);
        }
        if matches!(self.shared.unassign(process, fd), Some((_, true))) {
            self.submit(number);
        }
    }

    /// A child that was to be made was not.
    pub fn has_no_child(&self) {
        let child = self.child.swap(NONE, Ordering::Relaxed);
        if child == NONE {
            return;
        }
        let descriptors: Vec<_> = self.shared.descriptors(child).collect();
        for (fd, number) in descriptors {
            if matches!(self.shared.unassign(child, fd), Some((_, true))) {
                self.submit(number);
            }
        }
        self.shared.leave_process(child);
    }

    /// Numbers descriptors of the library's own high, and keeps the program from closing them.
    pub fn own(&self, fd: i32) -> i32 {
        if fd < 0 {
            return fd;
        }
        // Below the limit that most programs have, above what they use.
        // SAFETY: a descriptor of ours.
        let high = unsafe { system::fcntl64(fd, system::F_DUPFD_CLOEXEC, 900) };
        let fd = match high {
            0.. => {
                // SAFETY: as above.
                unsafe { system::close(fd) };
                high
            }
            _ => fd,
        };
        let process = self.process.load(Ordering::Relaxed);
        if process != NONE {
            self.shared.own(process, fd);
        }
        fd
    }

    /// A descriptor of the library's own is not needed any more.
    pub fn disown(&self, fd: i32) {
        if let Some(place) = self.place(fd) {
            place.store(0, Ordering::Release);
        }
        // SAFETY: a descriptor of ours.
        unsafe { system::close(fd) };
    }

    /// Whether a descriptor is a socket, or the library's own.
    pub fn knows(&self, fd: i32) -> bool {
        let place = self.place(fd);
        place.is_some_and(|place| place.load(Ordering::Relaxed) != 0)
    }

    /// The descriptors that are sockets, or the library's own (true), in their order.
    pub fn known(&self) -> Vec<(i32, bool)> {
        let process = self.process.load(Ordering::Relaxed);
        if process == NONE {
            return Vec::new();
        }
        let process = self.shared.process(process);
        let end = process.end.load(Ordering::Relaxed) as usize;
        let all = process.descriptors.iter().take(end).enumerate();
        let known = all.filter_map(|(fd, number)| {
            let number = number.load(Ordering::Relaxed);
            (number != 0).then_some((fd as i32, number == OWN))
        });
        known.collect()
    }

    /// Whether a descriptor is the library's own.
    pub fn is_own(&self, fd: i32) -> bool {
        let place = self.place(fd);
        place.is_some_and(|place| place.load(Ordering::Relaxed) == OWN)
    }

    pub fn lock<'a>(&self, word: &'a AtomicU32) -> Lock<'a> {
        self.shared.lock(word, self.pid())
    }

    /// Something was done to a socket that the other side is to look at.
    pub fn submit(&self, number: u32) {
        if self.shared.work().set(number) {
            fence(Ordering::SeqCst);
            if self.shared.engine().load(Ordering::Relaxed) == SLEEPS {
                self.ring();
            }
        }
    }

    /// Before this thread waits: what was submitted is looked at now.
    pub fn let_go(&self) {
        fence(Ordering::SeqCst);
        if self.shared.engine().load(Ordering::Relaxed) != AWAKE && !self.shared.work().is_empty() {
            self.ring();
        }
    }

    fn ring(&self) {
        if self.shared.engine().swap(AWAKE, Ordering::AcqRel) != AWAKE {
            let before = system::errno();
            // SAFETY: a byte; a bell that is full rings already.
            unsafe { system::write(self.bell.load(Ordering::Relaxed), b"x".as_ptr(), 1) };
            system::set_errno(before);
        }
    }
}

/// Finds the memory, and takes a part of it for this process.
fn begin() -> Option<()> {
    let said = env::var(VARIABLE).ok()?;
    let mut words = said.split(':');
    let mut word = || words.next()?.parse::<u32>().ok();
    let (pid, memory, bell) = (word()?, word()?, word()?);
    let path = |fd| format!("/proc/{pid}/fd/{fd}");
    let open = |fd| OpenOptions::new().read(true).write(true).open(path(fd));
    let shared = Shared::open(&open(memory).ok()?).ok()?;
    let bell: File = OpenOptions::new().write(true).open(path(bell)).ok()?;
    // SAFETY: always.
    let pid = unsafe { system::getpid() } as u32;
    let process = shared.take_process(pid)?;
    let here = Box::leak(Box::new(Here {
        shared,
        bell: (-1).into(),
        mark: (-1).into(),
        process: process.into(),
        pid: pid.into(),
        child: NONE.into(),
    }));
    let bell = here.own(std::os::fd::IntoRawFd::into_raw_fd(bell));
    // A bell that is full is heard.
    // SAFETY: a descriptor of ours.
    unsafe { system::fcntl64(bell, system::F_SETFL, system::O_NONBLOCK as usize) };
    here.bell.store(bell, Ordering::Relaxed);
    // SAFETY: always.
    let mark = here.own(unsafe { system::eventfd(MARK, system::O_CLOEXEC) });
    here.mark.store(mark, Ordering::Relaxed);
    if ask(-1, Ask::Register, process as usize) < 0 {
        here.shared.process(process).pid.store(0, Ordering::Release);
        return None;
    }
    HERE.store(here, Ordering::Release);
    // SAFETY: the functions are there as long as the process.
    unsafe { system::pthread_atfork(before_fork, in_parent, in_child) };
    Some(())
}

extern "C" fn start() {
    let before = system::errno();
    begin();
    system::set_errno(before);
}

/// Called when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// The child is to have its sockets from its first moment on: they are counted before there is one.
extern "C" fn before_fork() {
    let Some(here) = here() else {
        return;
    };
    datagrams::share_unused(here);
    epoll::hold();
    let Some(child) = here.shared.take_process(here.pid()) else {
        return here.child.store(NONE, Ordering::Relaxed);
    };
    let process = here.process.load(Ordering::Relaxed);
    if process != NONE {
        for (fd, number) in here.shared.descriptors(process) {
            here.shared.assign(child, fd, number);
        }
        let from = here.shared.process(process);
        let end = from.end.load(Ordering::Relaxed);
        let own = |fd: &usize| from.descriptors[*fd].load(Ordering::Relaxed) == OWN;
        for fd in (0..(end as usize).min(DESCRIPTORS)).filter(own) {
            here.shared.own(child, fd as i32);
        }
    }
    here.child.store(child, Ordering::Relaxed);
}

extern "C" fn in_parent() {
    epoll::let_go();
}

extern "C" fn in_child() {
    let Some(here) = here() else {
        return;
    };
    epoll::let_go();
    let child = here.child.swap(NONE, Ordering::Relaxed);
    // SAFETY: always.
    let pid = unsafe { system::getpid() } as u32;
    here.process.store(child, Ordering::Relaxed);
    here.pid.store(pid, Ordering::Relaxed);
    if child != NONE {
        here.shared.process(child).pid.store(pid, Ordering::Release);
        // Another thread may have closed some before there was the child.
        let descriptors: Vec<_> = here.shared.descriptors(child).collect();
        for (fd, _) in descriptors {
            const F_GETFD: i32 = 1;
            // SAFETY: always.
            if unsafe { system::fcntl64(fd, F_GETFD, 0) } < 0 {
                here.forget(fd);
            }
        }
        ask(-1, Ask::Register, child as usize);
    }
}
