//! What programs hand over, closed where nobody waits for it: the last to close a socket that lingers, or a file of a file system that does not
//! answer, waits for as long as the program likes. That holds for the connection itself, too, in which more may be under way that is closed with it.

use crate::limits::CLOSING_MAX;
use exos_host::background::{self, Closing};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use std::cell::RefCell;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Closes descriptors on threads of their own, a bounded number of each user.
#[derive(Debug, Default)]
pub(crate) struct Closer(RefCell<Vec<(u32, State)>>);

#[derive(Debug)]
enum State {
    Closing(Closing),
    /// There was no thread for it.
    Open(OwnedFd),
}

impl State {
    /// What is left to be done.
    fn go_on(self) -> Option<Self> {
        match self {
            Self::Closing(closing) => (!closing.is_over()).then_some(Self::Closing(closing)),
            Self::Open(fd) => Some(begin(fd)),
        }
    }
}

fn begin(fd: OwnedFd) -> State {
    background::close(fd).map_or_else(State::Open, State::Closing)
}

/// Has several closed with one: they are under way in it, to nobody.
fn bundle(fds: &[OwnedFd]) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let (from, to) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::NOBUFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(&from, &[IoSlice::new(b"x")], &mut ancillary, flags)?;
    Ok(to)
}

impl Closer {
    /// Closes what came with one message.
    pub fn close_all(&self, user: u32, fds: Vec<OwnedFd>) {
        match bundle(&fds) {
            // None of them is the last of its kind now.
            Ok(all) => self.close(user, all),
            Err(_) => fds.into_iter().for_each(|fd| self.close(user, fd)),
        }
    }

    fn close(&self, user: u32, fd: OwnedFd) {
        self.0.borrow_mut().push((user, begin(fd)));
    }

    /// Whether a user has more to be closed than it may.
    pub fn has_too_many(&self, user: u32) -> bool {
        let mut all = self.0.borrow_mut();
        let count = |all: &[(u32, State)]| all.iter().filter(|(of, _)| *of == user).count();
        if count(&all) <= CLOSING_MAX {
            return false;
        }
        let left = std::mem::take(&mut *all).into_iter();
        *all = left
            .filter_map(|(of, state)| state.go_on().map(|state| (of, state)))
            .collect();
        count(&all) > CLOSING_MAX
    }
}

/// A descriptor of a user's program, which is closed in the background unless it is taken.
#[derive(Debug)]
pub(crate) struct Passed {
    fd: Option<OwnedFd>,
    user: u32,
    closer: Rc<Closer>,
}

impl Passed {
    pub fn new(fd: OwnedFd, user: u32, closer: &Rc<Closer>) -> Self {
        Self {
            fd: Some(fd),
            user,
            closer: Rc::clone(closer),
        }
    }

    /// It is one whose closing waits for nobody.
    pub fn take(mut self) -> OwnedFd {
        self.fd.take().expect("it is there until then")
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is there until then").as_fd()
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.closer.close(self.user, fd);
        }
    }
}
