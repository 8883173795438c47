//! Where the things lie that a program can point at.

/// `struct xdp_md`.
pub(super) const CONTEXT: u64 = 1 << 32;
pub(super) const PACKET: u64 = 2 << 32;
pub(super) const STACK: u64 = 3 << 32;
/// Maps themselves, by their number.
pub(super) const MAPS: u64 = 4 << 32;
/// The values of the first map; those of the next one are 2^32 further on.
pub(super) const VALUES: u64 = 16 << 32;

/// Bytes of the stack, which ends where r10 points.
pub(super) const STACK_LEN: usize = 512;
