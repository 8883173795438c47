//! What the other side is asked for: by a call of the kernel's that it intercepts and answers ([`Ask`]).

use crate::memory::{ASK_LEVEL, Ask};
use crate::system;

/// Gives what it answers, or a negative number.
pub fn ask(fd: i32, what: Ask, value: usize) -> i32 {
    let before = system::errno();
    let value = std::ptr::without_provenance(value);
    let (answer, failed) = loop {
        // SAFETY: the kernel does not see the call; where nobody answers, it knows no such level and does not look at the value.
        let answer = unsafe { system::setsockopt(fd, ASK_LEVEL, what as i32, value, 0) };
        // All that is asked for can be asked for again.
        if answer >= 0 || system::errno() != system::EINTR {
            break (answer, system::errno());
        }
    };
    system::set_errno(before);
    match answer {
        0.. => answer,
        _ => -failed,
    }
}
