//! Running an XDP program on frames that really leave (`BPF_PROG_RUN` in live frame mode, Linux 5.18).
//!
//! The kernel makes a frame in a page of its own, runs the program on it, and carries its verdict out: with a redirection
//! the frame leaves by another interface. One call does that up to [`FRAMES_MAX`] times. A call costs some 10 µs
//! whatever it sends, for the pool of pages that it makes and gives back; 30 ms instead where the program is not
//! attached anywhere, because then the kernel patches its text for it each time.
//!
//! It takes no privilege but the program's descriptor. Source: Documentation/bpf/bpf_prog_run.rst, net/bpf/test_run.c.

use super::link::Link;
use super::link::XdpMode;
use super::prog::Prog;
use crate::error::Error;
use crate::netns::NetNs;
use std::io;

/// Frames of one call. More are no cheaper: what a call costs beside them is spread over enough.
pub const FRAMES_MAX: u32 = 512;

/// Frames that the kernel hands on together: as many as it makes pages for at once (`PP_ALLOC_CACHE_REFILL`), which come back before
/// the next ones of a call leave and are used again, and a quarter of what the queue at the other end of a veth has room for (256), so
/// that none is lost there for those of others.
pub const BATCH: u32 = 64;

/// The loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;

/// A program that can be run on live frames, in its place in the kernel's dispatcher of XDP programs.
#[derive(Debug)]
pub struct LiveProg {
    program: Prog,
    _place: Nowhere,
}

/// An attachment that receives nothing: to the loopback interface of a namespace with nothing else in it. It keeps a program in the
/// kernel's dispatcher, so that calls which run it on live frames are cheap.
#[derive(Debug)]
pub struct Nowhere {
    _link: Link,
    _namespace: NetNs,
}

impl Nowhere {
    /// Attaches an XDP program there.
    ///
    /// # Errors
    ///
    /// There is no namespace to be had for it, which takes CAP_SYS_ADMIN.
    pub fn attach(program: &Prog) -> Result<Self, Error> {
        let namespace = NetNs::anonymous()?;
        let attach = || Link::attach_xdp(LOOPBACK, program, XdpMode::Generic);
        let link = namespace.run(attach)??;
        Ok(Self {
            _link: link,
            _namespace: namespace,
        })
    }
}

impl LiveProg {
    /// Attaches the program where it receives nothing, so that calls are cheap.
    ///
    /// # Errors
    ///
    /// There is no namespace to be had for it, which takes CAP_SYS_ADMIN.
    pub fn new(program: Prog) -> Result<Self, Error> {
        let place = Nowhere::attach(&program)?;
        Ok(Self {
            program,
            _place: place,
        })
    }

    /// Runs it on `count` frames, at most [`FRAMES_MAX`]; each begins as these bytes, 14 at least. What the program has
    /// made of them has left when this returns, but for what the other end has no room for.
    ///
    /// # Errors
    ///
    /// As [`Prog::run_live`].
    pub fn run(&self, frame: &[u8], count: u32) -> io::Result<()> {
        self.program.run_live(frame, 0, count, count.min(BATCH))
    }
}
