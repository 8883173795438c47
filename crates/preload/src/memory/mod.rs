//! The memory that a program and the process with the stack share, and where everything lies in it.
//!
//! It is one file without a name, sparse: what is not used has no pages. All of it may be zero at first. Either side may write
//! nonsense into it; the other then does something useless to that program's connections, and stays within the memory.
//!
//! | file | job |
//! |---|---|
//! | `sizes` | how much of everything there is |
//! | `agreed` | what both sides have agreed on besides: marks, what is asked for |
//! | `mapping` | where everything lies |
//! | `socket`, `datagram` | one socket; a datagram in a ring |
//! | `parts` | processes and watchers |
//! | `descriptors`, `watching` | which sockets a process's descriptors are; who is told of a socket |
//! | `locks` | who uses a ring; waiting and waking |
//! | `known` | what one process knows of sockets, until the memory says that something has happened |

mod agreed;
mod datagram;
mod descriptors;
pub mod known;
mod locks;
mod mapping;
mod parts;
mod sizes;
mod socket;
mod watching;

pub use agreed::{
    ADDRESSES_MAX, ASK_LEVEL, AWAKE, Ask, GATHERS, MARK, MARKED, MARKED_DATAGRAMS,
    NAP_MICROSECONDS, NAPS, OWN, SLEEPS, Untouched, VARIABLE,
};
pub use datagram::{DATAGRAM_HEAD, DATAGRAM_MAX, DATAGRAM_ROOM, DatagramHead, SEGMENTS_MAX};
pub use locks::Lock;
pub use mapping::Shared;
pub use parts::{Process, Watcher};
pub use sizes::{DESCRIPTORS, LOW_WATER_MAX, PROCESSES, RING, ROOM, SOCKETS, WATCHERS};
pub use socket::{Address, LivenessOptions, SharedAddress, Socket, options, state};
