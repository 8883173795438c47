//! Every bound of `exos run`, with its reason.

use std::time::Duration;

/// Sockets that were bound and have not listened or connected. Those that are closed before are not heard of: the oldest make room.
pub(crate) const BOUND_MAX: usize = 4096;

/// What is read of a Unix socket, or written to one, at once: what its buffer holds, roughly (net.core.wmem_default is 208 KiB).
pub(crate) const PIECE: usize = 128 << 10;

/// Datagrams of a shared socket that are sent before others have their turn.
pub(crate) const DATAGRAMS_AT_ONCE: usize = 256;

/// How long what the program has written is delivered behind its end.
pub(crate) const GOODBYE_TIME: Duration = Duration::from_secs(5);

/// Calls that are answered before packets are looked at again.
pub(crate) const CALLS_AT_ONCE: usize = 64;
