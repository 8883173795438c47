//! Calls that set what signals do (sigaction(2), signal(2)).

use super::*;
use crate::signals::{set, set_handler};

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(number: i32, new: *const Action, old: *mut Action) -> i32 {
    // SAFETY: as above.
    unsafe {
        match is_told() {
            true => set(number, new, old),
            false => system::sigaction(number, new, old),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn signal(number: i32, handler: usize) -> usize {
    // SAFETY: as above.
    unsafe {
        match is_told() {
            true => set_handler(number, handler),
            false => system::signal(number, handler),
        }
    }
}
