//! Who is told of a socket.

use std::sync::atomic::{Ordering, fence};

use super::mapping::Shared;
use super::sizes::WATCHERS;

impl Shared {
    /// Takes a watcher that no process has, for one.
    pub fn take_watcher(&self, pid: u32) -> Option<u32> {
        (0..WATCHERS as u32).find(|&number| self.hand_over(number, 0, pid))
    }

    /// Gives a watcher back, if that process has it: once it has, another may have taken it.
    pub fn leave_watcher(&self, number: u32, pid: u32) {
        self.hand_over(number, pid, 0);
    }

    /// Whether a process has a watcher.
    pub fn has_watcher(&self, number: u32, pid: u32) -> bool {
        (number as usize) < WATCHERS && self.watcher(number).pid.load(Ordering::Acquire) == pid
    }

    fn hand_over(&self, number: u32, from: u32, to: u32) -> bool {
        let owner = &self.watcher(number).pid;
        let handed = owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        handed.is_ok()
    }

    /// Numbers of the watchers that are told of a socket.
    pub fn watchers(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let words = self.socket(number).watchers.iter().enumerate();
        words.flat_map(|(at, word)| {
            let mut word = word.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let place = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at as u32 * 64 + place)
            })
        })
    }

    /// Whether a watcher is told of a socket; what came before that is seen by who looks behind this.
    pub fn watch(&self, number: u32, watcher: u32, on: bool) {
        let word = &self.socket(number).watchers[watcher as usize / 64 % (WATCHERS / 64)];
        let bit = 1 << (watcher % 64);
        match on {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
        fence(Ordering::SeqCst);
    }
}
