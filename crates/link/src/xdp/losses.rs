//! Frames that an interface has dropped on their way out, as its driver counts them.
//!
//! The kernel says of no single frame that it was lost behind our program or our ring: a veth takes 256 frames a queue at a
//! time, and drops what is beyond. But drivers count (`tx_dropped`; a veth each frame, a TAP device one for as many as the kernel
//! hands over together), and the file of sysfs that tells how many needs no privilege once it is open, and no lock.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use exos_host::netns::NetNs;
use exos_host::sysfs::Sysfs;

use crate::Error;

/// Longest count: the digits of 2^64 and a line end.
const COUNT_LEN_MAX: usize = 24;

/// The count of one interface, of frames of all senders.
#[derive(Clone, Debug)]
pub(super) struct Losses {
    file: Arc<File>,
    /// What it was at first.
    before: u64,
}

impl Losses {
    /// Of an interface in the calling thread's network namespace, from now on.
    ///
    /// # Errors
    ///
    /// Sysfs cannot be mounted, which takes CAP_SYS_ADMIN.
    pub(super) fn of(interface: &str) -> Result<Self, Error> {
        let path = format!("class/net/{interface}/statistics/tx_dropped");
        let file = Sysfs::of(&NetNs::current()?)?.open(&path)?;
        Ok(Self::in_file(file))
    }

    /// By the open file that tells the count, from now on.
    pub(super) fn in_file(file: File) -> Self {
        let mut losses = Self {
            file: Arc::new(file),
            before: 0,
        };
        losses.before = losses.count();
        losses
    }

    /// How many there were; 0 when the interface has gone.
    pub(super) fn count(&self) -> u64 {
        let mut text = [0; COUNT_LEN_MAX];
        let len = self.file.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..len]).ok();
        let count = text.and_then(|text| text.trim_end().parse::<u64>().ok());
        count.unwrap_or(0).saturating_sub(self.before)
    }
}
