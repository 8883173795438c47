//! All integration tests of this crate, in one program: each module has its own first line.

mod http;
mod link;
mod load;
mod sharing;
mod tcp;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Measures alone: files and cores are the process's, so its tests measure one after the other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
