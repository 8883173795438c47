//! What a handler may be at most.

/// Bytes of a message that a handler sees: of what is longer the program does everything. A UDP payload in an Ethernet frame.
pub const MESSAGE_MAX: u16 = 1472;

/// Bytes of a reply.
pub const REPLY_MAX: u16 = 1400;

/// Variables of a handler.
pub const VARIABLES_MAX: usize = 24;

/// Operations within one another in an expression.
pub const DEPTH_MAX: usize = 8;

/// `&&` and `||` in a condition.
pub const LINKS_MAX: usize = 32;

/// Operators in a word, or in all words of a condition.
pub const OPERATORS_MAX: usize = 1024;

/// Parts of a reply.
pub const PARTS_MAX: usize = 12;

/// Pipes that bytes go through on their way to a row.
pub const PIPES_MAX: usize = 8;

/// Bytes that the kernel takes word by word, where they are known: a call takes as long as more of them do.
pub(crate) const TAKEN_BY_WORDS_MAX: u64 = 128;

/// Regions of a handler.
pub const REGIONS_MAX: usize = 16;

/// Bytes of memory of all regions.
pub const MEMORY_MAX: u64 = 64 << 20;

/// Bytes of a table's key.
pub const KEY_MAX: u32 = 256;

/// Look-ups in tables that a handler has: the kernel follows each along the longest key.
pub const LOOK_UPS_MAX: usize = 4;

/// Repetitions of a block.
pub const REPEAT_MAX: u16 = 256;

/// Blocks within one another.
pub const NESTING_MAX: usize = 16;

/// Steps that a message may take, of about a nanosecond each: ten operations, a third of a division, a fifth of a change of a word.
pub const STEPS_MAX: u64 = 16_384;

/// Instructions that a handler's body becomes: with what surrounds it, jumps reach from one end to the other (32,767).
pub const CODE_MAX: u64 = 24_000;

/// Addresses that a handler's messages may come to: each is compared.
pub const ADDRESSES_MAX: usize = 128;

/// Bytes of a handler's name.
pub const NAME_MAX: usize = 15;

/// Bytes of a handler's text.
pub const TEXT_MAX: usize = 64 << 10;
