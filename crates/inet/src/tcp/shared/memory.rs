//! The memory of all connections' receive queues: where it comes from, how much of it is in use, and
//! how hard it is pressed.
//!
//! Buffers come in classes, each twice as large as the one before, and out-of-order data in blocks
//! of one size. What is given back is kept for the next one who asks, up to
//! [`RECEIVE_POOL_BYTES_MAX`], so that a segment that arrives and is read at once costs no allocation,
//! and a connection at rest holds nothing. Of the pool are also the empty buffers that connections keep for
//! their next segment until they rest ("parked"). What counts as used is what was handed out, at its true
//! size, whether it is filled or not.
//!
//! Use is held against one limit, and the pressure that follows has stages, each with its counter
//! and its own answer, which is given elsewhere: windows shrink (`window`), data beyond gaps is given
//! up (`pruning`), nothing new is taken (`queue`, `passive`). A stage that was entered is left
//! only when use has fallen a sixteenth of the limit below its beginning.
//!
//! Invariant: `used` is the sum of `ReceiveQueue::held` over all connections of the stack.

use crate::limits::{
    OUT_OF_ORDER_BLOCK_BYTES, RECEIVE_BUFFER_BYTES_MIN, RECEIVE_POOL_BYTES_MAX,
    TCP_MEMORY_BYTES_MAX,
};

/// How hard the memory of a stack's connections is pressed.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
pub enum Pressure {
    /// Less than half of the limit is used.
    #[default]
    None,
    /// From half of the limit on: receive buffers go back to the size that they began with.
    Moderate,
    /// From three quarters on: windows are a few segments, and the most of the data that waits
    /// beyond gaps is given up.
    High,
    /// All is used: no new connections, and only data that its program is waiting for.
    Full,
}

/// Stages beside [`Pressure::None`].
const STAGES: usize = 3;

/// The use of memory at one moment.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct MemoryInfo {
    /// Bytes that receive queues hold.
    pub used: usize,
    /// Bytes that they should hold at most.
    pub limit: usize,
    /// Bytes kept for the next use.
    pub pooled: usize,
    /// The stage.
    pub pressure: Pressure,
}

/// A piece of out-of-order data's room.
pub(in crate::tcp) type Block = [u8; OUT_OF_ORDER_BLOCK_BYTES];

/// Classes of buffers: from [`RECEIVE_BUFFER_BYTES_MIN`] to 2 GiB.
const CLASSES: usize = 32 - RECEIVE_BUFFER_BYTES_MIN.trailing_zeros() as usize;

/// All that a stack's receive queues hold, and what they have given back.
pub struct Memory {
    used: usize,
    limit: usize,
    pressure: Pressure,
    /// Use below this, or from `upper` on, is another stage.
    lower: usize,
    upper: usize,
    /// How often each stage was entered.
    entered: [u64; STAGES],
    /// Use at which data beyond gaps is looked through for something to give up.
    prune_at: usize,
    buffers: [Vec<Vec<u8>>; CLASSES],
    #[expect(
        clippy::vec_box,
        reason = "a block is lent out where it lies, not copied"
    )]
    blocks: Vec<Box<Block>>,
    pooled: usize,
    /// Bytes of buffers that connections keep empty for their next segment: part of the pool, as it were.
    parked: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(TCP_MEMORY_BYTES_MAX)
    }
}

impl Memory {
    /// Nothing used of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let mut memory = Self {
            used: 0,
            limit: limit.max(STAGES),
            pressure: Pressure::None,
            lower: 0,
            upper: 0,
            entered: [0; STAGES],
            prune_at: 0,
            buffers: [const { Vec::new() }; CLASSES],
            blocks: Vec::new(),
            pooled: 0,
            parked: 0,
        };
        memory.set_limit(limit);
        memory
    }

    /// Another limit from now on.
    pub(in crate::tcp) fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(16);
        self.prune_at = self.begins(Pressure::High);
        (self.lower, self.upper) = (0, 0);
        self.account(self.used);
    }

    /// How hard it is pressed.
    #[inline]
    pub fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// For programs and people.
    pub fn info(&self) -> MemoryInfo {
        MemoryInfo {
            used: self.used,
            limit: self.limit,
            pooled: self.pooled + self.parked,
            pressure: self.pressure,
        }
    }

    /// How often each stage was entered, the mildest first.
    pub(crate) fn entered(&self) -> [u64; STAGES] {
        self.entered
    }

    /// A buffer for at least `bytes`, empty.
    pub(in crate::tcp) fn take_buffer(&mut self, bytes: usize) -> Vec<u8> {
        let class = class_of(bytes);
        let buffer = match self.buffers[class].pop() {
            Some(buffer) => {
                self.pooled -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(RECEIVE_BUFFER_BYTES_MIN << class),
        };
        self.account(self.used + buffer.capacity());
        buffer
    }

    /// A buffer comes back.
    pub(in crate::tcp) fn give_buffer(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes == 0 {
            return;
        }
        self.account(self.used - bytes);
        if self.may_keep(bytes) {
            self.pooled += bytes;
            buffer.clear();
            self.buffers[class_of(bytes)].push(buffer);
        }
    }

    /// True when a connection may keep a buffer of this many bytes, which it holds and has emptied.
    #[inline]
    pub(in crate::tcp) fn park(&mut self, bytes: usize) -> bool {
        let may = self.may_keep(bytes);
        if may {
            self.parked += bytes;
            self.account(self.used - bytes);
        }
        may
    }

    /// Bytes of such buffers.
    #[cfg(test)]
    pub(in crate::tcp) fn parked(&self) -> usize {
        self.parked
    }

    /// Such a buffer is used again.
    #[inline]
    pub(in crate::tcp) fn unpark(&mut self, bytes: usize) {
        self.parked -= bytes;
        self.account(self.used + bytes);
    }

    /// Such a buffer comes back.
    pub(in crate::tcp) fn give_parked(&mut self, buffer: Vec<u8>) {
        self.unpark(buffer.capacity());
        self.give_buffer(buffer);
    }

    /// Room for out-of-order data. What stands in it is anybody's.
    pub(in crate::tcp) fn take_block(&mut self) -> Box<Block> {
        let block = match self.blocks.pop() {
            Some(block) => {
                self.pooled -= OUT_OF_ORDER_BLOCK_BYTES;
                block
            }
            None => Box::new([0; OUT_OF_ORDER_BLOCK_BYTES]),
        };
        self.account(self.used + OUT_OF_ORDER_BLOCK_BYTES);
        block
    }

    /// A block comes back.
    pub(in crate::tcp) fn give_block(&mut self, block: Box<Block>) {
        self.account(self.used - OUT_OF_ORDER_BLOCK_BYTES);
        if self.may_keep(OUT_OF_ORDER_BLOCK_BYTES) {
            self.pooled += OUT_OF_ORDER_BLOCK_BYTES;
            self.blocks.push(block);
        }
    }

    /// What somebody holds of other memory has changed.
    pub(in crate::tcp) fn adjust(&mut self, before: usize, after: usize) {
        self.account(self.used + after - before);
    }

    /// True when so much more is used than at the last look that data beyond gaps should be given
    /// up.
    #[inline]
    pub(in crate::tcp) fn wants_pruning(&self) -> bool {
        self.used >= self.prune_at
    }

    /// By how much use lies above the middle of moderate pressure.
    pub(in crate::tcp) fn excess(&self) -> usize {
        let middle = usize::midpoint(self.begins(Pressure::Moderate), self.begins(Pressure::High));
        self.used.saturating_sub(middle)
    }

    /// Data was given up as far as there was any: look again when a sixteenth of the limit more is
    /// used.
    pub(in crate::tcp) fn pruned(&mut self) {
        self.prune_at = self.begins(Pressure::High).max(self.used + self.limit / 16);
    }

    #[inline]
    fn may_keep(&self, bytes: usize) -> bool {
        self.pressure == Pressure::None
            && self.pooled + self.parked + bytes <= RECEIVE_POOL_BYTES_MAX
    }

    /// Where a stage begins.
    fn begins(&self, stage: Pressure) -> usize {
        match stage {
            Pressure::None => 0,
            Pressure::Moderate => self.limit / 2,
            Pressure::High => self.limit / 4 * 3,
            Pressure::Full => self.limit,
        }
    }

    #[inline]
    fn account(&mut self, used: usize) {
        self.used = used;
        if used < self.lower || used >= self.upper {
            self.change_stage();
        }
    }

    #[cold]
    fn change_stage(&mut self) {
        let before = self.pressure;
        let stages = [Pressure::Full, Pressure::High, Pressure::Moderate];
        let stage = stages
            .into_iter()
            .find(|&s| self.used >= self.begins(s))
            .unwrap_or_default();
        self.pressure = stage;
        (self.lower, self.upper) = match stage {
            Pressure::None => (0, self.begins(Pressure::Moderate)),
            Pressure::Moderate => (self.leaves(stage), self.begins(Pressure::High)),
            Pressure::High => (self.leaves(stage), self.begins(Pressure::Full)),
            Pressure::Full => (self.leaves(stage), usize::MAX),
        };
        for stage in stages.into_iter().filter(|&s| s > before && s <= stage) {
            self.entered[stage as usize - 1] += 1;
        }
        if stage < Pressure::High {
            self.prune_at = self.begins(Pressure::High);
        }
        if stage != Pressure::None {
            self.empty_pool();
        }
    }

    fn leaves(&self, stage: Pressure) -> usize {
        self.begins(stage) - self.limit / 16
    }

    fn empty_pool(&mut self) {
        self.buffers.iter_mut().for_each(|b| *b = Vec::new());
        self.blocks = Vec::new();
        self.pooled = 0;
    }
}

/// The class of the smallest buffer that holds this many bytes.
fn class_of(bytes: usize) -> usize {
    let size = bytes.next_power_of_two().max(RECEIVE_BUFFER_BYTES_MIN);
    (size.trailing_zeros() - RECEIVE_BUFFER_BYTES_MIN.trailing_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_for() {
        let cases = [
            (0, 0),
            (1, 0),
            (256, 0),
            (257, 1),
            (1460, 3),
            (1 << 20, 12),
            ((1 << 20) + 1, 13),
            (1 << 31, CLASSES - 1),
        ];
        for (bytes, class) in cases {
            assert_eq!(class_of(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn a_buffer_that_comes_back_is_used_again() {
        let mut memory = Memory::new(1 << 20);
        let mut buffer = memory.take_buffer(1000);
        buffer.push(7);
        let place = buffer.as_ptr();
        assert_eq!((memory.info().used, memory.info().pooled), (1024, 0));
        memory.give_buffer(buffer);
        assert_eq!((memory.info().used, memory.info().pooled), (0, 1024));
        let again = memory.take_buffer(600);
        assert!(again.is_empty() && again.as_ptr() == place);
    }

    /// Each stage is entered at its mark and left a sixteenth of the limit below it.
    #[test]
    fn stages_have_marks_and_hysteresis() {
        let mut memory = Memory::new(1600);
        let mut at = |used: usize| {
            let before = memory.used;
            memory.adjust(before, used);
            memory.pressure
        };
        let steps = [
            (799, Pressure::None),
            (800, Pressure::Moderate),
            (701, Pressure::Moderate),
            (699, Pressure::None),
            (1250, Pressure::High),
            (1101, Pressure::High),
            (1099, Pressure::Moderate),
            (1600, Pressure::Full),
            (1501, Pressure::Full),
            (1499, Pressure::High),
            (0, Pressure::None),
        ];
        for (used, expected) in steps {
            assert_eq!(at(used), expected, "{used}");
        }
        assert_eq!(memory.entered(), [2, 2, 1]);
    }

    #[test]
    fn the_pool_is_bounded_and_goes_under_pressure() {
        let mut memory = Memory::new(64 << 20);
        let buffers: Vec<_> = (0..20).map(|_| memory.take_buffer(1 << 20)).collect();
        buffers.into_iter().for_each(|b| memory.give_buffer(b));
        assert_eq!(memory.info().pooled, RECEIVE_POOL_BYTES_MAX);
        memory.adjust(0, 32 << 20);
        assert_eq!(memory.info().pooled, 0);
    }
}
