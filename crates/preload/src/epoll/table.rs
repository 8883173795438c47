//! The sets of this process: which of its descriptors is which.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::set::Set;
use crate::by_number::ByNumber;
use crate::memory::DESCRIPTORS;
use crate::process::descriptor_set::DescriptorSet;
use crate::signals::Section;
use crate::system::EpollEvent;

/// All of them.
#[derive(Default)]
pub struct Sets {
    /// By descriptor.
    pub(super) by_fd: ByNumber<i32, u64>,
    pub(super) all: ByNumber<u64, Set>,
    made: u64,
    /// The kernel's descriptors, by number: in which sets, some of which may have been closed, and how. A socket of the kernel's may become
    /// a shared one.
    pub(super) others: ByNumber<i32, Vec<(u64, EpollEvent)>>,
}

static SETS: Mutex<Option<Sets>> = Mutex::new(None);

/// Descriptors that may be sets, or of the kernel's in one: a bit for each. Those beyond the last always may.
static KNOWN: DescriptorSet = DescriptorSet::new();

pub(super) fn note(fd: i32) {
    KNOWN.insert(fd);
}

pub(super) fn unnote(fd: i32) {
    KNOWN.remove(fd);
}

/// Whether [`closed`](super::closed) is to be told when a descriptor is closed.
pub fn knows(fd: i32) -> bool {
    KNOWN.has(fd) || fd as usize >= DESCRIPTORS
}

fn lock() -> MutexGuard<'static, Option<Sets>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn with<R>(look: impl FnOnce(&mut Sets) -> R) -> R {
    let _handlers_wait = Section::enter();
    look(lock().get_or_insert_with(Sets::default))
}

/// Looks at the set of a descriptor, if it has a shared socket in it, or had.
pub fn with_set<R>(fd: i32, look: impl FnOnce(&mut Set) -> R) -> Option<R> {
    with(|sets| sets.of(fd).map(look))
}

impl Sets {
    /// The set of a descriptor.
    pub(super) fn of(&mut self, fd: i32) -> Option<&mut Set> {
        let number = self.by_fd.get(&fd)?;
        self.all.get_mut(number)
    }

    pub(super) fn made(&mut self, fd: i32) -> &mut Set {
        note(fd);
        let made = &mut self.made;
        let number = *self.by_fd.entry(fd).or_insert_with(|| {
            *made += 1;
            *made
        });
        self.all
            .entry(number)
            .or_insert_with(|| Set::with_descriptors(1))
    }

    /// The number of a set that something is put into. Of one whose making was not seen it is not known who waits for it, nor what is in it.
    pub(super) fn found(&mut self, fd: i32) -> u64 {
        if let Some(&number) = self.by_fd.get(&fd) {
            return number;
        }
        let set = self.made(fd);
        (set.alone, set.has_kernels) = (1, true);
        self.made
    }

    /// Adds the descriptors of the sockets in a set, and in those in it, of which the kernel is to tell from now on.
    pub(super) fn sockets_in(&mut self, number: u64, sockets: &mut Vec<i32>) {
        let Some(set) = self.all.get_mut(&number) else {
            return;
        };
        set.is_polled = true;
        sockets.extend(set.members.values().map(|member| member.fd));
        let nested: Vec<u64> = set.nested.values().map(|inner| inner.of).collect();
        for inner in nested {
            self.sockets_in(inner, sockets);
        }
    }
}

/// The lock is let go of before handlers may run.
type Held = (MutexGuard<'static, Option<Sets>>, Section);

thread_local! {
    /// Held while the process forks: the child finds it as it was. What would be dropped at a thread's end takes memory to note that.
    static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
}

pub fn hold() {
    let handlers_wait = Section::enter();
    let mut held = lock();
    // Either process may put descriptors of the kernel's into sets of both.
    let sets = held.iter_mut().flat_map(|sets| sets.all.values_mut());
    sets.for_each(|set| set.has_kernels = true);
    HELD.set(Some(ManuallyDrop::new((held, handlers_wait))));
}

pub fn let_go() {
    drop(HELD.take().map(ManuallyDrop::into_inner));
}
