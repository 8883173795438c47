//! The pipe that lines of printed calls go to (`exos run --trace`), and in which calls nothing is printed.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::system::{self, EAGAIN};
use crate::trace::number;

/// What lines are written to; none where nobody asks for them.
static PIPE: AtomicI32 = AtomicI32::new(-1);

thread_local! {
    /// In a call that is printed: those that the library makes in it are not.
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Lines are written to this descriptor from now on.
pub fn begin(fd: i32) {
    PIPE.store(fd, Ordering::Relaxed);
}

/// Whether calls are printed.
pub fn is_on() -> bool {
    PIPE.load(Ordering::Relaxed) >= 0
}

/// Writes a line, which waits a little for a reader that is slow: one that takes nothing for so long has gone, or is stopped, and is
/// written to no more.
pub fn write(line: &[u8]) {
    const TRIES: u32 = 2000;
    const PAUSE: Duration = Duration::from_millis(1);
    let pipe = PIPE.load(Ordering::Relaxed) as usize;
    let words = [pipe, line.as_ptr().expose_provenance(), line.len(), 0, 0, 0];
    for _ in 0..TRIES {
        // SAFETY: the bytes live as long as the call.
        if unsafe { system::call(number::WRITE, words) } >= 0 || system::errno() != EAGAIN {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    // It is waited for once, not with each call.
    PIPE.store(-1, Ordering::Relaxed);
}

/// A call begins: whether it is within another that is printed.
pub fn enter() -> bool {
    WITHIN.replace(true)
}

/// A call that was not within another has ended.
pub fn leave() {
    WITHIN.set(false);
}

/// A handler's calls are printed, though it has come into one of the library's.
pub fn of_handler<T>(handler: impl FnOnce() -> T) -> T {
    let within = WITHIN.replace(false);
    let result = handler();
    WITHIN.set(within);
    result
}
