//! How much of everything there is.

/// Sockets of all processes together; half a mebibyte of sparse memory each.
pub const SOCKETS: usize = 16_384;
/// Sets that are waited for: one for each epoll set with sockets in it, and one for each thread that polls.
/// A socket that there is no watcher for is a Unix socket.
pub const WATCHERS: usize = 256;
/// Processes at a time; the sockets of one more are Unix sockets, and those of the one that forks it.
pub const PROCESSES: usize = 1024;
/// Descriptors of a process that may be sockets of ours: lower ones.
pub const DESCRIPTORS: usize = 65_536;
/// Bytes that wait in one direction of a connection.
pub const RING: usize = 256 << 10;
/// What waits in a ring out when more is said to have room: less, and it is writable.
pub const ROOM: usize = RING / 4;
/// The most of `SO_RCVLOWAT`: a ring in that has less is filled again.
pub const LOW_WATER_MAX: u32 = (RING / 2) as u32;
