//! Long files on sockets: the kernel sends them from its own memory (sendfile), and this thread waits for the disk, as
//! servers of this kind do.

use std::io;
use std::rc::Rc;

use rustix::io::Errno;

use super::client::{Client, Shared};
use crate::http::{Attempt, Handled, Next, Piece, Status};
use crate::site::long::{Long, OpenFile};

/// Bytes sent in one call, after which the file is looked at again: what a socket's buffer may take.
const SEND_LEN: u64 = 1 << 20;

impl Client {
    /// Answers a request that waits for a file, and those behind it; with 503 if the file cannot be had.
    pub(super) fn go_on_with_file(
        &mut self,
        long: &Rc<Long>,
        rest: &[u8],
        room: usize,
        handled: &mut Handled,
        shared: &mut Shared<'_>,
    ) {
        let (consumed, responses) = (handled.consumed, handled.responses);
        *handled = match Client::open(long) {
            Some(_open) => {
                let attempt = Attempt::after_waiting(None);
                self.http
                    .handle_again(shared.server, rest, room, attempt, shared.out)
            }
            None => {
                shared
                    .server
                    .refuse(Status::ServiceUnavailable, rest, shared.out);
                Handled {
                    consumed: rest.len(),
                    responses: 1,
                    next: Next::Close,
                }
            }
        };
        handled.consumed += consumed;
        handled.responses += responses;
    }

    /// Opens a file that a request waits for; `None` when it cannot be had.
    fn open(long: &Rc<Long>) -> Option<Rc<OpenFile>> {
        let exos_host::uring::Outcome::Opened(Ok(fd)) = long.file().open().perform() else {
            return None;
        };
        let file = Rc::new(OpenFile::new(long.file(), fd).ok().flatten()?);
        long.set_open(&file);
        Some(file)
    }

    /// Sends what follows the slices of a response, as far as the kernel takes it; true when all is sent.
    ///
    /// # Errors
    ///
    /// The connection is broken; or the file has changed, and the client must not get a mix of two versions.
    pub(super) fn send_tail(&mut self) -> io::Result<bool> {
        while let Some(tail) = &mut self.tail {
            let Some(Piece::File(range)) = tail.pieces.front_mut() else {
                let Some(Piece::Bytes(slice)) = tail.pieces.pop_front() else {
                    self.tail = None;
                    break;
                };
                self.queued -= slice.len();
                self.queue(&mut vec![slice]);
                if !self.write_queue()? {
                    return Ok(false);
                }
                continue;
            };
            let most = (range.end - range.start).min(SEND_LEN) as usize;
            let before = range.start;
            match rustix::fs::sendfile(&self.socket, tail.file.fd(), Some(&mut range.start), most) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) if !tail.file.is_unchanged() => return Err(io::ErrorKind::InvalidData.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            self.queued -= (range.start - before) as usize;
            if range.is_empty() {
                tail.pieces.pop_front();
            }
        }
        Ok(true)
    }
}
