//! What programs hand over, closed where nobody waits for it. A socket may linger, and so may the connection itself, in which more may be under way
//! that is closed with it: they are closed from another table of descriptors ([`exos_host::background`]). A file of a file system that need not answer
//! is *moved* to a thread: close(2) takes it out of the table before it asks that file system.

use crate::limits::CLOSING_MAX;
use crate::mounts::{Closing, Mounts};
use exos_host::background;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

/// A thread that closes a descriptor: nothing of Rust's is on its stack but a few calls.
const STACK_LEN: usize = 64 << 10;

/// Closes descriptors, without waiting for it; of each user a bounded number at once.
#[derive(Debug)]
pub(crate) struct Closer {
    pub mounts: Mounts,
    sockets: background::Closer,
    waiting: RefCell<Vec<(Option<u32>, State)>>,
}

#[derive(Debug)]
enum State {
    Closing(JoinHandle<()>),
    /// There was no thread for it.
    Open(OwnedFd),
}

impl Closer {
    /// For a process that has no program's descriptors yet.
    pub fn start() -> io::Result<Self> {
        Ok(Self {
            mounts: Mounts::now()?,
            sockets: background::Closer::start()?,
            waiting: RefCell::default(),
        })
    }

    /// Closes what a user's program has passed; a connection of one that is not served is nobody's.
    pub fn close(&self, user: Option<u32>, fd: OwnedFd) {
        if let Some(state) = self.begin(fd) {
            self.waiting.borrow_mut().push((user, state));
        }
    }

    /// What is left to be done.
    fn begin(&self, fd: OwnedFd) -> Option<State> {
        let closing = match self.mounts.look() {
            Ok(()) => self.mounts.closing(&fd),
            Err(_) => Closing::Waits,
        };
        match closing {
            Closing::Lingers => self.sockets.close(fd).err().map(State::Open),
            Closing::Waits => Some(move_away(fd).map_or_else(State::Open, State::Closing)),
            Closing::AtOnce => None,
        }
    }

    fn go_on(&self, state: State) -> Option<State> {
        match state {
            State::Closing(thread) => (!thread.is_finished()).then_some(State::Closing(thread)),
            State::Open(fd) => self.begin(fd),
        }
    }

    /// Whether a user has more to be closed than it may.
    pub fn has_too_many(&self, user: u32) -> bool {
        let mut all = self.waiting.borrow_mut();
        let left = std::mem::take(&mut *all).into_iter();
        *all = left
            .filter_map(|(of, state)| self.go_on(state).map(|state| (of, state)))
            .collect();
        all.iter().filter(|(of, _)| *of == Some(user)).count() > CLOSING_MAX
    }
}

/// Has a thread close a descriptor. It is given back when there is none.
fn move_away(fd: OwnedFd) -> Result<JoinHandle<()>, OwnedFd> {
    let (gives, given) = mpsc::channel::<OwnedFd>();
    let thread = Builder::new().name("ending".to_owned());
    let thread = thread
        .stack_size(STACK_LEN)
        .spawn(move || drop(given.recv()));
    match thread {
        Ok(thread) => gives.send(fd).map(|()| thread).map_err(|unsent| unsent.0),
        Err(_) => Err(fd),
    }
}

/// A descriptor of a user's program, which is closed in the background unless it is taken.
#[derive(Debug)]
pub(crate) struct Passed {
    fd: Option<OwnedFd>,
    user: Option<u32>,
    closer: Rc<Closer>,
}

impl Passed {
    pub fn new(fd: OwnedFd, user: Option<u32>, closer: &Rc<Closer>) -> Self {
        Self {
            fd: Some(fd),
            user,
            closer: Rc::clone(closer),
        }
    }

    /// Who closes it.
    pub fn closer(&self) -> Rc<Closer> {
        Rc::clone(&self.closer)
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
