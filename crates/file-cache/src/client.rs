//! A program's side of the cache.

use crate::error::{Error, Refused as _, Result};
use crate::limits::{ANSWER_LEN_MAX, ANSWER_TIME, SETTLED_AFTER, TRIES};
use crate::place;
use crate::protocol::{
    Answer, MESSAGE_LEN, NAME_LEN_MAX, Request, Statistics, Status, bytes, words,
};
use crate::version::is_kept;
use exos_host::peer::Peer;
use exos_iolite::{Aggregate, Loans, Read, Receiver, Trust, Wait};
use exos_replacement::PolicyName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, sendmsg, socket_with,
};
use rustix::process::geteuid;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// It may do anything to this process.
const ROOT: u32 = 0;

/// A connection to the service.
#[derive(Debug)]
pub struct Client {
    /// Closed first: then nothing is under way to this process when the service hears of its end.
    receiver: Receiver,
    socket: OwnedFd,
    /// Files were numbered up to here.
    files: u32,
}

/// A version of a file, as it was when it was opened here.
#[derive(Debug)]
pub struct File {
    number: u32,
    at: u64,
    /// Reads that were asked for and not answered.
    asked: u64,
    /// Answers of those that come first and begin elsewhere than the next bytes do.
    stale: u64,
    is_over: bool,
}

/// What became of a file.
#[derive(Debug)]
pub enum Opened {
    /// It can be read here.
    Shared(File),
    /// Why it cannot: the program reads it by itself.
    Not(Status),
}

impl Client {
    /// Connects to this user's service, and where none runs to the host's.
    ///
    /// # Errors
    ///
    /// None runs, it has as many programs as it may, does not answer, or does not serve this user.
    pub fn find() -> Result<Self> {
        let own = place::socket();
        let found = match place::may_be_own(&own) {
            true => Self::connect(&own),
            false => Err(Error::NoService(own)),
        };
        match found {
            Err(none @ (Error::NoService(_) | Error::AnotherUser(_))) => {
                let host = Path::new(place::HOST_SOCKET);
                // Of the two that are not there the user's own is told of.
                Self::connect(host).map_err(|error| match error {
                    Error::NoService(_) => none,
                    error => error,
                })
            }
            own => own,
        }
    }

    /// Connects to the service at a socket, which is this user's or root's.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn connect(path: &Path) -> Result<Self> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket = socket.refused("cannot make a socket")?;
        let address = SocketAddrUnix::new(path).refused("no socket is named so")?;
        set_socket_timeout(&socket, Timeout::Send, Some(ANSWER_TIME))
            .refused("cannot limit how long to wait")?;
        connect(&socket, &address).map_err(|_| Error::NoService(path.to_owned()))?;
        let service = Peer::of(&socket).map_err(|_| Error::Fault("nobody is there"))?;
        if ![geteuid().as_raw(), ROOT].contains(&service.uid) {
            return Err(Error::AnotherUser(service.uid));
        }
        let beside = socket.try_clone().refused("no descriptor is left")?;
        wait_for(&socket)?;
        // It is this user's or root's, as is what it could do to this process.
        let receiver = Receiver::accept(beside, Trust::Trusted).map_err(|error| match error {
            exos_iolite::Error::PeerGone => Error::Full,
            error => error.into(),
        })?;
        Ok(Self {
            receiver,
            socket,
            files: 0,
        })
    }

    /// Has this program have one share of the memory with those of its user that say the same name, as the processes of one server do; else a
    /// process has a share, however many connections it has. To be said before anything is read.
    ///
    /// # Errors
    ///
    /// The name has no byte, more than [`NAME_LEN_MAX`], or a zero; or the service has ended, does not answer, or does not do as agreed.
    pub fn share_as(&mut self, name: &str) -> Result<()> {
        let len = name.len();
        if len == 0 || len > NAME_LEN_MAX || name.contains('\0') {
            return Err(Error::ShareName(name.to_owned()));
        }
        let mut padded = [0; NAME_LEN_MAX];
        padded[..len].copy_from_slice(name.as_bytes());
        self.ask(Request::Share { name: padded }, None)?;
        self.head(0, Instant::now() + ANSWER_TIME).map(|_| ())
    }

    /// Has what this program brings in replaced by a policy of its own: its share of the memory is the part in which that is, and what others
    /// use stays. Of several connections of a program the first says by which policy. To be said before anything is read, and behind
    /// [`share_as`](Self::share_as).
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn replace_by(&mut self, policy: PolicyName) -> Result<()> {
        self.ask(Request::Policy { policy }, None)?;
        self.head(0, Instant::now() + ANSWER_TIME).map(|_| ())
    }

    /// Opens a file here that this process has open for reading. One of a file system from which none is taken is not passed, as closing it may wait.
    /// Where it was changed a moment ago, this waits for that moment to pass, some times. What is read by it is one version of the file.
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn open(&mut self, file: impl AsFd) -> Result<Opened> {
        if !fstatfs(&file).is_ok_and(|system| is_kept(system.f_type)) {
            return Ok(Opened::Not(Status::Unsuitable));
        }
        let mut tries = 0;
        loop {
            let number = self.files;
            self.ask(Request::Open { file: number }, Some(file.as_fd()))?;
            let answer = self.head(number, Instant::now() + ANSWER_TIME)?;
            tries += 1;
            match answer.status {
                Status::Done => {
                    self.files = self.files.wrapping_add(1);
                    return Ok(Opened::Shared(File {
                        number,
                        at: 0,
                        asked: 0,
                        stale: 0,
                        is_over: false,
                    }));
                }
                Status::Unsettled if tries < TRIES => std::thread::sleep(SETTLED_AFTER),
                status => return Ok(Opened::Not(status)),
            }
        }
    }

    /// Bytes of a file from `offset` on, at most `len` and as many as come with one answer; none behind its end.
    ///
    /// # Errors
    ///
    /// The file has changed since it was opened; or the service cannot read it, has ended, does not answer or does not do as agreed; or this process keeps as many buffers as
    /// it may ([`exos_iolite::Error::ShareExceeded`]).
    pub fn read_at(&mut self, file: &File, offset: u64, len: usize) -> Result<Aggregate> {
        self.ask(
            Request::Read {
                file: file.number,
                offset,
                len: len as u64,
            },
            None,
        )?;
        self.content(file.number, len as u64)
    }

    /// The next bytes of a file that is read from its beginning to its end; none at the end. The ones behind them are asked for at once. No other
    /// call comes between until the file is read, or closed.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at). What was read before is of the version that was opened; how far that is, [`File::position`] tells.
    pub fn read_next(&mut self, file: &mut File) -> Result<Aggregate> {
        if file.is_over {
            return Ok(Aggregate::new());
        }
        self.pass_stale(file)?;
        while file.asked < 2 {
            let offset = file.at + file.asked * ANSWER_LEN_MAX as u64;
            let len = ANSWER_LEN_MAX as u64;
            self.ask(
                Request::Read {
                    file: file.number,
                    offset,
                    len,
                },
                None,
            )?;
            file.asked += 1;
        }
        file.asked -= 1;
        let bytes = self.content(file.number, ANSWER_LEN_MAX as u64)?;
        // Nothing fails from here on: what is counted as read has to be returned.
        file.at += bytes.len() as u64;
        if bytes.len() < ANSWER_LEN_MAX {
            // The end, or a part that could not be read: what was asked for behind it begins elsewhere.
            file.is_over = bytes.is_empty();
            file.stale = file.asked;
        }
        Ok(bytes)
    }

    /// Takes the answers that nobody wants any more, whatever they say of the file.
    fn pass_stale(&mut self, file: &mut File) -> Result<()> {
        while file.stale > 0 {
            file.stale -= 1;
            file.asked -= 1;
            match self.content(file.number, ANSWER_LEN_MAX as u64) {
                Ok(_) | Err(Error::Changed | Error::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A file is not read any more.
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn close(&mut self, mut file: File) -> Result<()> {
        file.stale = file.asked;
        self.pass_stale(&mut file)?;
        self.ask(Request::Close { file: file.number }, None)
    }

    /// Lets go of what was lent ([`Aggregate::lend`]) and is not used any more.
    pub fn take_back(&self) {
        self.receiver.take_back();
    }

    /// Ends the connection; what was lent stays, and is still taken back.
    #[must_use]
    pub fn retire(self) -> Loans {
        self.receiver.retire()
    }

    /// How the cache is used.
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn statistics(&mut self) -> Result<Statistics> {
        self.ask(Request::Statistics, None)?;
        let bytes = self.content(0, ANSWER_LEN_MAX as u64)?.to_vec();
        Statistics::parse(&bytes).ok_or(Error::Fault("it tells other numbers"))
    }

    fn ask(&self, request: Request, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let message = bytes(request.words());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::NOSIGNAL;
        let sent = sendmsg(
            &self.socket,
            &[IoSlice::new(&message)],
            &mut ancillary,
            flags,
        );
        match sent {
            Ok(_) => Ok(()),
            // It has not looked at what was asked before for as long as `connect` has said.
            Err(Errno::AGAIN) => Err(Error::Silent),
            Err(error) => Err(error).refused("the file cache has ended"),
        }
    }

    /// The head of the next answer.
    fn head(&mut self, file: u32, until: Instant) -> Result<Answer> {
        let head = self.bytes(MESSAGE_LEN, until)?;
        let mut message = [0; MESSAGE_LEN];
        head.copy_to(0..MESSAGE_LEN, &mut message);
        let answer =
            Answer::parse(words(&message)).ok_or(Error::Fault("it answers something else"))?;
        if answer.file != file || answer.len > ANSWER_LEN_MAX as u64 {
            return Err(Error::Fault("it answers something that was not asked"));
        }
        Ok(answer)
    }

    /// The next answer's bytes, no more than were asked for.
    fn content(&mut self, file: u32, at_most: u64) -> Result<Aggregate> {
        let until = Instant::now() + ANSWER_TIME;
        let answer = self.head(file, until)?;
        if answer.len > at_most {
            return Err(Error::Fault("it answers more than was asked"));
        }
        let bytes = self.bytes(answer.len as usize, until)?;
        match answer.status {
            Status::Done => Ok(bytes),
            Status::Changed | Status::Unsettled | Status::Writing => Err(Error::Changed),
            status => Err(Error::Refused(status)),
        }
    }

    /// So many bytes of what comes until then.
    fn bytes(&mut self, len: usize, until: Instant) -> Result<Aggregate> {
        let mut all = Aggregate::new();
        while all.len() < len {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Silent);
            }
            let wait = Wait::SleepAtMost(left);
            match self.receiver.read_wait(len - all.len(), wait)? {
                Read::Data(data) => all.concatenate(data),
                Read::Nothing => return Err(Error::Silent),
                Read::End => return Err(exos_iolite::Error::PeerGone.into()),
            }
        }
        Ok(all)
    }
}

impl File {
    /// How far it was read in order.
    pub fn position(&self) -> u64 {
        self.at
    }
}

/// Waits until the service has taken the connection.
fn wait_for(socket: &OwnedFd) -> Result<()> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let time = Timespec::try_from(ANSWER_TIME).ok();
    match poll(&mut fds, time.as_ref()) {
        Ok(0) => Err(Error::Silent),
        _ => Ok(()),
    }
}
