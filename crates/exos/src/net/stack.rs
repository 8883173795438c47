//! [`Net`]: the stack that a thread's sockets are on, for its program, and waiting until something holds.

use std::cell::RefMut;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use exos_inet::Instant;

use super::errors;
use super::holder::Holder;
use super::inner::{Inner, Wait};
use crate::attach::Attachment;
use crate::node::{Exos, Sleep};
use crate::wait::Waited;
use crate::{Error, clock};

/// The stack that sockets are on. Clones are the same stack.
///
/// When the last clone and the last socket are dropped, what was written is delivered first, for two seconds at most or as long as
/// [`set_linger`](Net::set_linger) says ([`close`](Net::close) tells whether it succeeded).
#[derive(Clone)]
pub struct Net {
    inner: Rc<Holder>,
}

impl Net {
    /// Makes the link and a stack on it, as [`Exos::attach`] does.
    ///
    /// # Errors
    ///
    /// The link cannot be made; with what mends it.
    pub fn attach(wanted: impl Into<Attachment>) -> Result<Self, Error> {
        Exos::attach(wanted).map(Self::new)
    }

    /// Sockets on this stack, all of whose events are theirs from now on.
    pub fn new(exos: Exos) -> Self {
        Self {
            inner: Rc::new(Holder::new(Inner::new(exos))),
        }
    }

    /// The stack again, for a program that runs it itself; what connections are left are reset. As it was where other clones or sockets
    /// are left.
    ///
    /// # Errors
    ///
    /// These are.
    pub fn into_exos(self) -> Result<Exos, Self> {
        let holder = Rc::try_unwrap(self.inner).map_err(|inner| Self { inner })?;
        Ok(holder.into_exos())
    }

    /// Looks at the stack beneath: its addresses, counters, settings. Calls of sockets within `look` panic.
    pub fn with<R>(&self, look: impl FnOnce(&mut Exos) -> R) -> R {
        look(&mut self.borrow().exos)
    }

    /// Sends what there is to send and takes in what is there, without waiting; true when there was something. For a program
    /// that computes for long, and for event loops of other kinds.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub fn turn(&self) -> io::Result<bool> {
        self.turn_and_wait(Wait::No)?;
        Ok(self.borrow().exos.worked)
    }

    /// Waits until all that was written on sockets that are closed by now has reached the peers, or for `at_most`. Gives how
    /// many connections have not come to that; their peers miss something.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub fn close(&self, at_most: Duration) -> io::Result<usize> {
        self.run(|inner| inner.deliver(clock::now() + at_most))
    }

    /// How long the last clone and socket wait, when they are dropped, for what was written to be delivered.
    pub fn set_linger(&self, at_most: Duration) {
        self.borrow().linger = at_most;
    }

    /// Connections that were reset since as many as a listener's backlog waited to be accepted.
    pub fn overflows(&self) -> u64 {
        self.borrow().overflows
    }

    /// For a task that runs the stack for all others: one turn, and then whether to take the next one at once. If not, `sleep` is told
    /// what to wait for, and the task is woken when another has given the stack something to do.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub fn poll_turn(
        &self,
        cx: &mut Context<'_>,
        sleep: impl FnOnce(Sleep<'_>),
    ) -> io::Result<bool> {
        self.borrow().driver = None;
        self.turn_and_wait(Wait::No)?;
        let inner = &mut *self.borrow();
        let Some(until) = inner.exos.prepare_sleep() else {
            return Ok(true);
        };
        sleep(until);
        inner.driver = Some(cx.waker().clone());
        Ok(false)
    }

    /// Sends what was written.
    ///
    /// # Errors
    ///
    /// The interface has gone.
    pub fn flush(&self) -> io::Result<()> {
        self.borrow().exos.send().map_err(errors::of)?;
        Ok(())
    }

    pub(super) fn borrow(&self) -> RefMut<'_, Inner> {
        self.inner.borrow()
    }

    /// Gives `ready`'s answer as soon as it has one, and runs the stack until then.
    ///
    /// # Errors
    ///
    /// That of `ready`; `WouldBlock` when it has none at the time `until`; the interface has gone.
    pub(super) fn wait_until<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut(&mut Inner) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let mut has_turned = false;
        loop {
            if let Some(answer) = self.run(&mut ready) {
                if has_turned {
                    // What the peer waits for leaves before a program that may not wait for long: the end of a handshake.
                    self.flush()?;
                }
                return answer;
            }
            if until.is_some_and(|at| at <= clock::now()) {
                return Err(errors::would_block());
            }
            self.turn_and_wait(Wait::Until(until, &[]))?;
            has_turned = true;
        }
    }

    /// One turn; tasks that may go on are woken behind it.
    pub(super) fn turn_and_wait(&self, wait: Wait<'_>) -> io::Result<Waited> {
        self.run(|inner| inner.turn(wait))
    }

    /// Does something to the sockets, and wakes the tasks that may go on.
    pub(super) fn run<R>(&self, command: impl FnOnce(&mut Inner) -> R) -> R {
        let (result, woken) = {
            let mut inner = self.borrow();
            let result = command(&mut inner);
            (result, std::mem::take(&mut inner.woken))
        };
        woken.into_iter().for_each(Waker::wake);
        result
    }
}
