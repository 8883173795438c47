//! A request's body at an application: what has come of it and was not read, within the room that the server was given.

use crate::limits::BODY_ROOM;
use std::collections::VecDeque;

/// A body, as it comes.
#[derive(Debug, Default)]
pub(super) struct Body {
    unread: VecDeque<u8>,
    is_whole: bool,
    /// What was read since the server was told.
    read: usize,
    /// Nobody reads it: what comes counts as read.
    is_ignored: bool,
}

impl Body {
    /// One of which something comes, or nothing.
    pub fn new(comes: bool) -> Self {
        Self {
            is_whole: !comes,
            ..Self::default()
        }
    }

    /// A part of it; false when that is more than there was room for.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        if self.is_whole || self.unread.len() + self.read + bytes.len() > BODY_ROOM {
            return false;
        }
        match self.is_ignored {
            true => self.read += bytes.len(),
            false => self.unread.extend(bytes),
        }
        true
    }

    /// No more comes.
    pub fn end(&mut self) {
        self.is_whole = true;
    }

    /// No more comes than is there.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Bytes that were not read.
    pub fn len(&self) -> usize {
        self.unread.len()
    }

    /// The next bytes of it, as many as fit.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.unread.len());
        let (first, second) = self.unread.as_slices();
        let split = len.min(first.len());
        out[..split].copy_from_slice(&first[..split]);
        out[split..len].copy_from_slice(&second[..len - split]);
        self.unread.drain(..len);
        self.read += len;
        len
    }

    /// All that there is of it.
    pub fn read_all(&mut self) -> Vec<u8> {
        self.read += self.unread.len();
        std::mem::take(&mut self.unread).into()
    }

    /// Nobody reads what there is, or what comes.
    pub fn ignore(&mut self) {
        self.read_all();
        self.is_ignored = true;
    }

    /// The server is to be told of room.
    pub fn has_room_to_tell(&self) -> bool {
        self.read >= BODY_ROOM / 2 && !self.is_whole
    }

    /// How much room there is more than the server was told.
    pub fn tell_room(&mut self) -> usize {
        std::mem::take(&mut self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_as_much_room_as_was_read_of_it() {
        let mut body = Body::new(true);
        assert!(body.take(&[1; BODY_ROOM - 1]) && body.take(&[2]) && !body.take(&[3]));
        let mut some = [0; 1000];
        assert_eq!(
            (body.read(&mut some), some[999], body.len()),
            (1000, 1, BODY_ROOM - 1000)
        );
        // The server was not told yet.
        assert!(!body.has_room_to_tell() && !body.take(&[3]));
        assert_eq!(body.read_all().last(), Some(&2));
        assert!(body.has_room_to_tell());
        assert_eq!(
            (body.tell_room(), body.has_room_to_tell()),
            (BODY_ROOM, false)
        );
        body.ignore();
        assert!(body.take(&[1; BODY_ROOM]) && body.len() == 0 && body.has_room_to_tell());
        body.end();
        assert!(!body.has_room_to_tell() && body.is_whole() && !body.take(&[]));
    }

    #[test]
    fn a_request_without_a_body_has_none() {
        let mut body = Body::new(false);
        assert!(body.is_whole() && !body.take(&[1]) && body.read_all().is_empty());
    }
}
