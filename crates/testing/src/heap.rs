//! What a piece of work asks of the allocator, for a test program that names [`Counting`] as its global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator; what this thread asks of it is counted while [`counted`] says so.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    /// Allocations counted so far, and whether they are counted.
    static COUNTED: Cell<u64> = const { Cell::new(0) };
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
    /// Bytes allocated and not given back.
    static HELD: Cell<i64> = const { Cell::new(0) };
    /// The most that was asked for at once.
    static LARGEST: Cell<i64> = const { Cell::new(0) };
}

fn count(allocations: u64, bytes: i64) {
    // A thread that is ending has none, and is not ours.
    let _ = AT_WORK.try_with(|on| {
        if on.get() {
            COUNTED.with(|n| n.set(n.get() + allocations));
            HELD.with(|n| n.set(n.get() + bytes));
            LARGEST.with(|n| n.set(n.get().max(bytes)));
        }
    });
}

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Counts what `work` asks for.
pub fn counted<R>(work: impl FnOnce() -> R) -> R {
    switched(true, work)
}

/// Does not count what `work` asks for, inside of work that is counted.
pub fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    switched(false, work)
}

fn switched<R>(on: bool, work: impl FnOnce() -> R) -> R {
    let before = AT_WORK.with(|at_work| at_work.replace(on));
    let result = work();
    AT_WORK.with(|at_work| at_work.set(before));
    result
}

/// Allocations counted so far.
#[must_use]
pub fn allocations() -> u64 {
    COUNTED.with(Cell::get)
}

/// The most bytes that one counted allocation asked for, or by which one grew.
#[must_use]
pub fn largest() -> i64 {
    LARGEST.with(Cell::get)
}

/// Bytes that were counted when they were allocated, less those when they were given back.
#[must_use]
pub fn held() -> i64 {
    HELD.with(Cell::get)
}
