//! What is counted, and said on SIGUSR1.

use crate::trace::say;

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

    pub fn add(&mut self, other: Self) {
        self.to_program += other.to_program;
        self.from_program += other.from_program;
    }
}

/// What is counted of the sockets of one way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SocketCounters {
    /// How many there were, those that are open included.
    pub made: u64,
    pub open: usize,
    /// Connected without a look at what they were before.
    pub untouched: u64,
    /// Calls that they have answered by themselves.
    pub calls: u64,
    pub moved: Moved,
}

/// What is counted of intercepted calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallCounters {
    /// Answered here.
    pub answered: u64,
    /// Told to us, and left to the kernel.
    pub passed: u64,
}

/// Tells the operator of all that was counted.
pub(crate) fn report(calls: CallCounters, shared: SocketCounters, intercepted: SocketCounters) {
    let mut moved = shared.moved;
    moved.add(intercepted.moved);
    let counters = [
        ("calls_shared", shared.calls),
        ("calls_intercepted", calls.answered),
        ("calls_passed", calls.passed),
        ("sockets_shared", shared.made),
        ("sockets_shared_open", shared.open as u64),
        ("sockets_shared_untouched", shared.untouched),
        ("sockets_intercepted", intercepted.made),
        ("sockets_intercepted_open", intercepted.open as u64),
        ("bytes_to_program", moved.to_program),
        ("bytes_from_program", moved.from_program),
    ];
    let lines = counters.map(|(name, count)| format!("\n  {name:24}  {count}"));
    say(format_args!("exos run:{}", lines.concat()));
}
