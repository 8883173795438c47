//! Memory that stays in memory (mlock(2)). All of it, once there is the memory of shared sockets, would be 8.3 GiB of which next to none is used:
//! pages are locked as they are used, the program's own too.

use super::*;
use crate::trace::number as n;

/// What is mapped, what will be, and each page of that only when it is used (asm/mman.h).
const MCL_CURRENT_FUTURE: i32 = 1 | 2;
const MCL_ONFAULT: i32 = 4;

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn mlockall(flags: i32) -> i32 {
    let used_alone = match flags & MCL_CURRENT_FUTURE {
        // Which the kernel refuses.
        0 => flags,
        _ => flags | MCL_ONFAULT,
    };
    // SAFETY: it changes no memory.
    unsafe { system::call(n::MLOCKALL, [used_alone as usize, 0, 0, 0, 0, 0]) as i32 }
}
