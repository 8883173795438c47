//! bpf(2) by hand: maps, programs, links.
//!
//! Nothing here knows what a program does. Anyone who generates instructions passes them as 64-bit words
//! (`struct bpf_insn`, native layout) to [`Prog::load`]; map descriptors are already inside them.
//!
//! Rules of the interface:
//! - Every object is an open descriptor owned by its Rust value: dropping the value closes it, and the kernel
//!   frees the object when nothing else refers to it. Nothing survives the process but what is pinned, by `pin` on
//!   request: names in a BPF file system.
//! - Dropping a [`Link`] or [`TcxLink`] that is not pinned detaches its program from the interface.
//! - Every failure is a [`crate::error::Error`] that says what was tried and, where known, how to mend it.
//!
//! Layout: every command takes a pointer to its own prefix of `union bpf_attr` (include/uapi/linux/bpf.h) and its
//! size. The kernel takes any size and requires that bytes it does not know are zero, so each command here has a
//! `repr(C)` struct of exactly the fields that it uses. All padding is explicit.

mod btf;
mod info;
mod link;
mod live;
mod map;
mod mapped;
mod merging;
mod pin;
mod prog;
mod question;
mod ringbuf;
mod syscall;
mod tcx;

pub use btf::{KernelTypes, Member};
pub use info::{ProgInfo, XdpHolder, map_exists, prog_exists, who_holds_xdp};
pub use link::{Link, XdpMode};
pub use live::{BATCH as LIVE_BATCH, FRAMES_MAX as LIVE_FRAMES_MAX, LiveProg, Nowhere};
pub use map::{Map, MapKind, possible_cpus};
pub use mapped::MappedArray;
pub use merging::{merging_of, turn_on_again};
pub use pin::{is_bpffs, is_private, require_bpffs};
pub use prog::{LoadError, Prog, SkbContext, TestRun, permitted};
pub use question::{Question, refusal_to_attach};
pub use ringbuf::RingbufReader;
pub use tcx::{TcxHook, TcxLink};

#[cfg(test)]
mod tests;
