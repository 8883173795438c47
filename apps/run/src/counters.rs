//! What is counted, and said on SIGUSR1.

use std::sync::atomic::Ordering;

use exos_preload::memory::Shared;

use crate::supervise::Supervisor;

/// Bytes that have passed: to programs, and from them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub to_program: u64,
    pub from_program: u64,
}

impl Moved {
    pub fn sum(self) -> u64 {
        self.to_program + self.from_program
    }

    /// Those of a connection that is not counted by itself any more.
    pub fn add(&mut self, other: Self) {
        self.to_program += other.to_program;
        self.from_program += other.from_program;
    }
}

/// What is counted of shared sockets that are over.
#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    /// How many there were, those that are open included.
    pub sockets: u64,
    pub calls: u64,
    pub moved: Moved,
}

/// What is counted of intercepted calls.
#[derive(Debug, Default)]
pub(crate) struct CallCounters {
    /// Answered here.
    pub answered: u64,
    /// Told to us, and left to the kernel.
    pub passed: u64,
}

/// Calls that a shared socket has answered since it was made.
pub(crate) fn calls_of(memory: &Shared, number: u32) -> u64 {
    memory.socket(number).calls.load(Ordering::Relaxed)
}

impl Supervisor {
    /// Tells the operator of all that was counted.
    pub fn tell_counters(&self) {
        let (mut calls, mut moved) = (0, self.sockets.moved);
        let (mut shared, mut shared_open) = (0, 0);
        if let Some(sharing) = &self.sharing {
            (calls, shared, shared_open) = (
                sharing.counters.calls,
                sharing.counters.sockets,
                sharing.count,
            );
            moved.add(sharing.counters.moved);
            for (number, entry) in sharing.entries.iter().enumerate() {
                if let Some(entry) = entry {
                    calls += calls_of(&sharing.memory, number as u32);
                    moved.add(entry.moved());
                }
            }
        }
        for (_, socket) in &self.sockets.all {
            moved.add(socket.moved());
        }
        let counters = [
            ("calls_shared", calls),
            ("calls_intercepted", self.counters.answered),
            ("calls_passed", self.counters.passed),
            ("sockets_shared", shared),
            ("sockets_shared_open", shared_open as u64),
            ("sockets_intercepted", self.sockets.made),
            ("sockets_intercepted_open", self.sockets.all.len() as u64),
            ("bytes_to_program", moved.to_program),
            ("bytes_from_program", moved.from_program),
        ];
        let lines = counters.map(|(name, count)| format!("\n  {name:24}  {count}"));
        exos_program::info!("exos run:{}", lines.concat());
    }
}
