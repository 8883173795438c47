//! Bytes one way between two processes: a ring with one side that writes and one that reads.
//!
//! Where a position lies is counted from an origin, which the writer moves whenever the ring is empty: so a connection whose bytes
//! are read as soon as they come uses the first bytes of its memory again and again, and they stay in the caches.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// How far each side is. All zeroes: an empty ring. The positions wrap.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Positions {
    /// Bytes written; the writer's.
    tail: AtomicU32,
    /// The position that lies at the beginning of the memory; the writer's.
    origin: AtomicU32,
    _pad: [u32; 14],
    /// Bytes read; the reader's.
    head: AtomicU32,
}

impl Positions {
    /// An empty ring again; nobody uses it.
    pub fn reset(&self) {
        for position in [&self.tail, &self.origin, &self.head] {
            position.store(0, Ordering::Relaxed);
        }
    }

    /// Bytes that were written and not read; at most this many.
    pub fn len(&self, size: usize) -> usize {
        let (head, tail) = (&self.head, &self.tail);
        let waiting = tail
            .load(Ordering::Acquire)
            .wrapping_sub(head.load(Ordering::Acquire));
        // The other side may write nonsense.
        (waiting as usize).min(size)
    }
}

/// A ring: its positions, and its memory, of a power of two.
#[derive(Copy, Clone)]
pub struct Ring<'a> {
    at: &'a Positions,
    data: *mut u8,
    size: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Ring<'a> {
    /// # Safety
    ///
    /// `size` bytes at `data` are shared memory that lives for `'a` and to which nobody has references; `size` is a power of two.
    pub(crate) unsafe fn new(at: &'a Positions, data: *mut u8, size: usize) -> Self {
        Self {
            at,
            data,
            size,
            memory: PhantomData,
        }
    }

    /// Bytes to read.
    pub fn len(&self) -> usize {
        self.at.len(self.size)
    }

    /// Nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that can be written.
    pub fn free(&self) -> usize {
        self.size - self.len()
    }

    /// The bytes at a position, up to the end of the memory; at most this many.
    fn piece(&self, position: u32, at_most: usize) -> (*mut u8, usize) {
        let origin = self.at.origin.load(Ordering::Relaxed);
        let offset = position.wrapping_sub(origin) as usize & (self.size - 1);
        // SAFETY: the offset is within the memory.
        let at = unsafe { self.data.add(offset) };
        (at, at_most.min(self.size - offset))
    }

    // The writer's side.

    /// Where the next bytes go, and how many there: to be [written](Self::written).
    pub(crate) fn room(&self) -> (*mut u8, usize) {
        let tail = self.at.tail.load(Ordering::Relaxed);
        let waiting = self.len();
        if waiting == 0 {
            self.at.origin.store(tail, Ordering::Relaxed);
        }
        self.piece(tail, self.size - waiting)
    }

    pub(crate) fn written(&self, count: usize) {
        let tail = self.at.tail.load(Ordering::Relaxed);
        let tail = tail.wrapping_add(count as u32);
        self.at.tail.store(tail, Ordering::Release);
    }

    /// Writes as many of the bytes as there is room for.
    pub fn push(&self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while !bytes.is_empty() {
            let (to, room) = self.room();
            let now = room.min(bytes.len());
            if now == 0 {
                break;
            }
            // SAFETY: there is room for these at `to`, which the reader does not look at before they are written.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), now) };
            self.written(now);
            count += now;
            bytes = &bytes[now..];
        }
        count
    }

    /// Writes these stretches of memory one behind the other, which the reader sees at once; false where there is no room for all.
    ///
    /// # Safety
    ///
    /// They can be read.
    pub(crate) unsafe fn push_whole(&self, parts: &[(*const u8, usize)]) -> bool {
        let total = parts
            .iter()
            .fold(0_usize, |sum, (_, len)| sum.saturating_add(*len));
        if self.room().1 == 0 || self.free() < total {
            return false;
        }
        let tail = self.at.tail.load(Ordering::Relaxed);
        let mut written = 0;
        for &(from, len) in parts {
            let mut done = 0;
            while done < len {
                let position = tail.wrapping_add(written as u32);
                let (to, now) = self.piece(position, (len - done).min(self.size - written));
                if now == 0 {
                    break;
                }
                // SAFETY: there is room for these at `to`, which the reader does not look at before they are written; the caller's promise.
                unsafe { to.copy_from_nonoverlapping(from.add(done), now) };
                done += now;
                written += now;
            }
        }
        self.written(written);
        true
    }

    /// Writes behind what the reader sees, this many bytes further on. These are seen by nobody, and lost with the next that is written;
    /// [`room`](Self::room) is called once before the first.
    ///
    /// # Safety
    ///
    /// `len` bytes at `from` can be read, and the ring has room for all that is behind its end.
    #[cfg(any(exos_preload, test))]
    pub(crate) unsafe fn stage(&self, skip: usize, from: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.staged(skip, len, |at, done, now| {
                at.copy_from_nonoverlapping(from.add(done), now)
            })
        };
    }

    /// Copies out bytes that were [staged](Self::stage).
    #[cfg(any(exos_preload, test))]
    pub(crate) fn take_staged(&self, skip: usize, into: &mut [u8]) {
        let (to, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: it is as long as it says.
        unsafe {
            self.staged(skip, len, |at, done, now| {
                to.add(done).copy_from_nonoverlapping(at, now)
            })
        };
    }

    /// Has `copy` copy each piece of what is behind the end: where it is, which bytes of all these, how many.
    #[cfg(any(exos_preload, test))]
    fn staged(&self, skip: usize, len: usize, copy: impl Fn(*mut u8, usize, usize)) {
        let first = self
            .at
            .tail
            .load(Ordering::Relaxed)
            .wrapping_add(skip as u32);
        let mut done = 0;
        while done < len {
            let (at, now) = self.piece(first.wrapping_add(done as u32), len - done);
            copy(at, done, now);
            done += now;
        }
    }

    // The reader's side.

    /// Copies what is there to `into`, and leaves it; gives how many bytes.
    pub fn peek(&self, into: &mut [u8]) -> usize {
        // SAFETY: it is as long as it says.
        unsafe { self.peek_to(into.as_mut_ptr(), into.len()) }
    }

    /// # Safety
    ///
    /// `room` bytes at `into` can be written.
    pub(crate) unsafe fn peek_to(&self, into: *mut u8, room: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.peek_at(0, into, room) }
    }

    /// Copies what is there behind the first `skip` bytes.
    ///
    /// # Safety
    ///
    /// `room` bytes at `into` can be written.
    pub(crate) unsafe fn peek_at(&self, skip: usize, into: *mut u8, room: usize) -> usize {
        let head = self
            .at
            .head
            .load(Ordering::Relaxed)
            .wrapping_add(skip as u32);
        let wanted = self.len().saturating_sub(skip).min(room);
        let mut count = 0;
        while count < wanted {
            let (from, now) = self.piece(head.wrapping_add(count as u32), wanted - count);
            // SAFETY: the writer leaves these bytes alone until they are consumed, and `into` has room for `wanted`.
            unsafe { into.add(count).copy_from_nonoverlapping(from, now) };
            count += now;
        }
        count
    }

    /// Lets go of bytes that were read.
    pub fn consume(&self, count: usize) {
        let head = self.at.head.load(Ordering::Relaxed);
        let head = head.wrapping_add(count as u32);
        self.at.head.store(head, Ordering::Release);
    }

    /// Takes out what is there, at most this much.
    pub fn take(&self, at_most: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len().min(at_most));
        // SAFETY: there is room for the capacity, and the bytes that were copied are set.
        unsafe {
            let count = self.peek_to(bytes.as_mut_ptr(), bytes.capacity().min(at_most));
            bytes.set_len(count);
        }
        self.consume(bytes.len());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 64;

    fn positions(at: u32) -> Positions {
        Positions {
            tail: at.into(),
            origin: at.into(),
            _pad: [0; 14],
            head: at.into(),
        }
    }

    /// Every length written behind every length left, over the end of the memory and of the numbers.
    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut memory = [0; SIZE];
        for start in [0, 17, u32::MAX - 40] {
            let at = positions(start);
            // SAFETY: the memory outlives the ring, and nobody else uses it.
            let ring = unsafe { Ring::new(&at, memory.as_mut_ptr(), SIZE) };
            let (mut next, mut expected) = (0_u8, 0_u8);
            for round in 0..2000_usize {
                let bytes: Vec<u8> = (0..round * 7 % 70)
                    .map(|n| next.wrapping_add(n as u8))
                    .collect();
                let free = ring.free();
                let pushed = ring.push(&bytes);
                assert_eq!(pushed, bytes.len().min(free));
                next = next.wrapping_add(pushed as u8);
                let mut seen = [0; SIZE];
                let there = ring.peek(&mut seen);
                assert_eq!(there, ring.len());
                let taken = ring.take(round * 5 % 66);
                assert_eq!(taken, seen[..taken.len()]);
                for byte in taken {
                    assert_eq!(byte, expected);
                    expected = expected.wrapping_add(1);
                }
            }
        }
    }

    #[test]
    fn an_empty_ring_begins_at_its_beginning() {
        let mut memory = [0; SIZE];
        let at = positions(0);
        // SAFETY: as above.
        let ring = unsafe { Ring::new(&at, memory.as_mut_ptr(), SIZE) };
        for _ in 0..10 {
            assert_eq!(ring.push(b"forty bytes of something or other, or so"), 40);
            assert_eq!(ring.take(SIZE).len(), 40);
        }
        assert!(memory[40..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn nonsense_of_the_other_side_stays_within_the_memory() {
        let mut memory = [7; SIZE];
        for (tail, origin, head) in [(0, 0, 1), (u32::MAX, 5, 3), (100, 77, 5)] {
            let at = Positions {
                tail: tail.into(),
                origin: origin.into(),
                _pad: [0; 14],
                head: head.into(),
            };
            // SAFETY: as above.
            let ring = unsafe { Ring::new(&at, memory.as_mut_ptr(), SIZE) };
            assert!(ring.len() <= SIZE);
            assert!(ring.take(1000).len() <= SIZE);
            assert!(ring.push(&[1; 1000]) <= SIZE);
        }
    }

    #[test]
    fn between_threads() {
        const TOTAL: usize = 2_000_000;
        let mut memory = vec![0; 4096];
        let at = positions(0);
        let data = memory.as_mut_ptr().expose_provenance();
        let ring = || {
            let data = std::ptr::with_exposed_provenance_mut(data);
            // SAFETY: the memory outlives both threads.
            unsafe { Ring::new(&at, data, 4096) }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (ring, mut sent) = (ring(), 0);
                while sent < TOTAL {
                    let count = (sent % 1000 + 1).min(TOTAL - sent);
                    let bytes: Vec<u8> = (sent..sent + count).map(|n| (n % 251) as u8).collect();
                    sent += ring.push(&bytes);
                }
            });
            let (ring, mut got) = (ring(), 0);
            while got < TOTAL {
                for byte in ring.take(700) {
                    assert_eq!(byte, (got % 251) as u8);
                    got += 1;
                }
            }
        });
    }

    /// Of every length behind every length left, over the end of the memory, while the reader reads what was before.
    #[test]
    fn what_is_staged_is_seen_by_the_writer_alone() {
        let mut memory = [0; SIZE];
        for start in [0, u32::MAX - 40] {
            let at = positions(start);
            // SAFETY: as above.
            let ring = unsafe { Ring::new(&at, memory.as_mut_ptr(), SIZE) };
            for left in 0..SIZE {
                ring.push(&vec![1; left]);
                let room = SIZE - ring.len();
                ring.room();
                let staged: Vec<u8> = (0..room as u8).collect();
                for (n, byte) in staged.iter().enumerate() {
                    // SAFETY: there is room for it.
                    unsafe { ring.stage(n, byte, 1) };
                }
                assert_eq!(ring.take(SIZE), vec![1; left]);
                let mut back = vec![0xff; room];
                ring.take_staged(0, &mut back);
                assert_eq!(back, staged);
                assert!(ring.is_empty());
            }
        }
    }
}
