//! `exos run`: an unmodified program whose TCP connections are on a stack of its own.
//!
//! The program and all that it starts run with a filter that tells us of a few system calls: those that bind, listen, connect,
//! accept, and ask for addresses and options ([`exos_host::intercept`]). When one of them makes a socket of the kernel's a
//! network socket (`listen`, or `connect` to an address that is not this host's), a Unix socket takes its place in the program,
//! whose other end is ours:
//!
//! ```text
//! program ── read, write, poll, epoll, sendfile, dup, fork ... ──> Unix socket │ us: unix ──> TcpStream on our stack ──> wire
//!         ── connect, accept, getsockname ... ── seccomp ─────────────────────> │ us: calls
//! ```
//!
//! So every call that takes a descriptor works as the kernel does it, in every kind of program: static ones, threads, forks,
//! descriptors passed on. The price is a copy and a wake-up for what passes. UDP (but by shared sockets), Unix sockets and connections to
//! this host stay the kernel's.
//!
//! | file | job |
//! |---|---|
//! | `options`, `supervise`, `signals` | the command line; the loop: calls, sockets, the program's end; what signals ask |
//! | `guard` | the process that starts the program, and leaves nothing of it behind |
//! | `check` | which way a program goes |
//! | `calls` | all sockets, what each intercepted call does, which way a socket goes |
//! | `unix` | sockets that go by a Unix socket |
//! | `sharing` | sockets in memory that is shared with programs ([`exos_preload`]), what these ask for |
//! | `listener`, `datagram_socket`, `loopback` | where connections and datagrams come from, of both; those of this host with itself |
//! | `ports` | addresses of sockets that are still the kernel's |
//! | `context`, `later`, `waiting`, `answer`, `target` | what all of these need: the stack, the calls; what is looked at again; calls that wait; their answers; the caller's memory and descriptors |
//! | `trace` | calls as strace has them |
//! | `counters` | what is counted, and said on SIGUSR1 |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_program::message`.

mod answer;
mod calls;
mod check;
mod context;
mod counters;
mod datagram_socket;
mod guard;
mod later;
mod limits;
mod listener;
mod loopback;
mod options;
mod ports;
mod sharing;
mod signals;
mod supervise;
mod target;
mod trace;
mod unix;
mod waiting;

pub use options::RunArgs;
pub use supervise::run;
