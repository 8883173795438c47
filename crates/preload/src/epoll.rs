//! epoll sets with shared sockets in them (epoll(7)).
//!
//! The kernel's set is beneath, under its descriptor: with the kernel's descriptors in it, and one of ours that wakes who waits.
//! What has become ready of the sockets comes as their numbers, in the watcher's news; so a wait looks at those alone.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ask::ask;
use crate::memory::state::{FINISHED, LISTENS, NO_READS, NO_WRITES, OVER};
use crate::memory::{Ask, DESCRIPTORS};
use crate::process::{Found, Here, find, here};
use crate::system::{
    self, EDGE, EEXIST, EINVAL, ENOENT, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, ERR,
    EpollEvent, HUP, IN, O_CLOEXEC, O_NONBLOCK, ONESHOT, OUT, RDHUP, RDNORM, WRNORM,
};

/// The word of our own descriptor in the kernel's set.
const OURS: u64 = 0x4558_4f53_7761_6b65;

/// A socket's place in a set.
struct Member {
    fd: i32,
    events: u32,
    data: u64,
    queued: bool,
}

struct Set {
    /// The process that made it.
    pid: u32,
    watcher: u32,
    /// What the other side wakes us by.
    waker: i32,
    members: HashMap<u32, Member>,
    ready: VecDeque<u32>,
}

#[derive(Default)]
struct Sets {
    all: HashMap<i32, Arc<Mutex<Set>>>,
    /// The kernel's descriptors, by number: in which sets, and how. A socket of the kernel's may become a shared one.
    others: HashMap<i32, Vec<(i32, EpollEvent)>>,
}

static SETS: Mutex<Option<Sets>> = Mutex::new(None);

/// Descriptors that may be sets, or of the kernel's in one: a bit for each. Those beyond the last always may.
static KNOWN: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

fn note(fd: i32) {
    if let Some(word) = KNOWN.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
}

/// Whether [`closed`] is to be told when a descriptor is closed.
pub fn knows(fd: i32) -> bool {
    let word = KNOWN.get(fd as usize / 64);
    word.is_none_or(|word| word.load(Ordering::Relaxed) & (1 << (fd % 64)) != 0)
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<R>(look: impl FnOnce(&mut Sets) -> R) -> R {
    look(lock(&SETS).get_or_insert_with(Sets::default))
}

fn set_of(fd: i32) -> Option<Arc<Mutex<Set>>> {
    with(|sets| sets.all.get(&fd).cloned())
}

thread_local! {
    /// Held while the process forks: the child finds it as it was.
    static HELD: std::cell::Cell<Option<MutexGuard<'static, Option<Sets>>>> = const { std::cell::Cell::new(None) };
}

pub fn hold() {
    HELD.set(Some(lock(&SETS)));
}

pub fn let_go() {
    drop(HELD.take());
}

/// What a socket is ready for, in epoll's bits.
pub fn readiness(found: Found, wanted: u32) -> u32 {
    let socket = found.socket();
    if socket.is(LISTENS) {
        return match found.is_readable() {
            _ if !found.listens() => OUT | WRNORM | HUP,
            true => IN | RDNORM,
            false => 0,
        };
    }
    let mut ready = 0;
    if found.is_readable() {
        ready |= IN | RDNORM;
    }
    if wanted & (OUT | WRNORM) != 0 && found.is_writable() {
        ready |= OUT | WRNORM;
    }
    if socket.error.load(Ordering::Relaxed) != 0 {
        ready |= ERR;
    }
    let ended = socket.is(FINISHED | OVER | NO_READS);
    if ended {
        ready |= RDHUP;
    }
    if socket.is(OVER) || (ended && socket.is(NO_WRITES)) {
        ready |= HUP;
    }
    ready
}

impl Set {
    /// Queues what there is news of.
    fn hear(&mut self, here: &Here) {
        let (members, ready) = (&mut self.members, &mut self.ready);
        here.shared.watcher(self.watcher).news.drain(|number| {
            if let Some(member) = members.get_mut(&number)
                && !member.queued
            {
                member.queued = true;
                ready.push_back(number);
            }
        });
    }

    /// Gives what is ready.
    fn collect(&mut self, here: &'static Here, events: &mut [EpollEvent]) -> usize {
        self.hear(here);
        let mut count = 0;
        for _ in 0..self.ready.len() {
            if count == events.len() {
                break;
            }
            let Some(number) = self.ready.pop_front() else {
                break;
            };
            let Some(member) = self.members.get_mut(&number) else {
                continue;
            };
            let wanted = member.events;
            let ready = readiness(Found { here, number }, wanted) & (wanted | ERR | HUP);
            member.queued = false;
            // After it was told once, nothing is wanted of a member of that kind.
            let is_idle = wanted & !(EDGE | ONESHOT) == 0 && wanted & ONESHOT != 0;
            if ready == 0 || is_idle {
                continue;
            }
            events[count] = EpollEvent {
                events: ready,
                data: member.data,
            };
            count += 1;
            if wanted & ONESHOT != 0 {
                member.events = wanted & (EDGE | ONESHOT);
            } else if wanted & EDGE == 0 {
                member.queued = true;
                self.ready.push_back(number);
            }
        }
        count
    }
}

/// The set of a descriptor, which is to have a socket in it.
fn make(here: &'static Here, fd: i32) -> Result<Arc<Mutex<Set>>, i32> {
    if let Some(set) = set_of(fd) {
        return Ok(set);
    }
    let (watcher, waker) = watcher(here)?;
    let mut event = EpollEvent {
        events: IN | EDGE,
        data: OURS,
    };
    // SAFETY: the event lives as long as the call.
    if unsafe { system::epoll_ctl(fd, EPOLL_CTL_ADD, waker, &mut event) } < 0 {
        let number = system::errno();
        leave_watcher(here, watcher, waker);
        return Err(number);
    }
    let set = Arc::new(Mutex::new(Set {
        pid: here.pid(),
        watcher,
        waker,
        members: HashMap::new(),
        ready: VecDeque::new(),
    }));
    note(fd);
    with(|sets| sets.all.insert(fd, Arc::clone(&set)));
    Ok(set)
}

/// A watcher, and the descriptor by which it is woken.
pub fn watcher(here: &'static Here) -> Result<(u32, i32), i32> {
    const ENOSPC: i32 = 28;
    let number = here.shared.take_watcher().ok_or(ENOSPC)?;
    // SAFETY: always.
    let waker = here.own(unsafe { system::eventfd(0, O_CLOEXEC | O_NONBLOCK) });
    if waker < 0 || ask(waker, Ask::Watch, number as usize) < 0 {
        let error = system::errno();
        leave_watcher(here, number, waker);
        return Err(error);
    }
    here.shared.watcher(number).news.drain(|_| {});
    Ok((number, waker))
}

pub fn leave_watcher(here: &'static Here, number: u32, waker: i32) {
    here.shared.watcher(number).reset();
    here.shared.leave_watcher(number);
    if waker >= 0 {
        here.disown(waker);
    }
}

/// epoll_ctl(2) of a shared socket.
pub fn control(
    set: i32,
    what: i32,
    fd: i32,
    found: Found,
    event: Option<EpollEvent>,
) -> Result<(), i32> {
    let here = found.here;
    let set = match what {
        EPOLL_CTL_ADD => make(here, set)?,
        _ => set_of(set).ok_or(ENOENT)?,
    };
    let set = &mut *lock(&set);
    match what {
        EPOLL_CTL_DEL => {
            set.members.remove(&found.number).ok_or(ENOENT)?;
            here.shared.watch(found.number, set.watcher, false);
            return Ok(());
        }
        EPOLL_CTL_ADD if set.members.contains_key(&found.number) => return Err(EEXIST),
        EPOLL_CTL_MOD if !set.members.contains_key(&found.number) => return Err(ENOENT),
        EPOLL_CTL_ADD | EPOLL_CTL_MOD => {}
        _ => return Err(EINVAL),
    }
    let event = event.ok_or(system::EFAULT)?;
    let member = set.members.entry(found.number).or_insert(Member {
        fd,
        events: 0,
        data: 0,
        queued: false,
    });
    (member.events, member.data) = (event.events, event.data);
    here.shared.watch(found.number, set.watcher, true);
    // What is ready already is told.
    if !member.queued {
        member.queued = true;
        set.ready.push_back(found.number);
    }
    Ok(())
}

/// A descriptor of the kernel's has been added to a set of the kernel's, changed, or taken out.
pub fn remember(set: i32, what: i32, fd: i32, event: Option<EpollEvent>) {
    note(fd);
    with(|sets| {
        let places = sets.others.entry(fd).or_default();
        places.retain(|(of, _)| *of != set);
        if let (EPOLL_CTL_ADD | EPOLL_CTL_MOD, Some(event)) = (what, event) {
            places.push((set, event));
        }
        if places.is_empty() {
            sets.others.remove(&fd);
        }
    });
}

/// A socket of the kernel's has become a shared one, under its number: it goes on in the sets that it is in.
pub fn move_in(fd: i32) {
    let places = with(|sets| sets.others.remove(&fd));
    let Some(found) = find(fd) else {
        return;
    };
    for (set, event) in places.unwrap_or_default() {
        // A set that is full of watchers tells nothing of it.
        let _ = control(set, EPOLL_CTL_ADD, fd, found, Some(event));
    }
}

/// The sets that a shared socket is in under this descriptor, which it leaves.
pub fn places(fd: i32, number: u32) -> Vec<(i32, EpollEvent)> {
    with(|sets| {
        let mut places = Vec::new();
        for (&at, set) in &sets.all {
            let set = &mut *lock(set);
            if set
                .members
                .get(&number)
                .is_some_and(|member| member.fd == fd)
                && let Some(member) = set.members.remove(&number)
            {
                let (events, data) = (member.events, member.data);
                places.push((at, EpollEvent { events, data }));
            }
        }
        places
    })
}

/// No descriptor of this process refers to a socket any more.
pub fn forget(number: u32) {
    with(|sets| {
        for set in sets.all.values() {
            let set = &mut *lock(set);
            // A child's copy of its parent's set goes on in the parent.
            if set.members.remove(&number).is_some()
                && let Some(here) = here()
                && set.pid == here.pid()
            {
                here.shared.watch(number, set.watcher, false);
            }
        }
    });
}

/// A descriptor is closed, that may be a set's, or stand in one.
pub fn closed(here: &'static Here, fd: i32) {
    if let Some(word) = KNOWN.get(fd as usize / 64) {
        word.fetch_and(!(1 << (fd % 64)), Ordering::Relaxed);
    }
    let set = with(|sets| {
        sets.others.remove(&fd);
        sets.all.remove(&fd)
    });
    let Some(set) = set else {
        return;
    };
    let set = lock(&set);
    // A child's copy of its parent's set goes on in the parent.
    if set.pid == here.pid() {
        for &number in set.members.keys() {
            here.shared.watch(number, set.watcher, false);
        }
        leave_watcher(here, set.watcher, set.waker);
    }
}

/// Descriptors are closed, of which any may be a set's, or stand in one.
pub fn closed_range(here: &'static Here, first: u32, last: u32) {
    let known = with(|sets| {
        let known = sets.all.keys().chain(sets.others.keys());
        let inside = known.filter(|fd| (first..=last).contains(&(**fd as u32)));
        inside.copied().collect::<Vec<i32>>()
    });
    known.into_iter().for_each(|fd| closed(here, fd));
}

/// epoll_pwait(2), with a time limit; `None` where the kernel's set has no shared sockets.
///
/// # Safety
///
/// `mask` is a signal mask or null.
pub unsafe fn wait(
    fd: i32,
    events: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: *const u8,
) -> Option<Result<usize, i32>> {
    let here = here()?;
    let set = set_of(fd)?;
    let watcher = here.shared.watcher(lock(&set).watcher);
    let until = timeout.map(|timeout| Instant::now() + timeout);
    // The kernel's descriptors have room in each answer.
    let ours = (events.len() - events.len() / 4).max(1);
    loop {
        let mut count = lock(&set).collect(here, &mut events[..ours]);
        // SAFETY: the caller's promise.
        match unsafe { kernel(fd, &mut events[count..], 0, mask) } {
            Ok(more) => count += more,
            Err(number) if count == 0 => return Some(Err(number)),
            Err(_) => {}
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if count > 0 || left == Some(Duration::ZERO) {
            if count == 0 {
                here.let_go();
            }
            return Some(Ok(count));
        }
        watcher.lie_down();
        // What is there already keeps it awake.
        let slept = watcher.news.is_empty().then(|| {
            here.let_go();
            // SAFETY: the caller's promise.
            unsafe { kernel(fd, events, milliseconds(left), mask) }
        });
        watcher.get_up();
        if let Some(slept @ (Ok(1..) | Err(_))) = slept {
            return Some(slept);
        }
    }
}

/// A time limit as the kernel has it: never shorter, and none is -1.
fn milliseconds(time: Option<Duration>) -> i32 {
    time.map_or(-1, |time| {
        let ms = time.as_nanos().div_ceil(1_000_000);
        ms.min(i32::MAX as u128) as i32
    })
}

/// What is ready of the kernel's; our own descriptor is not told.
unsafe fn kernel(
    fd: i32,
    events: &mut [EpollEvent],
    timeout: i32,
    mask: *const u8,
) -> Result<usize, i32> {
    if events.is_empty() {
        return Ok(0);
    }
    let most = events.len().min(i32::MAX as usize) as i32;
    // SAFETY: there is room for as many events; the mask is the caller's promise.
    let got = unsafe { system::epoll_pwait(fd, events.as_mut_ptr(), most, timeout, mask) };
    let mut count = usize::try_from(got).map_err(|_| system::errno())?;
    let is_ours = |event: &EpollEvent| event.data == OURS;
    if let Some(at) = events[..count].iter().position(is_ours) {
        count -= 1;
        events.swap(at, count);
    }
    Ok(count)
}
