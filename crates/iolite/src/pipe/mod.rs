//! A pipe: aggregates one way between two processes, by reference.
//!
//! ```text
//! Sender                      memory of both                         Receiver
//! write ── descriptors ────>  ring of slots  ──────────────────────> read: takes its hold, then says so
//!   keeps its references until ──── head <─────────────────────────
//!         bytes: in the pool, which the sender's side writes and the receiver's reads
//! sleep <─── a pipe of the kernel's each way, which also tells of the peer's end ───> sleep
//! ```
//!
//! It is set up over a connected Unix socket, of streams or of packets, which belongs to the pipe afterwards: pools that come later pass
//! over it. It carries bytes, as a pipe of the kernel's does; where one `write` ends and the next begins is not kept.

mod bell;
mod descriptor;
mod outbox;
mod receiver;
mod ring;
mod sender;
mod setup;
mod told;
mod wait;

pub(crate) use outbox::collect_all;
pub use receiver::{Read, Receiver};
pub use sender::{Options, Sender};
pub use wait::{LowWater, Wait};
