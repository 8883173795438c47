//! Where bytes go: standard output, by references where the other end of the pipe is one of ours.

use crate::limits::{BLOCK_LEN, BUFFER_LOOK, LOOK};
use crate::meeting::{self, Listener};
use crate::options::CommonArgs;
use exos_file_cache::descriptor::Copied;
use exos_host::{Error, Result};
use exos_iolite::{Aggregate, Draft, Pool, Sender, Wait};
use rustix::fs::{FileType, Stat, fstat};
use rustix::stdio::stdout;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Standard output.
#[derive(Debug)]
pub(crate) struct Output {
    listener: Option<Listener>,
    ours: Option<Ours>,
    /// Bytes for the kernel, which are written together.
    pending: Vec<u8>,
    copied: Copied,
    passed: u64,
    is_verbose: bool,
    /// Which file it is, if it is one.
    file: Option<(u64, u64)>,
}

fn identity(file: &Stat) -> (u64, u64) {
    (file.st_dev, file.st_ino)
}

/// A pipe of ours.
#[derive(Debug)]
struct Ours {
    pool: Pool,
    sender: Sender,
    /// At its end when the other side has taken all.
    beside: OwnedFd,
    draft: Option<(Draft, usize)>,
}

/// Writes to a descriptor, which is nobody else's.
struct Descriptor;

impl io::Write for Descriptor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is said when the reader has gone, which `is_reader_gone` knows again.
const READER_GONE: &str = "the reader of standard output has gone";

fn told(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Error::new(READER_GONE),
        _ => Error::new(format!("cannot write to standard output: {error}")),
    }
}

/// Whether an error is that nobody reads any more, which ends a tool without a word.
pub(crate) fn is_reader_gone(error: &Error) -> bool {
    error.to_string() == READER_GONE
}

impl Output {
    pub fn new(args: &CommonArgs) -> Self {
        let found = fstat(stdout()).ok();
        let file = found.filter(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile);
        Self {
            file: file.as_ref().map(identity),
            listener: Listener::new(stdout()),
            ours: None,
            pending: Vec::with_capacity(BLOCK_LEN),
            copied: Copied::default(),
            passed: 0,
            is_verbose: args.verbose,
        }
    }

    /// Whether bytes are passed by reference.
    fn meet(&mut self) -> Result<bool> {
        if self.ours.is_some() {
            return Ok(true);
        }
        let Some(listener) = &self.listener else {
            return Ok(false);
        };
        let Some(socket) = listener.accept() else {
            return Ok(false);
        };
        self.flush_pending()?;
        let pool = meeting::pool().ok();
        let ours = pool.and_then(|pool| Some((meeting::let_in(socket, &pool)?, pool)));
        let Some(((sender, beside), pool)) = ours else {
            return Ok(false);
        };
        self.ours = Some(Ours {
            pool,
            sender,
            beside,
            draft: None,
        });
        Ok(true)
    }

    /// Writes an aggregate: by reference, or by copy to the kernel.
    pub fn write(&mut self, bytes: Aggregate) -> Result<()> {
        if self.meet()? {
            let mut all = self.take_draft();
            all.concatenate(bytes);
            return self.send(all);
        }
        self.flush_pending()?;
        self.write_copied(&bytes)
    }

    fn write_copied(&mut self, bytes: &Aggregate) -> Result<()> {
        let written = self.copied.write(Descriptor, bytes);
        written.map_err(|error| told(&error))
    }

    /// What is in the draft.
    fn take_draft(&mut self) -> Aggregate {
        let draft = self.ours.as_mut().and_then(|ours| ours.draft.take());
        draft.map_or_else(Aggregate::new, |(draft, len)| {
            draft.freeze_first(len).into()
        })
    }

    /// Passes bytes by reference. Where the reader has gone, the kernel's pipe takes what it has not been passed: another may read on there, as
    /// in `exos io cat a | (exos io grep -q b; wc)`, and where there is none, the kernel says so.
    fn send(&mut self, mut bytes: Aggregate) -> Result<()> {
        let len = bytes.len();
        let ours = self.ours.as_mut().expect("it is there");
        let sent = ours.sender.write_all(&mut bytes, Wait::PollFor(LOOK));
        self.passed += (len - bytes.len()) as u64;
        match sent {
            Ok(_) => Ok(()),
            Err(exos_iolite::Error::PeerGone) => {
                self.ours = None;
                self.write_copied(&bytes)
            }
            Err(error) => Err(Error::new(format!("cannot write to the pipe: {error}"))),
        }
    }

    /// Whether a file is the one to which standard output goes, with all that was written before. To read that would have no end.
    pub fn is_into(&mut self, file: BorrowedFd<'_>) -> Result<bool> {
        let Some(into) = self.file else {
            return Ok(false);
        };
        let is_it = fstat(file).is_ok_and(|file| identity(&file) == into);
        if is_it {
            self.flush_pending()?;
        }
        Ok(is_it)
    }

    /// Writes bytes, together with others.
    #[inline]
    pub fn write_bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        if self.ours.is_none() {
            if self.pending.len() + bytes.len() <= BLOCK_LEN {
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
            if !self.meet()? {
                self.flush_pending()?;
                if bytes.len() >= BLOCK_LEN {
                    return self.write_plain(bytes);
                }
                self.pending.extend_from_slice(bytes);
                return Ok(());
            }
        }
        while !bytes.is_empty() {
            let Some(ours) = &mut self.ours else {
                return self.write_bytes(bytes);
            };
            match ours.put(bytes)? {
                Put::Part(left) => bytes = left,
                Put::IsFull(left) => {
                    bytes = left;
                    let draft = self.take_draft();
                    self.send(draft)?;
                }
                Put::ReaderGone => self.ours = None,
            }
        }
        Ok(())
    }

    fn write_plain(&mut self, bytes: &[u8]) -> Result<()> {
        self.copied.written += bytes.len() as u64;
        io::Write::write_all(&mut Descriptor, bytes).map_err(|error| told(&error))
    }

    fn flush_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let result = self.write_plain(&pending);
        self.pending = pending;
        self.pending.clear();
        result
    }

    /// Writes what is left, and waits until what is another's was taken: it goes with this process.
    pub fn end(mut self) -> Result<()> {
        if self.is_verbose {
            let draft = self.ours.as_ref().and_then(|ours| ours.draft.as_ref());
            let passed = self.passed + draft.map_or(0, |(_, len)| *len as u64);
            let copied = self.copied.written + self.pending.len() as u64;
            exos_host::info!("wrote {passed} bytes by reference, {copied} by copy");
        }
        if !self.meet()? {
            return self.flush_pending();
        }
        let draft = self.take_draft();
        if !draft.is_empty() {
            self.send(draft)?;
        }
        if let Some(ours) = self.ours.take() {
            drop(ours.sender);
            meeting::wait_for_end(&ours.beside);
        }
        Ok(())
    }
}

/// What became of bytes for the draft.
enum Put<'a> {
    /// All are in it; none of these is left, and there is room.
    Part(&'a [u8]),
    /// These did not fit, or just did: it is to be sent.
    IsFull(&'a [u8]),
    /// There is no draft, and nobody to send it to.
    ReaderGone,
}

impl Ours {
    /// Puts bytes behind those of the draft, as many as there is room for.
    #[inline]
    fn put<'a>(&mut self, bytes: &'a [u8]) -> Result<Put<'a>> {
        let (draft, len) = match &mut self.draft {
            Some(draft) => draft,
            None => match self.room()? {
                Some(draft) => self.draft.insert((draft, 0)),
                None => return Ok(Put::ReaderGone),
            },
        };
        let now = bytes.len().min(BLOCK_LEN - *len);
        draft.bytes_mut()[*len..*len + now].copy_from_slice(&bytes[..now]);
        *len += now;
        Ok(match *len == BLOCK_LEN {
            true => Put::IsFull(&bytes[now..]),
            false => Put::Part(&bytes[now..]),
        })
    }

    /// An empty buffer, as soon as one of those that have all lets go of it; nothing when the reader has gone.
    fn room(&self) -> Result<Option<Draft>> {
        loop {
            match self.pool.draft(BLOCK_LEN) {
                Ok(draft) => return Ok(Some(draft)),
                Err(exos_iolite::Error::Exhausted { .. }) => {}
                Err(error) => return Err(Error::new(error.to_string())),
            }
            if meeting::is_at_end(&self.beside, Some(BUFFER_LOOK)) {
                return Ok(None);
            }
        }
    }
}
