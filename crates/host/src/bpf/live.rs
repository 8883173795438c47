//! Running an XDP program on frames that really leave (`BPF_PROG_RUN` in live frame mode, Linux 5.18).
//!
//! The kernel makes a frame in a page of its own, runs the program on it, and carries its verdict out: with a redirection
//! the frame leaves by another interface. One call does that up to [`FRAMES_MAX`] times. A call costs some 10 µs
//! whatever it sends, for the pool of pages that it makes and gives back; 30 ms instead where the program is not
//! attached anywhere, because then the kernel patches its text for it each time.
//!
//! It takes no privilege but the program's descriptor. Source: Documentation/bpf/bpf_prog_run.rst, net/bpf/test_run.c.

use super::{Attr, Command, Link, Prog, XdpMode, bpf};
use crate::error::Error;
use crate::netns::NetNs;
use std::io;

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// Frames of one call. More are no cheaper: what a call costs beside them is spread over enough.
pub const FRAMES_MAX: u32 = 512;

/// Frames that the kernel hands on together: half of what the queue at the other end of a veth has room for (256), so that
/// none is lost there for those of others.
const BATCH: u32 = 128;

/// The loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;

#[repr(C)]
struct LiveRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}
// SAFETY: the prefix for BPF_PROG_TEST_RUN, padding explicit; `run` takes the address from a live slice.
unsafe impl Attr for LiveRunAttr {}

/// A program that can be run on live frames, in its place in the kernel's dispatcher of XDP programs.
#[derive(Debug)]
pub struct LiveProg {
    program: Prog,
    /// An attachment that receives nothing: to the loopback interface of a namespace with nothing else in it.
    _place: (Link, NetNs),
}

impl LiveProg {
    /// Attaches the program where it receives nothing, so that calls are cheap.
    ///
    /// # Errors
    ///
    /// There is no namespace to be had for it, which takes CAP_SYS_ADMIN.
    pub fn new(program: Prog) -> Result<Self, Error> {
        let nowhere = NetNs::anonymous()?;
        let attach = || Link::attach_xdp(LOOPBACK, &program, XdpMode::Generic);
        let place = nowhere.run(attach)??;
        Ok(Self {
            program,
            _place: (place, nowhere),
        })
    }

    /// Runs it on `count` frames, at most [`FRAMES_MAX`]; each begins as these bytes, 14 at least. What the program has
    /// made of them has left when this returns, but for what the other end has no room for.
    ///
    /// # Errors
    ///
    /// EINTR when a signal came: some frames have left, and only the program can tell how many. ENOMEM, ENOSPC: no pages, or
    /// too many pools of earlier calls are still in use.
    pub fn run(&self, frame: &[u8], count: u32) -> io::Result<()> {
        let mut attr = LiveRunAttr {
            prog_fd: self.program.raw_fd() as u32,
            retval: 0,
            data_size_in: frame.len() as u32,
            data_size_out: 0,
            data_in: frame.as_ptr() as u64,
            data_out: 0,
            repeat: count,
            duration: 0,
            ctx_size_in: 0,
            ctx_size_out: 0,
            ctx_in: 0,
            ctx_out: 0,
            flags: LIVE_FRAMES,
            cpu: 0,
            batch_size: count.min(BATCH),
            padding: 0,
        };
        bpf(Command::ProgTestRun, &mut attr).map(drop)
    }
}
