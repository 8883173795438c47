//! One datagram by several calls (`MSG_MORE`, `UDP_CORK`, udp(7)).
//!
//! What was written of it lies in the ring out, behind the end that the other side sees: its head, into how long datagrams it is to be
//! cut, its bytes. [`Socket::corked`](crate::memory::Socket::corked) says how many these are. All of it belongs to the one that holds the
//! lock of those who write. A ring in which one begins has room for all that it can be, and nothing else is written there meanwhile.

use std::sync::atomic::Ordering;

use super::{IPV4_MAX, push_cut};
use crate::addresses::is_ipv4;
use crate::memory::options::CORK;
use crate::memory::{DATAGRAM_HEAD, DATAGRAM_MAX, DATAGRAM_ROOM, DatagramHead};
use crate::process::Found;
use crate::ring::Ring;
use crate::system::*;

/// What lies before the bytes: the head, and the length of segments (8 bytes).
const AHEAD: usize = DATAGRAM_HEAD + 8;

const _: () = assert!(AHEAD + DATAGRAM_MAX <= DATAGRAM_ROOM);

impl Found {
    /// Whether a datagram has begun, and waits for more.
    pub fn is_corked(self) -> bool {
        self.socket().corked.load(Ordering::Relaxed) != 0
    }

    /// Whether more of a datagram is to come behind what a call with these flags writes.
    pub(super) fn is_more(self, flags: i32) -> bool {
        flags & MSG_MORE != 0 || self.socket().has(CORK)
    }

    /// Begins a datagram; false where the ring has no room for the longest.
    ///
    /// # Safety
    ///
    /// The stretches can be read; the lock of those who write is held.
    pub(super) unsafe fn begin(
        self,
        ring: &Ring<'_>,
        head: &DatagramHead,
        from: &[Iovec],
        segment: usize,
    ) -> bool {
        // It also has the ring begin at its memory's beginning, if it is empty.
        if ring.room().1 == 0 || ring.free() < DATAGRAM_ROOM {
            return false;
        }
        let (head, segment) = (head.to_bytes(), segment.to_ne_bytes());
        // SAFETY: there is room for the longest; the caller's promise.
        unsafe {
            ring.stage(0, head.as_ptr(), head.len());
            ring.stage(DATAGRAM_HEAD, segment.as_ptr(), segment.len());
            self.stage(ring, 0, from);
        }
        true
    }

    /// Writes stretches behind the bytes that there are.
    unsafe fn stage(self, ring: &Ring<'_>, mut len: usize, from: &[Iovec]) {
        for part in from {
            // Another thread may make them longer meanwhile.
            let now = part.len.min(DATAGRAM_MAX - len);
            // SAFETY: as above.
            unsafe { ring.stage(AHEAD + len, part.base, now) };
            len += now;
        }
        self.socket()
            .corked
            .store(len as u32 + 1, Ordering::Relaxed);
    }

    /// Writes `len` bytes more of the datagram that has begun, and sends it if it is whole; `None` where none has.
    ///
    /// # Safety
    ///
    /// As for [`begin`](Self::begin).
    pub(super) unsafe fn append(
        self,
        from: &[Iovec],
        len: usize,
        is_more: bool,
    ) -> Option<Result<(), i32>> {
        let ring = self.here.shared.outward(self.number);
        let (head, _) = self.begun(&ring)?;
        let most = match is_ipv4(head.peer) {
            true => IPV4_MAX,
            false => DATAGRAM_MAX,
        };
        if head.len as usize + len > most {
            self.socket().corked.store(0, Ordering::Relaxed);
            return Some(Err(EMSGSIZE));
        }
        // SAFETY: the caller's promise.
        unsafe { self.stage(&ring, head.len as usize, from) };
        match is_more {
            true => Some(Ok(())),
            false => self.finish(&ring),
        }
    }

    /// The head of the datagram that has begun, and the length of its segments.
    fn begun(self, ring: &Ring<'_>) -> Option<(DatagramHead, usize)> {
        let corked = self.socket().corked.load(Ordering::Relaxed);
        let len = corked.checked_sub(1)?.min(DATAGRAM_MAX as u32);
        let (mut head, mut segment) = ([0; DATAGRAM_HEAD], [0; 8]);
        ring.take_staged(0, &mut head);
        ring.take_staged(DATAGRAM_HEAD, &mut segment);
        let head = DatagramHead {
            len,
            ..DatagramHead::from_bytes(&head)
        };
        Some((head, usize::from_ne_bytes(segment)))
    }

    /// Sends the datagram that has begun. If it cannot be, it is gone.
    fn finish(self, ring: &Ring<'_>) -> Option<Result<(), i32>> {
        let (head, segment) = self.begun(ring)?;
        self.socket().corked.store(0, Ordering::Relaxed);
        let mut bytes = vec![0; head.len as usize];
        ring.take_staged(AHEAD, &mut bytes);
        let parts = [Iovec {
            base: bytes.as_mut_ptr(),
            len: bytes.len(),
        }];
        Some(
            self.segment(segment, bytes.len(), is_ipv4(head.peer))
                .map(|segment| {
                    // SAFETY: it is as long as it says. There is room, as there was when it began.
                    unsafe { push_cut(ring, &head, &parts, segment) };
                    self.here.submit(self.number);
                }),
        )
    }

    /// A write that no datagram can hold: what has begun of IPv6 is gone with it, of IPv4 it waits on.
    pub(super) fn forget_begun_of_v6(self) -> Result<(), i32> {
        if self.is_corked() {
            let _one = self.here.lock(&self.socket().writes);
            self.check()?;
            let begun = self.begun(&self.here.shared.outward(self.number));
            if begun.is_some_and(|(head, _)| !is_ipv4(head.peer)) {
                self.socket().corked.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// What has begun waits no more (`UDP_CORK` is off).
    pub fn uncork(self) {
        if self.is_corked() {
            let _one = self.here.lock(&self.socket().writes);
            // The kernel does not tell either whether it could be sent.
            let _ = self.finish(&self.here.shared.outward(self.number));
        }
    }
}
