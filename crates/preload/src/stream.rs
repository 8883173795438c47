//! Bytes of a connection: what all reading and writing calls come to.

mod files;

use std::sync::atomic::{Ordering, fence};

use crate::control::Wishes;
use crate::memory::LOW_WATER_MAX;
use crate::memory::state::{
    DATAGRAMS, FINISHED, HAS_MORE, LISTENS, NO_READS, NO_WRITES, OVER, STANDS, WANTS_ROOM,
};
use crate::process::Found;
use crate::system::{
    self, EAGAIN, EINVAL, ENOTCONN, EOPNOTSUPP, EPIPE, Iovec, MSG_ERRQUEUE, MSG_NOSIGNAL, MSG_OOB,
    MSG_PEEK, MSG_TRUNC, MSG_WAITALL, SIGPIPE,
};
use crate::wait::Patience;

impl Found {
    /// The error that the program has not heard of, once.
    pub fn take_error(self) -> Result<(), i32> {
        match self.socket().error.swap(0, Ordering::AcqRel) {
            0 => Ok(()),
            number => Err(number as i32),
        }
    }

    /// Something can be read, be it the end.
    pub fn is_readable(self) -> bool {
        self.has_bytes(1)
    }

    /// As much can be read of a connection as its program wants to be told of, or the end.
    pub fn has_enough(self) -> bool {
        self.has_bytes(self.low_water() as usize)
    }

    /// As many bytes can be read, or fewer and the end.
    fn has_bytes(self, count: usize) -> bool {
        self.check().is_err()
            || self.here.shared.inward(self.number).len() >= count
            || self.socket().is(FINISHED | OVER | NO_READS)
            || self.socket().error.load(Ordering::Relaxed) != 0
    }

    /// It takes connections, and was not told to take no more.
    pub fn listens(self) -> bool {
        self.socket().is(LISTENS) && !self.socket().is(NO_READS)
    }

    /// Nothing goes either way any more, as both sides wished.
    pub fn is_complete(self) -> bool {
        let socket = self.socket();
        socket.is(FINISHED)
            && socket.is(NO_WRITES)
            && self.here.shared.outward(self.number).is_empty()
    }

    fn has_error(self) -> bool {
        self.socket().error.load(Ordering::Relaxed) != 0
    }

    /// Reads into these stretches of memory (readv(2)).
    ///
    /// # Safety
    ///
    /// They can be written.
    pub unsafe fn read(self, into: &[Iovec], flags: i32) -> Result<usize, i32> {
        if into.iter().all(|part| part.len == 0) {
            return Ok(0);
        }
        // SAFETY: the caller's promise.
        unsafe { self.receive(into, flags) }
    }

    /// Reads into these stretches of memory (recvmsg(2)).
    ///
    /// # Safety
    ///
    /// They can be written.
    pub unsafe fn receive(self, into: &[Iovec], flags: i32) -> Result<usize, i32> {
        if self.is_datagrams() {
            // SAFETY: the caller's promise.
            let came = unsafe { self.receive_datagram(into, flags)? };
            return Ok(came.count(flags));
        }
        let is_urgent = flags & MSG_OOB != 0;
        if self.socket().is(LISTENS) && (!is_urgent || self.listens()) {
            return Err(ENOTCONN);
        }
        if flags & (MSG_OOB | MSG_ERRQUEUE) != 0 {
            return Err(if is_urgent { EINVAL } else { EAGAIN });
        }
        let wanted: usize = into.iter().map(|part| part.len).sum();
        let socket = self.socket();
        let patience = Patience::new(self, flags, &socket.receive_timeout);
        let is_look = flags & MSG_PEEK != 0;
        // With fewer bytes a call that may wait does not return.
        let target = match flags & MSG_WAITALL {
            0 => wanted.min(self.low_water() as usize),
            // More may not be there at once.
            _ if is_look => wanted.min(LOW_WATER_MAX as usize),
            _ => wanted,
        };
        let mut count = 0;
        loop {
            // Looked at before the ring: what came before the end is in it then.
            let ended = socket.is(FINISHED | OVER | NO_READS);
            let finished = socket.is(FINISHED);
            // SAFETY: the caller's promise.
            match unsafe { self.take(into, count, flags) } {
                Ok(now) => count += now,
                Err(_) if count > 0 => return Ok(count),
                Err(number) => return Err(number),
            }
            // One who wants no bytes hears whether there are any.
            let is_all = match wanted {
                0 => !self.here.shared.inward(self.number).is_empty(),
                _ => count == wanted,
            };
            // What the peer says behind its end is for those who write.
            if is_all || finished || (count > 0 && (count >= target || self.has_error())) {
                return Ok(count);
            }
            match self.take_error() {
                Err(number) => return Err(number),
                Ok(()) if ended => return Ok(count),
                Ok(()) => {}
            }
            // What was only looked at is there still.
            let seen = if is_look { count } else { 0 };
            let ready = || self.has_bytes(seen + 1);
            match patience.wait(self, (&socket.came, &socket.readers), ready) {
                Ok(()) => {}
                Err(EAGAIN) if wanted == 0 && patience.may_wait() => return Ok(0),
                Err(_) if count > 0 => return Ok(count),
                Err(number) => return Err(number),
            }
        }
    }

    /// Takes what is there, into the stretches behind their first `skip` bytes; a look (`MSG_PEEK`) begins behind as many of the ring.
    unsafe fn take(self, into: &[Iovec], skip: usize, flags: i32) -> Result<usize, i32> {
        let (shared, socket) = (&self.here.shared, self.socket());
        let _one = self.here.lock(&socket.reads);
        self.check()?;
        let ring = shared.inward(self.number);
        let mut count = 0;
        let mut passed = 0;
        for part in into {
            let inside = skip.saturating_sub(passed).min(part.len);
            passed += part.len;
            let room = part.len - inside;
            if room == 0 {
                continue;
            }
            // What was counted before is in the ring still where it is only looked at.
            let seen = if flags & MSG_PEEK != 0 {
                skip + count
            } else {
                0
            };
            let now = if flags & MSG_TRUNC != 0 {
                ring.len().saturating_sub(seen).min(room)
            } else if flags & MSG_PEEK != 0 {
                // SAFETY: the caller's promise.
                unsafe { ring.peek_at(seen, part.base.add(inside), room) }
            } else {
                // SAFETY: the caller's promise.
                unsafe { ring.peek_to(part.base.add(inside), room) }
            };
            if flags & MSG_PEEK == 0 {
                ring.consume(now);
            }
            count += now;
            if now < room {
                break;
            }
        }
        // What was taken is seen before it is looked whether there is more.
        fence(Ordering::SeqCst);
        if flags & MSG_PEEK == 0 && socket.is(HAS_MORE) && ring.len() <= LOW_WATER_MAX as usize {
            self.here.submit(self.number);
        }
        Ok(count)
    }

    /// Whether a write has room, or an end to tell. If not, the other side says when.
    pub fn is_writable(self) -> bool {
        let socket = self.socket();
        if self.check().is_err() || socket.is(OVER | NO_WRITES) || self.has_error() {
            return true;
        }
        let has_room = || self.here.shared.outward(self.number).free() >= self.room_wanted();
        if !socket.is(STANDS | DATAGRAMS) {
            return false;
        }
        if has_room() {
            return true;
        }
        socket.add(WANTS_ROOM);
        fence(Ordering::SeqCst);
        // It may have taken some meanwhile.
        has_room()
    }

    /// Why nothing can be written, if so.
    fn cannot_write(self) -> Result<(), i32> {
        self.take_error()?;
        match self.socket().is(OVER | NO_WRITES | LISTENS) {
            true => Err(EPIPE),
            false => Ok(()),
        }
    }

    /// Writes these stretches of memory (sendmsg(2)).
    ///
    /// # Safety
    ///
    /// They can be read.
    pub unsafe fn transmit(self, from: &[Iovec], flags: i32) -> Result<usize, i32> {
        if self.is_datagrams() {
            // SAFETY: the caller's promise.
            return unsafe { self.transmit_datagram(from, flags, None, Wishes::default()) };
        }
        if flags & MSG_OOB != 0 {
            return Err(EOPNOTSUPP);
        }
        let wanted: usize = from.iter().map(|part| part.len).sum();
        let mut done = (0, 0);
        self.fill(wanted, flags, |found| {
            let ring = found.here.shared.outward(found.number);
            let mut count = 0;
            while let Some(part) = from.get(done.0) {
                // SAFETY: the caller's promise.
                let bytes = unsafe { std::slice::from_raw_parts(part.base, part.len) };
                let bytes = if part.len == 0 { &[] } else { &bytes[done.1..] };
                let now = ring.push(bytes);
                count += now;
                if now < bytes.len() {
                    done.1 += now;
                    break;
                }
                done = (done.0 + 1, 0);
            }
            Ok((count, false))
        })
    }

    /// Writes what `put` puts into the ring (how much, and whether there is no more), until it is as much as wanted or the socket does
    /// not wait.
    fn fill(
        self,
        wanted: usize,
        flags: i32,
        mut put: impl FnMut(Self) -> Result<(usize, bool), i32>,
    ) -> Result<usize, i32> {
        let socket = self.socket();
        let patience = Patience::new(self, flags, &socket.send_timeout);
        let mut count = 0;
        let ended = loop {
            // Before its error is looked at: it may be another's.
            if let Err(number) = self.check() {
                break number;
            }
            // An error is for the call that has nothing else to tell.
            if count > 0 && self.has_error() {
                return Ok(count);
            }
            if let Err(number) = self.cannot_write() {
                break number;
            }
            if socket.is(STANDS) {
                if wanted == 0 {
                    return Ok(0);
                }
                let put = {
                    let _one = self.here.lock(&socket.writes);
                    self.check().and_then(|()| put(self))
                };
                let (now, is_all) = match put {
                    Ok(put) => put,
                    Err(number) => break number,
                };
                count += now;
                if now > 0 {
                    self.here.submit(self.number);
                }
                if count == wanted || is_all {
                    return Ok(count);
                }
            }
            let ready = || self.is_writable();
            if let Err(number) = patience.wait(self, (&socket.left, &socket.writers), ready) {
                // Its program hears when there is room, unless there is by now.
                if number == EAGAIN && self.is_writable() && !patience.may_wait() {
                    continue;
                }
                break number;
            }
        };
        if count > 0 {
            return Ok(count);
        }
        if ended == EPIPE && flags & MSG_NOSIGNAL == 0 {
            // SAFETY: always.
            unsafe { system::raise(SIGPIPE) };
        }
        Err(ended)
    }
}
