//! The limits of these tools, each with its reason.

use std::time::Duration;

/// Bytes that are read and written at once: they stay in the second nearest cache.
pub const BLOCK_LEN: usize = 64 << 10;

/// The longest line that `grep` looks at: it has the line in one piece.
pub const LINE_LEN_MAX: usize = 1 << 30;

/// How long one end of a pipe looks for the other before it sleeps: waking it takes about as long.
pub const LOOK: Duration = Duration::from_micros(50);

/// Slices in a pipe between two tools: few buffers are in use, so that they stay in the caches.
pub const SLOTS: usize = 16;

/// Visitors that can wait at a pipe's meeting: one is of use.
pub const VISITORS: i32 = 4;

/// How soon a tool looks again whether those that have its buffers let go of one: nothing tells.
pub const BUFFER_LOOK: Duration = Duration::from_millis(1);

/// What `grep` looks at together in a file, where a zero byte says that it is no text: as much as GNU's.
pub const WINDOW_LEN: usize = 96 << 10;

/// Buffers of a tool's own pool: those of a full pipe, and some that are made and looked at.
pub const BUFFERS: u32 = 4 * SLOTS as u32;

/// The most words of which `permute` makes all orders: more than 12! of them take days.
pub const WORDS_MAX: usize = 12;

/// The memory of `exos file-cache`, unless another is asked for.
pub const MEMORY: &str = "256m";
