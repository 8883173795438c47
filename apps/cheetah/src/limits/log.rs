//! The access log.

use std::time::Duration;

/// Lines of the log that go to its writer at once; also the longest line.
pub const LOG_BUFFER_LEN: usize = 64 * 1024;

/// How long a line may wait for others to be written with.
pub const LOG_FLUSH_TIME: Duration = Duration::from_secs(1);

/// Buffers of lines that wait for a slow disk or reader: 4 MiB, some 40,000 lines. Further lines are left out.
pub const LOG_CHUNKS_MAX: usize = 64;

/// What the lines of responses under way may take, 32 MiB: some 70,000 responses. The lines of further ones are written
/// when these are queued instead of when they have been taken.
pub const LOG_UNFINISHED_LEN_MAX: usize = 32 * 1024 * 1024;

/// What is logged of a request's target at most: what most servers accept at all.
pub const LOG_LINE_LEN_MAX: usize = 4 * 1024;

/// What is logged of a header field at most.
pub const LOG_FIELD_LEN_MAX: usize = 1024;

/// How often it is said that lines are left out.
pub const LOG_TELL_TIME: Duration = Duration::from_secs(60);

const _: () = assert!(
    6 * (LOG_LINE_LEN_MAX + 4 * LOG_FIELD_LEN_MAX) + 1024 <= LOG_BUFFER_LEN,
    "the longest line, each byte written as six, fits a buffer"
);
