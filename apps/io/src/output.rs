//! Where bytes go: standard output, by references where the other end of the pipe is one of ours.

use crate::limits::{BLOCK_LEN, LOOK};
use crate::meeting::{self, Listener};
use crate::options::CommonArgs;
use exos_file_cache::descriptor::Copied;
use exos_host::{Error, Result};
use exos_iolite::{Aggregate, Draft, Pool, Sender, Wait};
use rustix::stdio::stdout;
use std::io;
use std::os::fd::OwnedFd;

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
        Self {
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
    pub fn write(&mut self, mut bytes: Aggregate) -> Result<()> {
        if self.meet()? {
            self.passed += bytes.len() as u64;
            let ours = self.ours.as_mut().expect("it is there");
            ours.flush()?;
            return ours.send(&mut bytes);
        }
        self.flush_pending()?;
        self.copied
            .write(Descriptor, &bytes)
            .map_err(|error| told(&error))
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
        let ours = self.ours.as_mut().expect("it is there");
        self.passed += bytes.len() as u64;
        while !bytes.is_empty() {
            bytes = ours.put(bytes)?;
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
            let (passed, copied) = (self.passed, self.copied.written + self.pending.len() as u64);
            exos_host::info!("wrote {passed} bytes by reference, {copied} by copy");
        }
        if !self.meet()? {
            return self.flush_pending();
        }
        let mut ours = self.ours.take().expect("it is there");
        ours.flush()?;
        drop(ours.sender);
        meeting::wait_for_end(&ours.beside);
        Ok(())
    }
}

impl Ours {
    fn send(&mut self, bytes: &mut Aggregate) -> Result<()> {
        match self.sender.write_all(bytes, Wait::PollFor(LOOK)) {
            Ok(_) => Ok(()),
            Err(exos_iolite::Error::PeerGone) => Err(Error::new(READER_GONE)),
            Err(error) => Err(Error::new(format!("cannot write to the pipe: {error}"))),
        }
    }

    /// Sends what is in the draft.
    fn flush(&mut self) -> Result<()> {
        match self.draft.take() {
            Some((draft, len)) => self.send(&mut draft.freeze_first(len).into()),
            None => Ok(()),
        }
    }

    /// Puts bytes behind those of the draft; what did not fit.
    #[inline]
    fn put<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let (draft, len) = match &mut self.draft {
            Some(draft) => draft,
            None => {
                let draft = self.pool.draft(BLOCK_LEN);
                let draft = draft.map_err(|error| Error::new(error.to_string()))?;
                self.draft.insert((draft, 0))
            }
        };
        let now = bytes.len().min(BLOCK_LEN - *len);
        draft.bytes_mut()[*len..*len + now].copy_from_slice(&bytes[..now]);
        *len += now;
        if *len == BLOCK_LEN {
            self.flush()?;
        }
        Ok(&bytes[now..])
    }
}
