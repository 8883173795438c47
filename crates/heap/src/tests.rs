//! The allocator against the system's, of which it is counted what it has given.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::{Heap, KEPT_LEN_MAX, LEN_MAX, LEN_MIN, layout, list_of};

/// The system's allocator.
pub(super) struct Counted;

/// Bytes that it has given, and calls for that.
static GIVEN: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicI64 = AtomicI64::new(0);

/// Each test has the counts for itself.
static TURN: Mutex<()> = Mutex::new(());

// SAFETY: everything is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        GIVEN.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        GIVEN.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
}

/// A piece in use, and what it was filled with.
struct Piece {
    at: *mut u8,
    layout: Layout,
    filled: u8,
}

impl Piece {
    fn new(layout: Layout, filled: u8) -> Piece {
        // SAFETY: the layout is not empty.
        let at = unsafe { Heap.alloc(layout) };
        assert!(!at.is_null() && at.addr().is_multiple_of(layout.align()));
        let piece = Piece { at, layout, filled };
        // SAFETY: the piece is as long.
        unsafe { at.write_bytes(filled, layout.size()) };
        piece
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the piece is as long, and was filled.
        unsafe { std::slice::from_raw_parts(self.at, self.layout.size()) }
    }

    fn resize(&mut self, len: usize) {
        let both = len.min(self.layout.size());
        // SAFETY: the piece is of this layout, and `len` is not zero.
        self.at = unsafe { Heap.realloc(self.at, self.layout, len) };
        self.layout = Layout::from_size_align(len, self.layout.align()).unwrap();
        // SAFETY: the piece is as long.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at, len) };
        assert!(bytes[..both].iter().all(|byte| *byte == self.filled));
        bytes.fill(self.filled);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        assert!(self.bytes().iter().all(|byte| *byte == self.filled));
        // SAFETY: the piece is of this layout, and nobody uses it from here on.
        unsafe { Heap.dealloc(self.at, self.layout) };
    }
}

fn of(len: usize) -> Layout {
    Layout::from_size_align(len, 8).unwrap()
}

/// Whatever is taken, resized and given back, and in which order, each piece is as long as it should be and nobody else's.
#[test]
fn pieces_are_their_users_own() {
    let _turn = TURN.lock().unwrap();
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for round in 0..30_000 {
        let len = 1 + random(LEN_MAX * 5 / 4);
        // It grows to some hundred pieces, and shrinks again.
        match random(10) {
            way if way < if round / 1000 % 2 == 0 { 6 } else { 3 } => {
                let layout = Layout::from_size_align(len, 1 << random(7)).unwrap();
                pieces.push(Piece::new(layout, round as u8));
            }
            9 if !pieces.is_empty() => {
                let at = random(pieces.len());
                pieces[at].resize(len);
            }
            _ if !pieces.is_empty() => drop(pieces.swap_remove(random(pieces.len()))),
            _ => {}
        }
    }
}

/// No length is rounded further than the C library rounds it, which has a word before each piece.
#[test]
fn pieces_are_as_long_as_they_have_to_be() {
    let whole = |len: usize| (len + 8).next_multiple_of(16).max(32);
    for len in 1..=LEN_MAX {
        let piece = layout(list_of(of(len)).unwrap()).size();
        assert!(piece >= len);
        assert_eq!(whole(piece), whole(len), "{len}");
    }
    assert_eq!(list_of(of(LEN_MAX + 1)), None);
}

/// What is given back is what is taken next, dirty or not, without the system; of a length no more than so much is kept.
#[test]
fn what_is_given_back_is_taken_again() {
    let _turn = TURN.lock().unwrap();
    let work = || {
        for len in [1, LEN_MIN, LEN_MIN + 1, 200, LEN_MAX] {
            let kept = KEPT_LEN_MAX / layout(list_of(of(len)).unwrap()).size();
            let many = || (0..kept + 9).map(|_| Piece::new(of(len), 0xff));
            drop(many().collect::<Vec<_>>());
            let before = CALLS.load(Relaxed);
            let all: Vec<_> = many().collect();
            assert_eq!(CALLS.load(Relaxed) - before, 9, "{len}");
            drop(all);
            // SAFETY: the layout is not empty; the piece is given back as it was taken.
            let zeroed = unsafe { Heap.alloc_zeroed(of(len)) };
            let piece = Piece {
                at: zeroed,
                layout: of(len),
                filled: 0,
            };
            assert!(piece.bytes().iter().all(|byte| *byte == 0));
        }
    };
    std::thread::spawn(work).join().unwrap();
}

/// What a thread keeps goes back to the system when it ends, also what other threads had taken.
#[test]
fn a_thread_that_ends_keeps_nothing() {
    let _turn = TURN.lock().unwrap();
    let before = GIVEN.load(Relaxed);
    let keep = || {
        drop(
            (1..=LEN_MAX)
                .map(|len| Piece::new(of(len), 1))
                .collect::<Vec<_>>(),
        )
    };
    std::thread::spawn(move || {
        keep();
        assert!(GIVEN.load(Relaxed) - before >= (1..=LEN_MAX as i64).sum());
    })
    .join()
    .unwrap();
    assert_eq!(GIVEN.load(Relaxed), before);
}
