//! What wakes a thread that waits for many sockets.

use crate::ask::ask;
use crate::memory::Ask;
use crate::process::{Here, NO_WATCHER};
use crate::system::{self, O_CLOEXEC, O_NONBLOCK};

/// What wakes those that wait for sockets: the watcher's number, and the descriptor that the other side writes to.
#[derive(Copy, Clone, PartialEq)]
pub struct Waker {
    /// The process that has it.
    pub pid: u32,
    pub watcher: u32,
    pub fd: i32,
}

impl Waker {
    /// A watcher of this process's, which the other side knows how to wake.
    ///
    /// # Errors
    ///
    /// [`NO_WATCHER`]: there is none, or no descriptor for it. What is to be waited for is to be shared no more.
    pub fn new(here: &'static Here) -> Result<Self, i32> {
        // One of a process that the other side does not know would never be given back.
        here.part().ok_or(NO_WATCHER)?;
        let watcher = here.shared.take_watcher(here.pid()).ok_or(NO_WATCHER)?;
        // SAFETY: always.
        let fd = here.own(unsafe { system::eventfd(0, O_CLOEXEC | O_NONBLOCK) });
        let waker = Self {
            pid: here.pid(),
            watcher,
            fd,
        };
        here.shared.watcher(watcher).reset();
        if fd < 0 || ask(fd, Ask::Watch, watcher as usize) < 0 {
            waker.leave(here);
            return Err(NO_WATCHER);
        }
        Ok(waker)
    }

    /// It is not needed any more.
    pub fn leave(self, here: &'static Here) {
        here.shared.leave_watcher(self.watcher, self.pid);
        if self.fd >= 0 {
            here.disown(self.fd);
        }
    }

    /// Wakes a thread that sleeps, if there is one.
    pub fn wake_sleepers(self, here: &Here) {
        if here.shared.watcher(self.watcher).is_to_be_told() {
            self.wake();
        }
    }

    /// Wakes another thread of this process.
    pub fn wake(self) {
        let before = system::errno();
        // SAFETY: eight bytes. One that counts already has woken.
        unsafe { system::write(self.fd, 1_u64.to_ne_bytes().as_ptr(), 8) };
        system::set_errno(before);
    }
}
