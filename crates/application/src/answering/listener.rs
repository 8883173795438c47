//! Where servers connect, and those that have and did not say yet all that makes a link.

use super::watch::{Source, Watch};
use crate::limits::{ACCEPT_PAUSE, BEGINNING_MAX, BEGINNING_TIME, LINKS_MAX};
use crate::socket::hear;
use exos_iolite::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Instant;

/// A server that has connected, and with its second socket has said so.
#[derive(Debug)]
struct Beginning {
    requests: OwnedFd,
    answers: Option<OwnedFd>,
    /// When it is sent away if it has not said all that makes a link.
    until: Instant,
}

/// What a server has brought: the sockets of requests and of answers, the pipe of requests being on its way.
pub(super) type Brought = (OwnedFd, OwnedFd);

#[derive(Debug)]
pub(super) struct Listener {
    /// None when nobody is accepted any more.
    socket: Option<OwnedFd>,
    beginning: Vec<Beginning>,
    /// No descriptor was left: nothing is accepted before.
    paused_until: Option<Instant>,
}

/// Listens at a Unix socket; one that is left of an application that has ended is replaced.
pub(super) fn listen(path: &Path) -> Result<OwnedFd> {
    let listened = match UnixListener::bind(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if is_left_behind(path) {
                let _ = std::fs::remove_file(path);
            }
            UnixListener::bind(path)
        }
        other => other,
    };
    let refused = |error| Error::System("cannot listen at the application's socket", error);
    Ok(listened.map_err(refused)?.into())
}

impl Listener {
    /// A socket that listens.
    pub fn new(socket: OwnedFd, watch: &Watch) -> Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|error| Error::System("cannot use the socket", error.into()))?;
        watch.add(socket.as_fd(), Source::Listener)?;
        Ok(Self {
            socket: Some(socket),
            beginning: Vec::new(),
            paused_until: None,
        })
    }

    /// Nobody is accepted any more, and those that have not said all are sent away.
    pub fn close(&mut self, watch: &Watch) {
        if let Some(socket) = self.socket.take() {
            watch.remove(socket.as_fd());
        }
        for beginning in self.beginning.drain(..) {
            watch.remove(beginning.requests.as_fd());
        }
        self.paused_until = None;
    }

    /// When to [see to](Self::see_to) it, whatever happens.
    pub fn until(&self) -> Option<Instant> {
        let untils = self.beginning.iter().map(|beginning| beginning.until);
        untils.chain(self.paused_until).min()
    }

    /// Sends those away whose time has passed, and goes on accepting.
    pub fn see_to(&mut self, watch: &Watch, now: Instant) -> Result<()> {
        self.beginning.retain(|beginning| {
            let has_time = now < beginning.until;
            if !has_time {
                watch.remove(beginning.requests.as_fd());
            }
            has_time
        });
        if self.paused_until.take_if(|until| *until <= now).is_some()
            && let Some(socket) = &self.socket
        {
            watch.add(socket.as_fd(), Source::Listener)?;
        }
        Ok(())
    }

    /// Accepts those that have connected, beside this number of links.
    ///
    /// # Errors
    ///
    /// The socket does not listen any more.
    pub fn accept(&mut self, watch: &Watch, links: usize) -> Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        loop {
            match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                // It hears at once that there is no place for it, and comes again later.
                Ok(_) if self.beginning.len() >= BEGINNING_MAX || links >= LINKS_MAX => {}
                Ok(requests) => {
                    watch.add(requests.as_fd(), Source::Beginning)?;
                    self.beginning.push(Beginning {
                        requests,
                        answers: None,
                        until: Instant::now() + BEGINNING_TIME,
                    });
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    watch.remove(socket.as_fd());
                    self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                    return Ok(());
                }
                Err(error) => return Err(Error::System("cannot accept a server", error.into())),
            }
        }
    }

    /// Hears those that have connected: what the next brought that said all. One that says something else is sent away.
    pub fn next(&mut self, watch: &Watch) -> Option<Brought> {
        let mut at = 0;
        while at < self.beginning.len() {
            let beginning = &mut self.beginning[at];
            let is_none = match beginning.answers {
                Some(_) => false,
                None => match hear(&beginning.requests) {
                    Ok(answers) => {
                        beginning.answers = answers;
                        false
                    }
                    Err(_) => true,
                },
            };
            // Its pipe follows, in a message of its own. What has come since it was heard is heard in the next turn.
            let is_whole = beginning.answers.is_some() && is_readable(&beginning.requests);
            if !is_none && !is_whole {
                at += 1;
                continue;
            }
            let Beginning {
                requests, answers, ..
            } = self.beginning.remove(at);
            watch.remove(requests.as_fd());
            if let Some(answers) = answers {
                return Some((requests, answers));
            }
        }
        None
    }
}

/// A socket at which nobody listens any more. What is something else is somebody's, and an application that is busy listens still.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn is_readable(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
