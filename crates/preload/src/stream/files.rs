//! Parts of files, written to a connection (sendfile(2)).

use crate::memory::state::{LISTENS, NO_WRITES, OVER};
use crate::process::Found;
use crate::ring::Ring;
use crate::sharing::find;
use crate::system::{self, EBADF, EINVAL, SEEK_CUR};

/// A part of a file.
struct Part {
    file: i32,
    /// Where it goes on; `None`: where the file is.
    at: Option<i64>,
    left: usize,
}

impl Part {
    /// As the kernel says of a pipe or a terminal, whose bytes would be waited for while handlers wait.
    fn check(&self) -> Result<(), i32> {
        // SAFETY: always.
        if find(self.file).is_some() || unsafe { system::lseek64(self.file, 0, SEEK_CUR) } < 0 {
            return Err(match system::errno() {
                EBADF if find(self.file).is_none() => EBADF,
                _ => EINVAL,
            });
        }
        match self.at {
            Some(..0) => Err(EINVAL),
            _ => Ok(()),
        }
    }

    /// There is nothing in the file from here on.
    fn has_ended(&self) -> bool {
        let mut byte = 0;
        // SAFETY: a descriptor of this process, and room for a byte.
        unsafe {
            let at = self
                .at
                .unwrap_or_else(|| system::lseek64(self.file, 0, SEEK_CUR));
            system::pread64(self.file, &raw mut byte, 1, at) == 0
        }
    }

    /// Puts into a ring what it has room for: how much, and whether the file ends there.
    fn put(&mut self, ring: &Ring<'_>) -> Result<(usize, bool), i32> {
        let mut count = 0;
        while self.left > 0 {
            let (to, room) = ring.room();
            let now = room.min(self.left);
            if now == 0 {
                break;
            }
            let read = match self.at {
                // SAFETY: there is room for these at `to`, which the other side does not look at before they are written.
                Some(at) => unsafe { system::pread64(self.file, to, now, at) },
                // SAFETY: as above.
                None => unsafe { system::read(self.file, to, now) },
            };
            match read {
                1.. => {
                    ring.written(read as usize);
                    count += read as usize;
                    self.left -= read as usize;
                    self.at = self.at.map(|at| at + read as i64);
                }
                // The file ends.
                0 => return Ok((count, true)),
                _ if count > 0 => break,
                _ => return Err(system::errno()),
            }
        }
        Ok((count, false))
    }
}

impl Found {
    /// Writes a part of a file (sendfile(2)), from where it is, or from an offset.
    pub fn transmit_file(
        self,
        file: i32,
        offset: Option<i64>,
        wanted: usize,
    ) -> Result<usize, i32> {
        let mut part = Part {
            file,
            at: offset,
            left: wanted,
        };
        part.check()?;
        if self.is_datagrams() {
            return self.transmit_file_whole(file, offset, wanted);
        }
        // Of nothing at all the kernel does not ask whether it can be written.
        let may_fail =
            !self.is_writable() || self.has_error() || self.socket().is(OVER | NO_WRITES | LISTENS);
        if wanted == 0 || (may_fail && part.has_ended()) {
            return Ok(0);
        }
        self.fill(wanted, 0, |found| {
            part.put(&found.here.shared.outward(found.number))
        })
    }
}
