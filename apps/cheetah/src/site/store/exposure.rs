//! Files that root alone may read and this server serves: nothing keeps root out, so that a file's mode is no protection.

use std::sync::atomic::{AtomicBool, Ordering};

use exos_host::caps::{self, CapabilitySet};
use rustix::fs::Stat;

use crate::site::path::SitePath;

/// "Others" may read (stat(2), `S_IROTH`).
const OTHERS_READ: u32 = 0o004;

/// Says so once of a file that is served though others may not read it, and this thread reads whatever it likes.
pub(super) fn note(path: &SitePath, stat: &Stat) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let is_open = stat.st_mode & OTHERS_READ != 0;
    if is_open || IS_TOLD.load(Ordering::Relaxed) || !caps::has(CapabilitySet::DAC_OVERRIDE) {
        return;
    }
    if !IS_TOLD.swap(true, Ordering::Relaxed) {
        exos_program::warn!(
            "exos serve: {} is served though its mode is {:04o}: nothing keeps root from reading it. Name a user who may \
             read what is to be served: --user www-data",
            String::from_utf8_lossy(path),
            stat.st_mode & 0o7777
        );
    }
}
