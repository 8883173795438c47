//! This process: the memory, its part of it, and the other side, which it tells of what was done.

pub mod descriptor_set;

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{Cursor, Write as _};
use std::os::fd::IntoRawFd as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering, fence};
use std::time::Duration;

use crate::ask::ask;
use crate::memory::{AWAKE, Ask, DESCRIPTORS, MARK, OWN, SLEEPS, SOCKETS, Shared};
use crate::memory::{Lock, Socket, state};
use crate::signals::Section;
use crate::system;
use crate::trace::pipe;

/// A process whose sockets are shared.
pub struct Here {
    pub shared: Shared,
    bell: AtomicI32,
    /// What descriptors of sockets are copies of.
    mark: AtomicI32,
    /// Its part of the memory, and its number as the other side knows it.
    process: AtomicU32,
    pid: AtomicU32,
    /// As itself knows it, which is another one in a namespace of processes of its own (pid_namespaces(7)).
    own_pid: AtomicU32,
}

static ONLY: OnceLock<Here> = OnceLock::new();
static HERE: AtomicPtr<Here> = AtomicPtr::new(std::ptr::null_mut());

/// From this number on are descriptors of the library's own: below the limit that most programs have, above what they use.
pub const OWN_DESCRIPTORS_MIN: i32 = 900;

const NONE: u32 = u32::MAX;

thread_local! {
    /// The part of the child that this thread is making: another may make one at the same time.
    static CHILD: Cell<u32> = const { Cell::new(NONE) };
}

/// This process, once it shares sockets ([`start`](crate::start)).
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

/// A socket is shared no more in this process.
pub fn leaves(number: u32, generation: u32) {
    LEFT[number as usize % SOCKETS].store(generation.wrapping_add(1), Ordering::Relaxed);
}

/// For each number one more than the generation that was last shared no more in this process.
static LEFT: [AtomicU32; SOCKETS] = [const { AtomicU32::new(0) }; SOCKETS];

/// In the place of an error's number: the socket is shared no more, and the call to be made again.
pub const AGAIN: i32 = i32::MAX;

/// As above: nothing tells of the socket, which is to be shared no more, and the call to be made of the kernel.
pub const NO_WATCHER: i32 = i32::MAX - 1;

/// A lock of a socket's, and this thread's handlers that wait until it is let go of, in this order.
pub struct Held<'a> {
    _lock: Lock<'a>,
    _section: Section,
}

/// Opens a descriptor of another process.
fn open_of(process: u32, fd: u32, options: &OpenOptions) -> Option<File> {
    // Nothing is allocated: it may be a handler's call.
    let mut path = Cursor::new([0; 40]);
    write!(path, "/proc/{process}/fd/{fd}").ok()?;
    let len = path.position() as usize;
    options
        .open(str::from_utf8(&path.get_ref()[..len]).ok()?)
        .ok()
}

impl Here {
    /// Finds the memory (a descriptor of the process `of`, as is the bell), and takes a part of it for this process.
    pub fn begin([of, memory, bell]: [u32; 3]) -> Option<&'static Self> {
        // What is left to the program would not do, where any is.
        if !system::address_space_max().is_none_or(Shared::fits) {
            ask(-1, Ask::NoRoom, 0);
            return None;
        }
        let open = |fd, options: &mut OpenOptions| open_of(of, fd, options);
        let mut options = OpenOptions::new();
        let shared = Shared::open(&open(memory, options.read(true).write(true))?).ok()?;
        let bell = open(bell, OpenOptions::new().write(true))?;
        // SAFETY: always.
        let pid = unsafe { system::getpid() } as u32;
        let process = shared.take_process(pid)?;
        let here = ONLY.get_or_init(|| Self {
            shared,
            bell: (-1).into(),
            mark: (-1).into(),
            process: process.into(),
            pid: pid.into(),
            own_pid: pid.into(),
        });
        let bell = here.own(bell.into_raw_fd());
        // A bell that is full is heard.
        // SAFETY: a descriptor of ours.
        unsafe { system::fcntl64(bell, system::F_SETFL, system::O_NONBLOCK as usize) };
        here.bell.store(bell, Ordering::Relaxed);
        // SAFETY: always.
        let mark = here.own(unsafe { system::eventfd(MARK, system::O_CLOEXEC) });
        here.mark.store(mark, Ordering::Relaxed);
        if !here.registers(process) {
            here.shared.process(process).pid.store(0, Ordering::Release);
            return None;
        }
        HERE.store(std::ptr::from_ref(here).cast_mut(), Ordering::Release);
        Some(here)
    }

    /// Tells the other side of the part of the memory that this process has; it says which process that is to it.
    pub fn registers(&self, part: u32) -> bool {
        let pid = ask(-1, Ask::Register, part as usize);
        if pid > 0 {
            self.pid.store(pid as u32, Ordering::Relaxed);
        }
        pid > 0
    }

    /// Prints calls from now on, to a pipe that is a descriptor of the process `of`.
    pub fn print_to(&self, of: u32, pipe: u32) {
        let Some(file) = open_of(of, pipe, OpenOptions::new().read(true).write(true)) else {
            return;
        };
        let fd = self.own(file.into_raw_fd());
        // A reader that takes nothing is not waited for without end.
        // SAFETY: a descriptor of ours.
        unsafe { system::fcntl64(fd, system::F_SETFL, system::O_NONBLOCK as usize) };
        pipe::begin(fd);
    }

    /// The number of its part of the memory; none of a child for which there was none.
    pub fn part(&self) -> Option<u32> {
        let part = self.process.load(Ordering::Relaxed);
        (part != NONE).then_some(part)
    }

    fn place(&self, fd: i32) -> Option<&AtomicU32> {
        if fd < 0 || fd as usize >= DESCRIPTORS {
            return None;
        }
        let part = self.part()?;
        Some(&self.shared.process(part).descriptors[fd as usize])
    }

    /// The number of the socket that a descriptor is.
    pub fn number(&self, fd: i32) -> Option<u32> {
        match self.place(fd)?.load(Ordering::Acquire) {
            0 | OWN => None,
            place => Some(place - 1),
        }
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

    pub fn own_pid(&self) -> u32 {
        self.own_pid.load(Ordering::Relaxed)
    }

    /// Whether the caller is this process, and not a child that was made without our knowing (vfork(2), clone(2) with its parent's memory):
    /// its descriptors are others.
    pub fn is_here(&self) -> bool {
        // SAFETY: always.
        self.own_pid() == unsafe { system::getpid() } as u32
    }

    /// A descriptor is this socket from now on.
    pub fn assign(&self, fd: i32, number: u32) {
        if let Some(part) = self.part() {
            self.shared.assign(part, fd, number);
        }
    }

    /// A child is about to be made: whether there is a part of the memory for it, which is its from then on.
    pub fn takes_part_for_child(&self) -> bool {
        // What keeps the library's descriptors is a part: without one a child could not say so to its own.
        let part = self.part();
        let child = part.and_then(|_| self.shared.take_process(self.pid()));
        CHILD.set(child.unwrap_or(NONE));
        child.is_some()
    }

    /// Whether a part was taken for the child that this thread makes.
    pub fn has_part_for_child(&self) -> bool {
        CHILD.get() != NONE
    }

    /// The child that a part was taken for has its sockets from its first moment on.
    pub fn has_child(&self) {
        let child = CHILD.get();
        let Some(part) = self.part().filter(|_| child != NONE) else {
            return;
        };
        for (fd, number) in self.shared.descriptors(part) {
            self.shared.assign(child, fd, number);
        }
        let limits = &self.shared.process(part).address_space;
        let limits = limits.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.shared.raised_limits(child, limits);
        for (fd, _) in self.known().filter(|(_, is_own)| *is_own) {
            self.shared.own(child, fd);
        }
    }

    /// This is the child: its part of the memory is the one that was taken for it, if there was one.
    pub fn is_child(&self) -> Option<u32> {
        let child = CHILD.replace(NONE);
        // SAFETY: always.
        let pid = unsafe { system::getpid() } as u32;
        self.process.store(child, Ordering::Relaxed);
        self.pid.store(pid, Ordering::Relaxed);
        self.own_pid.store(pid, Ordering::Relaxed);
        self.part()
    }

    /// This thread has made a child: its part has this number until it says so itself, for it may end before.
    pub fn has_made(&self, child: u32) {
        let (part, pid) = (CHILD.replace(NONE), self.pid());
        // In a namespace of processes of its own it is not the number that the other side knows.
        if part != NONE && pid == self.own_pid() {
            let owner = &self.shared.process(part).pid;
            let _ = owner.compare_exchange(pid, child, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// A child that was to be made was not.
    pub fn has_no_child(&self) {
        self.leaves(CHILD.replace(NONE));
    }

    /// This is a child whose part the other side does not know.
    pub fn has_no_part(&self) {
        self.leaves(self.process.load(Ordering::Relaxed));
        self.process.store(NONE, Ordering::Relaxed);
    }

    fn leaves(&self, part: u32) {
        if part == NONE {
            return;
        }
        for (fd, number) in self.shared.descriptors(part) {
            if matches!(self.shared.unassign(part, fd), Some((_, true))) {
                self.submit(number);
            }
        }
        self.shared.leave_process(part);
    }

    /// Numbers descriptors of the library's own high, and keeps the program from closing them.
    pub fn own(&self, fd: i32) -> i32 {
        if fd < 0 {
            return fd;
        }
        // SAFETY: a descriptor of ours.
        let high =
            unsafe { system::fcntl64(fd, system::F_DUPFD_CLOEXEC, OWN_DESCRIPTORS_MIN as usize) };
        let fd = match high {
            0.. => {
                // SAFETY: as above.
                unsafe { system::close(fd) };
                high
            }
            _ => fd,
        };
        if let Some(part) = self.part() {
            self.shared.own(part, fd);
        }
        fd
    }

    /// A descriptor of the library's own is not needed any more.
    pub fn disown(&self, fd: i32) {
        self.forget_own(fd);
        // SAFETY: a descriptor of ours.
        unsafe { system::close(fd) };
    }

    /// One was closed.
    pub fn forget_own(&self, fd: i32) {
        if let Some(place) = self.place(fd) {
            place.store(0, Ordering::Release);
        }
    }

    /// Whether a descriptor is a socket, or the library's own.
    pub fn knows(&self, fd: i32) -> bool {
        let place = self.place(fd);
        place.is_some_and(|place| place.load(Ordering::Relaxed) != 0)
    }

    /// The descriptors that are sockets, or the library's own (true), in their order.
    pub fn known(&self) -> impl Iterator<Item = (i32, bool)> {
        let part = self.part().into_iter();
        part.flat_map(|part| {
            let process = self.shared.process(part);
            let end = process.end.load(Ordering::Relaxed) as usize;
            let all = process.descriptors.iter().take(end).enumerate();
            all.filter_map(|(fd, number)| {
                let number = number.load(Ordering::Relaxed);
                (number != 0).then_some((fd as i32, number == OWN))
            })
        })
    }

    /// Whether a descriptor is the library's own.
    pub fn is_own(&self, fd: i32) -> bool {
        let place = self.place(fd);
        place.is_some_and(|place| place.load(Ordering::Relaxed) == OWN)
    }

    pub fn lock<'a>(&self, word: &'a AtomicU32) -> Held<'a> {
        let section = Section::enter();
        Held {
            _lock: self.shared.lock(word, self.pid()),
            _section: section,
        }
    }

    /// Something was done to a socket that the other side is to look at.
    pub fn submit(&self, number: u32) {
        if self.shared.work().set(number) {
            fence(Ordering::SeqCst);
            if self.shared.engine().load(Ordering::Relaxed) == SLEEPS {
                // Something else than we has woken this thread, or it runs for longer than was thought.
                self.shared.one_runs();
                self.ring();
            }
        }
    }

    /// Before this thread asks the kernel, and waits for as long as this.
    pub fn let_go_for(&self, timeout: Option<Duration>) {
        match timeout {
            Some(Duration::ZERO) => self.looked_in_vain(),
            _ => self.let_go(),
        }
    }

    /// Before this thread waits: what was submitted is looked at now.
    pub fn let_go(&self) {
        if self.shared.is_awaited() {
            self.ring();
        }
    }

    /// Before this thread goes on, that looked for something to do and found nothing: as above. It is not one that waits.
    pub fn looked_in_vain(&self) {
        if self.shared.has_left_work() {
            self.ring();
        }
    }

    fn ring(&self) {
        // Without a part nothing keeps the bell from being closed, and another file from having its number.
        if self.part().is_some() && self.shared.engine().swap(AWAKE, Ordering::AcqRel) != AWAKE {
            let before = system::errno();
            // SAFETY: a byte; a bell that is full rings already.
            unsafe { system::write(self.bell.load(Ordering::Relaxed), b"x".as_ptr(), 1) };
            system::set_errno(before);
        }
    }
}
