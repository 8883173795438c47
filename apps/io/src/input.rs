//! Where bytes come from: files, by the cache where one runs and takes them, and standard input, by references where the other end of the pipe is
//! one of ours.

use crate::limits::{BLOCK_LEN, LOOK};
use crate::meeting::{First, Visitor};
use crate::options::CommonArgs;
use exos_file_cache::{Client, File, Opened, Status};
use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_iolite::{Aggregate, Read, Receiver, Wait};
use rustix::fs::{Advice, FileType, SeekFrom, fadvise, fstat, seek};
use rustix::io::{Errno, ioctl_fionread, read};
use rustix::stdio::stdin;
use std::cell::OnceCell;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// The next bytes.
#[derive(Debug)]
pub(crate) enum Chunk<'a> {
    /// They were copied here.
    Bytes(&'a [u8]),
    /// They are where another process has put them.
    Shared(Aggregate),
    End,
}

impl Chunk<'_> {
    /// Shows them, block after block, each in one piece.
    pub fn for_each_block(&self, mut look: impl FnMut(&[u8])) {
        match self {
            Self::Bytes(bytes) => look(bytes),
            Self::Shared(bytes) => bytes.for_each_block(look),
            Self::End => {}
        }
    }
}

/// Reads inputs, one after the other.
#[derive(Debug)]
pub(crate) struct Inputs {
    args: CommonArgs,
    /// The cache, where it is wanted and there; not known before the first file, since who reads a pipe alone has no need of it.
    client: OnceCell<Option<Client>>,
    buffer: Vec<u8>,
    standard: StandardInput,
    shared: u64,
    copied: u64,
}

/// One that is read.
#[derive(Debug)]
pub(crate) enum Input {
    Shared(File, OwnedFd),
    File(OwnedFd),
    Standard,
    /// It has been read to its end.
    Ended,
}

impl Input {
    /// What the kernel reads from.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Shared(_, file) | Self::File(file) => Some(file.as_fd()),
            Self::Standard => Some(stdin()),
            Self::Ended => None,
        }
    }

    /// Whether it is a pipe or the like, of which nobody knows when more comes.
    pub fn may_wait(&self) -> bool {
        let found = self.descriptor().and_then(|file| fstat(file).ok());
        found.is_none_or(|it| FileType::from_raw_mode(it.st_mode) != FileType::RegularFile)
    }
}

#[derive(Debug, Default)]
struct StandardInput {
    receiver: Option<Box<Receiver>>,
    visitor: Option<Visitor>,
    /// What is in the kernel's pipe comes first.
    is_draining: bool,
}

/// An error of a file, with its name.
pub(crate) fn of(path: &Path, error: &Error) -> Error {
    Error::new(format!("{}: {error}", path.display()))
}

/// The cache, if it is wanted and there.
fn connect(args: &CommonArgs) -> Option<Client> {
    let client = match &args.cache {
        _ if args.no_cache => return None,
        Some(path) => Client::connect(path),
        None => Client::find(),
    };
    let set_up = |mut client: Client| {
        if let Some(name) = &args.share {
            client.share_as(name)?;
        }
        if let Some(policy) = args.policy {
            client.replace_by(policy)?;
        }
        Ok(client)
    };
    let client = client.and_then(set_up);
    if let Err(error) = &client
        && args.verbose
    {
        exos_host::info!("{error}: files are read by copy");
    }
    client.ok()
}

impl Inputs {
    pub fn new(args: &CommonArgs) -> Self {
        Self {
            args: args.clone(),
            client: OnceCell::new(),
            buffer: Vec::new(),
            standard: StandardInput::default(),
            shared: 0,
            copied: 0,
        }
    }

    /// Opens a file; `-` is standard input.
    pub fn open(&mut self, path: &Path) -> Result<Input> {
        if path == Path::new("-") {
            return Ok(Input::Standard);
        }
        self.client.get_or_init(|| connect(&self.args));
        let file = std::fs::File::open(path).context(|| path.display().to_string())?;
        let file = OwnedFd::from(file);
        let Some(client) = self.client() else {
            let _ = fadvise(&file, 0, None, Advice::Sequential);
            return Ok(Input::File(file));
        };
        match client.open(&file) {
            Ok(Opened::Shared(shared)) => Ok(Input::Shared(shared, file)),
            Ok(Opened::Not(status)) => {
                self.say_copy(path, status);
                Ok(Input::File(file))
            }
            Err(error) => {
                self.lose_client(&error);
                Ok(Input::File(file))
            }
        }
    }

    /// The cache, where it was there when the first file was opened, and is.
    fn client(&mut self) -> Option<&mut Client> {
        self.client.get_mut()?.as_mut()
    }

    fn say_copy(&self, path: &Path, status: Status) {
        if self.args.verbose {
            let (path, reason) = (path.display(), status.reason());
            exos_host::info!("{path} is read by copy: {reason}");
        }
    }

    fn lose_client(&mut self, error: &exos_file_cache::Error) {
        if self.args.verbose {
            exos_host::info!("{error}: what follows is read by copy");
        }
        self.client = OnceCell::from(None);
    }

    /// The next bytes of an input.
    pub fn next(&mut self, input: &mut Input) -> Result<Chunk<'_>> {
        match input {
            Input::Shared(..) => self.next_shared(input),
            Input::File(file) => self.next_copied(None, file.as_fd()),
            Input::Standard => self.next_standard(),
            Input::Ended => Ok(Chunk::End),
        }
    }

    fn next_shared(&mut self, input: &mut Input) -> Result<Chunk<'_>> {
        let Input::Shared(shared, file) = input else {
            return Ok(Chunk::End);
        };
        let client = self.client.get_mut().and_then(Option::as_mut);
        match client.map(|client| client.read_next(shared)) {
            Some(Ok(bytes)) if bytes.is_empty() => {
                self.close(std::mem::replace(input, Input::Ended));
                Ok(Chunk::End)
            }
            Some(Ok(bytes)) => {
                self.shared += bytes.len() as u64;
                Ok(Chunk::Shared(bytes))
            }
            // From where it is, as any program reads a file that changes.
            other => {
                let at = shared.position();
                let copied = file.try_clone().context(|| "no descriptor is left")?;
                seek(&copied, SeekFrom::Start(at)).context(|| "cannot seek")?;
                let shared = std::mem::replace(input, Input::File(copied));
                match other {
                    // The service is there: it is this file only.
                    Some(Err(
                        exos_file_cache::Error::Changed | exos_file_cache::Error::Refused(_),
                    )) => self.close(shared),
                    Some(Err(error)) => self.lose_client(&error),
                    _ => {}
                }
                self.next(input)
            }
        }
    }

    /// An input is not read any more.
    pub fn close(&mut self, input: Input) {
        if let (Input::Shared(file, _), Some(client)) = (input, self.client())
            && let Err(error) = client.close(file)
        {
            self.lose_client(&error);
        }
    }

    fn next_copied(&mut self, at_most: Option<usize>, from: BorrowedFd<'_>) -> Result<Chunk<'_>> {
        self.buffer.resize(BLOCK_LEN, 0);
        let at_most = at_most.unwrap_or(BLOCK_LEN).min(BLOCK_LEN);
        loop {
            match read(from, &mut self.buffer[..at_most]) {
                Ok(0) => return Ok(Chunk::End),
                Ok(len) => {
                    self.copied += len as u64;
                    return Ok(Chunk::Bytes(&self.buffer[..len]));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context(|| "cannot read"),
            }
        }
    }

    fn next_standard(&mut self) -> Result<Chunk<'_>> {
        let own = stdin();
        if self.standard.receiver.is_none() {
            self.standard.meet(own);
        }
        if self.standard.is_draining {
            let left = ioctl_fionread(own).unwrap_or(0);
            self.standard.is_draining = left > 0;
            if left > 0 {
                return self.next_copied(usize::try_from(left).ok(), own);
            }
        }
        let Some(receiver) = &mut self.standard.receiver else {
            return self.next_copied(None, own);
        };
        match receiver.read_wait(BLOCK_LEN, Wait::PollFor(LOOK)) {
            Ok(Read::Data(bytes)) => {
                self.shared += bytes.len() as u64;
                Ok(Chunk::Shared(bytes))
            }
            // Others may write into the pipe yet.
            Ok(_) | Err(exos_iolite::Error::PeerGone) => {
                self.standard.receiver = None;
                self.next_standard()
            }
            Err(error) => Err(Error::new(format!("cannot read from the pipe: {error}"))),
        }
    }

    /// What was read how, for the curious.
    pub fn tell(&self) {
        if self.args.verbose {
            let (shared, copied) = (self.shared, self.copied);
            exos_host::info!("read {shared} bytes by reference, {copied} by copy");
        }
    }
}

impl StandardInput {
    /// Looks for the other end.
    fn meet(&mut self, pipe: BorrowedFd<'_>) {
        if self.visitor.is_none() {
            self.visitor = Visitor::connect(pipe);
        }
        let first = self.visitor.as_ref().map(|visitor| visitor.wait(pipe));
        match first {
            Some(First::Ours(receiver)) => {
                self.receiver = Some(receiver);
                self.visitor = None;
                self.is_draining = true;
            }
            Some(First::Nobody) => self.visitor = None,
            Some(First::Bytes) | None => {}
        }
    }
}
