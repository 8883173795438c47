//! The connection with the daemon: datagrams both ways, with descriptors in ours.
//!
//! A program asks and waits ([`Control::ask`]), or sends without waiting and hears the answer later
//! ([`Control::send`], [`Control::receive`]). Answers come in the order of the requests; notices come at
//! any time, and those met while waiting are kept for [`Control::receive`].
//!
//! Nothing here blocks but `connect` and `ask`, and those not longer than [`ANSWER_TIME`], and
//! [`Control::ask_while_busy`].

use std::collections::VecDeque;
use std::io::{IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use exos_host::error::{Error, ErrorKind};
use exos_xok::limits::{MESSAGE_BYTES_MAX, MESSAGE_DESCRIPTORS_MAX};
use exos_xok::message::{Answer, Farewell, FromDaemon, Notice, Refusal, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};

use crate::limits::{ANSWER_TIME, BUSY_PAUSE, BUSY_TIME, CONNECT_PAUSES};

/// A connection with the daemon.
#[derive(Debug)]
pub struct Control {
    fd: OwnedFd,
    tag: u32,
    notices: VecDeque<Notice>,
    buffer: Box<[u8]>,
    /// How long an answer may take.
    patience: Duration,
}

/// What came from the daemon.
#[derive(Debug)]
pub enum Heard {
    /// The answer to the request of this tag, with its descriptors.
    Answer(u32, Answer, Vec<OwnedFd>),
    /// Unasked.
    Notice(Notice),
    /// Nothing now.
    Nothing,
    /// The daemon has closed the connection, or is gone.
    Closed,
}

/// Why there is no answer to be used.
#[derive(Debug)]
pub enum AskError {
    /// The daemon says no, and why.
    Refused(Refusal, String),
    /// There was no answer, or none that makes sense.
    Failed(Error),
}

/// Whether an error is that the daemon does not answer: what it has the kernel do goes on.
pub(crate) fn is_gone(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoDaemon
            | ErrorKind::DaemonEnded
            | ErrorKind::NotTheDaemon
            | ErrorKind::DaemonFails
    )
}

impl From<AskError> for Error {
    fn from(error: AskError) -> Self {
        match error {
            // The daemon's sentence has the remedy in it.
            AskError::Refused(why, text) => {
                let kind = match why {
                    Refusal::Held => ErrorKind::InUse,
                    _ => ErrorKind::DaemonRefuses,
                };
                Self::new(format!("the daemon refuses: {text}")).of_kind(kind)
            }
            AskError::Failed(error) => error,
        }
    }
}

impl Control {
    /// Connects to the daemon that listens at `path`. Waits while too many others do, not longer than
    /// [`ANSWER_TIME`].
    ///
    /// # Errors
    ///
    /// There is none; with what to do about it.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let until = Instant::now() + ANSWER_TIME;
        let mut pause = *CONNECT_PAUSES.start();
        loop {
            match Self::connect_now(path) {
                Err(error) if error.is(Errno::AGAIN.raw_os_error()) && Instant::now() < until => {}
                done => return done,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(*CONNECT_PAUSES.end());
        }
    }

    /// Connects to the daemon, waiting for nothing.
    ///
    /// # Errors
    ///
    /// There is none, or too many others connect at the same time (EAGAIN).
    pub(super) fn connect_now(path: &Path) -> Result<Self, Error> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|e| Error::io("cannot make a socket", e))?;
        let address = SocketAddrUnix::new(path)
            .map_err(|e| Error::io(format!("{} cannot be a socket's path", path.display()), e))?;
        connect(&fd, &address).map_err(|e| explain_connect(path, e))?;
        Ok(Self {
            fd,
            tag: 0,
            notices: VecDeque::new(),
            buffer: vec![0; MESSAGE_BYTES_MAX].into(),
            patience: ANSWER_TIME,
        })
    }

    /// Sends a request and waits for its answer, and again as long as the daemon has no time for it: slots and filters are
    /// made at a bounded rate for each user. Not longer than [`BUSY_TIME`].
    pub fn ask_while_busy(
        &mut self,
        request: &Request,
    ) -> Result<(Answer, Vec<OwnedFd>), AskError> {
        let until = Instant::now() + BUSY_TIME;
        loop {
            match self.ask(request) {
                Err(AskError::Refused(Refusal::Busy, _)) if Instant::now() < until => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                answer => return answer,
            }
        }
    }

    /// How long the daemon may take to answer from now on: a program that begins has more patience than one that has peers.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sends a request; returns its tag. Waits for nothing: EAGAIN when the daemon does not read.
    pub fn send(&mut self, request: &Request) -> Result<u32, Errno> {
        self.tag = self.tag.wrapping_add(1);
        let bytes = request.encode(self.tag);
        send(&self.fd, &bytes, SendFlags::NOSIGNAL)?;
        Ok(self.tag)
    }

    /// Takes the next message, if there is one.
    ///
    /// # Errors
    ///
    /// It is none of this protocol; nothing after it can be believed.
    pub fn receive(&mut self) -> Result<Heard, Error> {
        match self.notices.pop_front() {
            Some(notice) => Ok(Heard::Notice(notice)),
            None => self.take_datagram(),
        }
    }

    /// Sends a request and waits for its answer, which is not a refusal.
    pub fn ask(&mut self, request: &Request) -> Result<(Answer, Vec<OwnedFd>), AskError> {
        let until = Instant::now() + self.patience;
        let tag = loop {
            match self.send(request) {
                Ok(tag) => break tag,
                Err(Errno::AGAIN) => self.sleep(PollFlags::OUT, until)?,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(self.gone()),
                Err(e) => {
                    return Err(AskError::Failed(Error::io("cannot write to the daemon", e)));
                }
            }
        };
        loop {
            match self.take_datagram().map_err(AskError::Failed)? {
                Heard::Answer(to, Answer::Refused { code, text }, _) if to == tag => {
                    return Err(AskError::Refused(code, text));
                }
                Heard::Answer(to, answer, fds) if to == tag => return Ok((answer, fds)),
                // To something that nobody waits for.
                Heard::Answer(..) => {}
                Heard::Notice(notice) => self.notices.push_back(notice),
                Heard::Nothing => self.sleep(PollFlags::IN, until)?,
                Heard::Closed => return Err(self.gone()),
            }
        }
    }

    /// How everything is: the daemon's report, an object of JSON (`docs/reference/json.md`).
    ///
    /// # Errors
    ///
    /// The daemon refuses, is not there, or has taken the report back before it was read.
    pub fn report(&mut self) -> Result<String, AskError> {
        let (Answer::Report { bytes, asker }, fds) = self.ask(&Request::Status)? else {
            return Err(AskError::Failed(bad("no report")));
        };
        let text = read_lent(fds, bytes).map_err(AskError::Failed)?;
        let common = text.trim_end().strip_suffix('}');
        let common = common.ok_or_else(|| AskError::Failed(bad("the report is no object")))?;
        Ok(format!("{common},\"asker\":{asker}}}"))
    }

    /// The connection is closed. What was said last may be there still, after an error that is told once.
    fn gone(&mut self) -> AskError {
        for _ in 0..2 {
            while let Ok(Heard::Notice(notice)) = self.take_datagram() {
                self.notices.push_back(notice);
            }
        }
        let farewell = self.notices.iter().find_map(|notice| match notice {
            Notice::Goodbye(farewell) => Some(*farewell),
            _ => None,
        });
        AskError::Failed(explain_end(farewell))
    }

    fn take_datagram(&mut self) -> Result<Heard, Error> {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut self.buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = match recvmsg(&self.fd, &mut into, &mut ancillary, flags) {
            Ok(message) => message,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Heard::Nothing),
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Heard::Closed),
            Err(e) => return Err(Error::io("cannot read from the daemon", e)),
        };
        let fds: Vec<OwnedFd> = ancillary
            .drain()
            .flat_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                _ => Vec::new(),
            })
            .collect();
        if message.bytes == 0 {
            return Ok(Heard::Closed);
        }
        if message
            .flags
            .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
        {
            return Err(bad("a message is too long"));
        }
        match FromDaemon::decode(&self.buffer[..message.bytes]) {
            Ok(FromDaemon::Answer(tag, answer)) => Ok(Heard::Answer(tag, answer, fds)),
            Ok(FromDaemon::Notice(notice)) => Ok(Heard::Notice(notice)),
            Err(e) => Err(bad(&e.to_string())),
        }
    }

    fn sleep(&self, flags: PollFlags, until: Instant) -> Result<(), AskError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let error = Error::new("the daemon does not answer")
                .mend(
                    "see what it does (`systemctl status`, its standard error), or start it again",
                )
                .of_kind(ErrorKind::DaemonFails);
            return Err(AskError::Failed(error));
        }
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&self.fd, flags)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(AskError::Failed(Error::io("cannot wait for the daemon", e))),
        }
    }
}

impl AsFd for Control {
    /// Readable when the daemon has said something.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The text of which a report is lent.
fn read_lent(fds: Vec<OwnedFd>, bytes: u32) -> Result<String, Error> {
    let fd = fds.into_iter().next().ok_or_else(|| bad("no report"))?;
    let mut text = String::new();
    let mut file = std::fs::File::from(fd).take(u64::from(bytes));
    std::io::Seek::rewind(file.get_mut())
        .and_then(|()| file.read_to_string(&mut text))
        .map_err(|e| Error::io("cannot read the daemon's report", e))?;
    if text.len() < bytes as usize {
        // The daemon keeps the last few only.
        return Err(
            Error::new("the daemon's report was taken back before it was read")
                .mend("ask again; the machine is very busy"),
        );
    }
    Ok(text)
}

/// Why the daemon has closed the connection, by its last words.
fn explain_end(farewell: Option<Farewell>) -> Error {
    let (kind, what, mend) = match farewell {
        Some(Farewell::Full) => (
            ErrorKind::DaemonRefuses,
            "the daemon has as many connections of this user, or of users like them, as it takes",
            "end other programs, or have its policy name the user in a rule of their own (user = \"NAME\")",
        ),
        Some(Farewell::Revoked) => (
            ErrorKind::DaemonRefuses,
            "the daemon has taken the link back",
            "its policy must allow it again",
        ),
        Some(Farewell::Stopping | Farewell::Restarting) | None => (
            ErrorKind::DaemonFails,
            "the daemon has closed the connection",
            "see why (its standard error says it), and start it again if it has ended",
        ),
    };
    Error::new(what).mend(mend).of_kind(kind)
}

pub(super) fn bad(what: &str) -> Error {
    Error::new(format!("the daemon says what makes no sense: {what}"))
        .mend("use a daemon and a program of the same version of exos")
        .of_kind(ErrorKind::DaemonFails)
}

fn explain_connect(path: &Path, error: Errno) -> Error {
    let path = path.display();
    match error {
        Errno::NOENT | Errno::NOTDIR => Error::new(format!("there is no daemon at {path}"))
            .mend("start it as root, name the socket of one that runs, or do without it")
            .of_kind(ErrorKind::NoDaemon),
        Errno::CONNREFUSED => Error::new(format!("the daemon of {path} has ended: nobody listens there"))
            .mend("start it again as root, or have it take away what it left")
            .of_kind(ErrorKind::DaemonEnded),
        Errno::ACCESS | Errno::PERM => Error::io(format!("{path} may not be used by this user"), error)
            .mend("who may do what is for the daemon's policy to say: let everybody open its socket (chmod 666)"),
        Errno::PROTOTYPE => Error::new(format!("what listens at {path} is not the daemon"))
            .mend("name its socket")
            .of_kind(ErrorKind::NotTheDaemon),
        _ => Error::io(format!("cannot reach the daemon at {path}"), error),
    }
}
