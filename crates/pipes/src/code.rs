//! A list's machine code, and what it shares with its caller.
//!
//! All that is unsafe here stands in this file: the calls into it.

use std::ffi::c_void;
use std::mem::offset_of;

use exos_jit::Executable;
use rustix::io::Errno;

use crate::passes::PIPES_MAX;

/// Bytes that are in a register at once.
pub(crate) const VECTOR: usize = 32;

/// Vectors of a step of the large loop.
pub(crate) const UNROLLED: usize = 4;

/// An operand of 256 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Constant(pub [u64; 4]);

/// What the code gets besides source and destination, and what it gives back.
#[derive(Default)]
#[repr(C, align(32))]
pub(crate) struct Frame {
    /// Of each pipe: a sum, written at the end; or what a hash has come to, read and written.
    pub(crate) registers: [u64; PIPES_MAX],
    /// The bytes behind the last whole vector, with zeros behind them; what they have become.
    pub(crate) tail: [u8; VECTOR],
    /// All ones where `tail` is the message's.
    pub(crate) mask: [u8; VECTOR],
    words: [u8; VECTOR], // The code's own.
    large: u64,
    small: u64,
    /// 1 if there is a tail, and else 0.
    pub(crate) tails: u64,
}

impl Frame {
    pub(crate) const TAIL: u32 = offset_of!(Self, tail) as u32;
    pub(crate) const MASK: u32 = offset_of!(Self, mask) as u32;
    pub(crate) const WORDS: u32 = offset_of!(Self, words) as u32;
    pub(crate) const LARGE: u32 = offset_of!(Self, large) as u32;
    pub(crate) const SMALL: u32 = offset_of!(Self, small) as u32;
    pub(crate) const TAILS: u32 = offset_of!(Self, tails) as u32;

    pub(crate) const fn register(pipe: usize) -> u32 {
        (offset_of!(Self, registers) + pipe * size_of::<u64>()) as u32
    }

    /// Whole vectors of this many bytes.
    fn count(&mut self, bytes: usize) {
        let vectors = bytes / VECTOR;
        self.large = (vectors / UNROLLED) as u64;
        self.small = (vectors % UNROLLED) as u64;
    }
}

/// From, to, frame, constants: goes through as many vectors as the frame says, and through the frame's tail.
type Entry = unsafe extern "C" fn(*const u8, *mut u8, *mut Frame, *const Constant);

/// A function's code, and the operands that it reads.
#[derive(Debug)]
pub(crate) struct Code {
    mapped: Executable,
    constants: Vec<Constant>,
}

impl Code {
    /// Maps a function's code.
    ///
    /// # Safety
    ///
    /// It is a function of the form of [`Entry`] for this machine, which reads and writes only the bytes that the frame tells of, the
    /// frame, and those constants.
    pub(crate) unsafe fn new(code: &[u8], constants: Vec<Constant>) -> Result<Self, Errno> {
        Executable::new(code).map(|mapped| Self { mapped, constants })
    }

    /// Runs it from some bytes to others.
    ///
    /// # Panics
    ///
    /// If there are not as many, or they are no whole vectors.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8], frame: &mut Frame) {
        assert!(from.len() == to.len() && from.len().is_multiple_of(VECTOR));
        frame.count(from.len());
        // SAFETY: `new` was promised a function that keeps to these bytes, which are borrowed for the call.
        unsafe {
            self.entry()(
                from.as_ptr(),
                to.as_mut_ptr(),
                frame,
                self.constants.as_ptr(),
            )
        };
    }

    /// Runs it in place.
    ///
    /// # Panics
    ///
    /// If the bytes are no whole vectors.
    pub(crate) fn in_place(&self, bytes: &mut [u8], frame: &mut Frame) {
        assert!(bytes.len().is_multiple_of(VECTOR));
        frame.count(bytes.len());
        let at = bytes.as_mut_ptr();
        // SAFETY: as in `copy`; each vector is loaded before it is stored, so that source and destination may be one.
        unsafe { self.entry()(at, at, frame, self.constants.as_ptr()) };
    }

    fn entry(&self) -> Entry {
        // SAFETY: `new` was promised a function of this form, which begins with its first byte.
        unsafe { std::mem::transmute::<*const c_void, Entry>(self.mapped.at()) }
    }
}
