//! `exos lab`: two network namespaces joined by a wire, to try things in.
//!
//! A lab named N is the namespaces `exos-N-a` and `exos-N-b`, a veth pair whose ends are both called `wire`, and
//! the addresses 10.10.0.1/24 and fd10::1/64 on side a, .2 and ::2 on side b. Nothing else: whether a lab is up,
//! and how, is read from the kernel each time, so there is no file that could say otherwise, and what a crash
//! left behind is a lab that [`up`] repairs and [`down`] removes.
//!
//! [`up`] is idempotent: it compares what is there with what is wanted and changes what differs. Labs of
//! different names share nothing, so all of them use the same addresses.
//!
//! The two kinds of wire ([`WireKind`]) decide what a measurement over it means:
//! - `plain`: segmentation, checksum and receive offloads are off on both sides. Every packet is a real packet
//!   of at most MTU bytes with a correct checksum, as on a cable.
//! - `offload`: the kernel's defaults. Packets up to 64 KB cross whole and without checksums, which flatters
//!   anyone who uses the kernel's stack.

#![forbid(unsafe_code)]

mod build;
mod cli;
pub mod emulator;
mod foreground;
mod lab;
mod limits;
mod offloads;
mod options;
mod report;
mod settings;
mod status;
mod steering;
mod wiring;

pub use build::{Emulated, Guard, Outcome, down, emulate, up};
pub use cli::{Down, LabArgs, LabCommand, run};
pub use emulator::{Conditions, Emulation, Statistics};
pub use lab::Lab;
pub use offloads::make_plain;
pub use settings::{INTERFACE, Settings, Side, WireKind, middle_namespace};
pub use status::{Labs, SideStatus, State, Status, list, status};
