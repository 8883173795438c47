//! Shared sockets: sockets of a program, in memory that it shares with the process that has the stack.
//!
//! The crate is two things. Linked into `exos run` it is the memory ([`memory`], [`ring`], [`bits`]), and holds the library
//! ([`LIBRARY`]). Built as that library (`build.rs`) and loaded into a program (`LD_PRELOAD`, ld.so(8)), it answers the program's
//! socket calls out of this memory:
//!
//! ```text
//! program ── read, write, epoll_wait ... ──> this library ──┐ shared memory: rings of bytes, what is ready
//!                                                            └──> exos run: the stack ──> wire
//! ```
//!
//! So a call that finds data or room makes no system call, and what many connections have to say costs one wake-up. All else,
//! and what is rare (opening, passing on, becoming another program), goes the way of intercepted calls (`exos-run`).
//!
//! | file | job |
//! |---|---|
//! | `memory` | where everything lies: sockets, what waits for them, the descriptors of each process |
//! | `ring` | bytes one way, or datagrams |
//! | `bits` | sets of socket numbers that both sides change |
//! | `system` | the C library's own calls, beneath the ones here |
//! | `process`, `start` | this process: its part of the memory; its beginning, and its forks; the unwinder, once it is asked for |
//! | `sharing` | its sockets: by their descriptors; the end of sharing one; those that are still as they were made |
//! | `ask` | what the other side is asked for |
//! | `signals` | handlers wait while their thread has a lock |
//! | `wait` | waiting for one socket |
//! | `stream` | bytes: what reading and writing calls come to |
//! | `datagrams`, `control`, `addresses` | datagrams, as above, what goes beside their bytes, and to whom |
//! | `sockets`, `datagrams::options` | accepting, addresses, options |
//! | `epoll`, `epoll_wait`, `poll`, `waker`, `by_number` | waiting for many, and for sets of them |
//! | `trace` | calls as strace has them, on both sides; which of this process are printed |
//! | `calls` | the functions that take the place of the C library's |
// `build.rs` compiles it without the workspace's lints.
#![deny(clippy::undocumented_unsafe_blocks, unsafe_op_in_unsafe_fn)]

pub mod bits;
pub mod memory;
pub mod ring;
pub mod trace;

#[cfg(exos_preload)]
mod addresses;
#[cfg(exos_preload)]
mod ask;
#[cfg(exos_preload)]
mod by_number;
#[cfg(exos_preload)]
mod calls;
#[cfg(exos_preload)]
mod control;
#[cfg(exos_preload)]
mod datagrams;
#[cfg(exos_preload)]
mod epoll;
#[cfg(exos_preload)]
mod epoll_wait;
#[cfg(exos_preload)]
mod options;
#[cfg(exos_preload)]
mod poll;
#[cfg(exos_preload)]
mod process;
#[cfg(exos_preload)]
mod sharing;
#[cfg(exos_preload)]
mod signals;
#[cfg(exos_preload)]
mod sockets;
#[cfg(exos_preload)]
mod start;
#[cfg(exos_preload)]
mod stream;
#[cfg(exos_preload)]
mod system;
#[cfg(exos_preload)]
mod wait;
#[cfg(exos_preload)]
mod waker;

/// The library that is loaded into programs.
#[cfg(not(exos_preload))]
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libexos_preload.so"));
