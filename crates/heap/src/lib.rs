//! The allocator of programs: the system's, with what a thread gives back kept for it.
//!
//! A server takes some small pieces of memory for each request, and gives them back when that is over: those of all requests that came
//! together, at once. The C library keeps seven pieces of a length for a thread; it joins all others with their free neighbours, and parts
//! them again for the requests that come next, which takes ten times as long. Here a thread keeps more of them.
//!
//! Lengths are rounded up as the C library rounds them, so that nothing takes more memory than it did: 24 bytes, 40, 56, up to `LEN_MAX`.
//! Each has a list in each thread, in which the first word of each piece is the address of the next. What is longer is the system's to see
//! to. A program names [`Heap`] as its global allocator:
//!
//! ```
//! #[global_allocator]
//! static HEAP: exos_heap::Heap = exos_heap::Heap;
//! ```
//!
//! Invariants: all pieces in a list, and all that are in use of its length, are of the system's allocator, with the layout that `layout`
//! says; `room` and the length of the list come to `KEPT_LEN_MAX` bytes while the thread keeps anything, and both are zero before and after.

#[cfg(not(test))]
use std::alloc::System;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

#[cfg(test)]
use self::tests::Counted as System;

/// From a length to the next. The C library's pieces, with its own word before each, are multiples of this, and aligned to it.
const STEP: usize = 16;

/// The shortest.
const LEN_MIN: usize = 24;

/// The longest piece that is kept: what requests take is shorter.
const LEN_MAX: usize = 520;

/// Bytes in pieces of a length that a thread keeps: those of some hundred requests. Of all lengths that is 8 MB, if it ever had as much.
const KEPT_LEN_MAX: usize = 256 * 1024;

/// Of each length one.
const LISTS: usize = (LEN_MAX - LEN_MIN) / STEP + 1;

/// The system's allocator, with what a thread gives back kept for it.
#[derive(Debug)]
pub struct Heap;

/// Pieces of a length.
struct List {
    first: Cell<*mut u8>,
    /// How many more are kept.
    room: Cell<usize>,
}

/// What a thread keeps.
struct Thread {
    lists: [List; LISTS],
    has_begun: Cell<bool>,
}

/// Gives back what a thread keeps when it ends.
struct End;

thread_local! {
    static THREAD: Thread = const {
        Thread {
            lists: [const { List { first: Cell::new(null_mut()), room: Cell::new(0) } }; LISTS],
            has_begun: Cell::new(false),
        }
    };
    static END: End = const { End };
}

// SAFETY: a piece is the system's, of a layout that has room for what is asked for, or one of those that its user has given back; as the list
// that it is in says the layout, it goes back to the system with that which it came with.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, wanted: Layout) -> *mut u8 {
        match list_of(wanted) {
            // SAFETY: the caller's promise is handed on.
            None => unsafe { System.alloc(wanted) },
            Some(list) => THREAD.with(|thread| thread.lists[list].take(list)),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, wanted: Layout) {
        match list_of(wanted) {
            // SAFETY: the caller's promise is handed on.
            None => unsafe { System.dealloc(at, wanted) },
            // SAFETY: the piece is of this list, and its user has done with it.
            Some(list) => THREAD.with(|thread| unsafe { thread.lists[list].keep(at, list) }),
        }
    }

    unsafe fn alloc_zeroed(&self, wanted: Layout) -> *mut u8 {
        if list_of(wanted).is_none() {
            // SAFETY: the caller's promise is handed on. Of long pieces the system knows which are zero already.
            return unsafe { System.alloc_zeroed(wanted) };
        }
        // SAFETY: the caller's promise is handed on.
        let at = unsafe { self.alloc(wanted) };
        if !at.is_null() {
            // SAFETY: the piece is as long.
            unsafe { at.write_bytes(0, wanted.size()) };
        }
        at
    }

    unsafe fn realloc(&self, at: *mut u8, before: Layout, len: usize) -> *mut u8 {
        // SAFETY: by the caller's promise it is no longer than a layout may be.
        let after = unsafe { Layout::from_size_align_unchecked(len, before.align()) };
        match (list_of(before), list_of(after)) {
            // SAFETY: the caller's promise is handed on.
            (None, None) => return unsafe { System.realloc(at, before, len) },
            (Some(list), Some(same)) if list == same => return at,
            _ => {}
        }
        // SAFETY: the caller's promise is handed on.
        let moved = unsafe { self.alloc(after) };
        if !moved.is_null() {
            // SAFETY: both are as long, and the piece is in use until it is given back here.
            unsafe {
                moved.copy_from_nonoverlapping(at, before.size().min(len));
                self.dealloc(at, before);
            }
        }
        moved
    }
}

/// The list in which pieces of a layout are kept, if they are.
#[inline]
fn list_of(wanted: Layout) -> Option<usize> {
    let is_kept = wanted.size() <= LEN_MAX && wanted.align() <= STEP;
    is_kept.then(|| wanted.size().saturating_sub(LEN_MIN).div_ceil(STEP) % LISTS)
}

/// The layout of all pieces of a list.
#[inline]
fn layout(list: usize) -> Layout {
    let len = LEN_MIN + list * STEP;
    Layout::from_size_align(len, STEP).expect("it is short, and the alignment a power of two")
}

impl List {
    /// A piece that is kept, or one of the system's: null where there is none.
    #[inline]
    fn take(&self, list: usize) -> *mut u8 {
        let first = self.first.get();
        if first.is_null() {
            // SAFETY: the layout is not empty.
            return unsafe { System.alloc(layout(list)) };
        }
        // SAFETY: a piece in a list begins with the address of the next.
        self.first.set(unsafe { first.cast::<*mut u8>().read() });
        self.room.set(self.room.get() + 1);
        first
    }

    /// Keeps a piece, or gives it back to the system where there is no room.
    ///
    /// # Safety
    ///
    /// It is of this list, and nobody uses it.
    #[inline]
    unsafe fn keep(&self, at: *mut u8, list: usize) {
        let room = self.room.get();
        if room == 0 && !begin() {
            // SAFETY: it came from the system with this layout.
            return unsafe { System.dealloc(at, layout(list)) };
        }
        // SAFETY: nobody uses it, it is longer than an address, and aligned to more.
        unsafe { at.cast::<*mut u8>().write(self.first.get()) };
        self.first.set(at);
        self.room.set(self.room.get() - 1);
    }
}

/// A list has no room. True where that is because the thread has kept nothing yet: now it has room.
#[cold]
fn begin() -> bool {
    THREAD.with(|thread| {
        if thread.has_begun.replace(true) {
            return false;
        }
        // From here on its end is heard of. One that is ending already keeps nothing.
        if END.try_with(|_| ()).is_err() {
            return false;
        }
        for (number, list) in thread.lists.iter().enumerate() {
            list.room.set(KEPT_LEN_MAX / layout(number).size());
        }
        true
    })
}

impl Drop for End {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            for (number, list) in thread.lists.iter().enumerate() {
                while !list.first.get().is_null() {
                    let at = list.take(number);
                    // SAFETY: it came from the system with this layout, and nobody uses it.
                    unsafe { System.dealloc(at, layout(number)) };
                }
                list.room.set(0);
            }
        });
    }
}

#[cfg(test)]
mod tests;
