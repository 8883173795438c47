//! What the thread that gets certificates and the loop that has a stack hand each other: one call at a time, and its answer.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exos::Error;
use exos_host::Waker;

use super::{Answered, Call, CallError};
use crate::limits::ACME_REQUEST_TIME;

/// A call that is asked of the loop.
pub(super) struct Job {
    pub(super) call: Call,
    /// Where to connect to; not empty.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) reply: SyncSender<Result<Answered, CallError>>,
}

/// The desk.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<State>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    waiting: Option<Job>,
    /// Why no loop looks at it, if none does; at first one is awaited.
    closed: Option<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("waits", &self.waiting.is_some())
            .field("closed", &self.closed)
            .finish()
    }
}

impl Desk {
    /// A loop is to look at it.
    ///
    /// # Errors
    ///
    /// There is no descriptor to wake it by.
    pub(crate) fn new() -> Result<Desk, Error> {
        let waker = Waker::new().map_err(|e| Error::io("cannot make an event descriptor", e))?;
        Ok(Desk {
            state: Mutex::default(),
            waker,
        })
    }

    // The thread's side.

    /// Has the loop make a call, and waits for its answer.
    ///
    /// # Errors
    ///
    /// There is no answer, or no loop that can make calls.
    pub(super) fn ask(&self, call: &Call, addresses: &[IpAddr]) -> Result<Answered, CallError> {
        // The loop's own bound is less.
        self.ask_within(call, addresses, 2 * ACME_REQUEST_TIME)
    }

    fn ask_within(
        &self,
        call: &Call,
        addresses: &[IpAddr],
        time: Duration,
    ) -> Result<Answered, CallError> {
        let (reply, answer) = sync_channel(1);
        let job = Job {
            call: call.clone(),
            addresses: addresses.to_vec(),
            reply,
        };
        {
            let mut state = self.state();
            if let Some(why) = &state.closed {
                return Err(CallError::Unreached(why.clone()));
            }
            state.waiting = Some(job);
        }
        self.waker.wake();
        let waited = answer.recv_timeout(time);
        // Dropped without an answer: the loop has ended, or has too much to do.
        waited.unwrap_or_else(|_| {
            self.state().waiting = None;
            Err(CallError::Unreached("its loop has not answered".to_owned()))
        })
    }

    // The loop's side.

    /// Readable when there may be a call.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// The call that waits. To be asked in each turn.
    pub(super) fn take(&self) -> Option<Job> {
        // Nearly always nobody has woken it: that is one load.
        if !self.waker.clear() {
            return None;
        }
        self.state().waiting.take()
    }

    /// No loop makes calls, for this reason; the one that waits is told.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.state();
        state.closed = Some(why.to_owned());
        if let Some(job) = state.waiting.take() {
            // Who waits may have given up.
            let _ = job.reply.send(Err(CallError::Unreached(why.to_owned())));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use exos_tls::client::Trust;

    use super::*;

    /// A loop that has ended, or hangs, holds no order up.
    #[test]
    fn a_call_that_no_loop_makes_comes_back() {
        let call = super::super::tests::call(&Trust::Anybody);
        let desk = Desk::new().unwrap();
        let ask = || {
            let made = desk.ask_within(&call, &[], Duration::from_millis(50));
            made.unwrap_err().to_string()
        };
        assert_eq!(ask(), "its loop has not answered");
        assert!(desk.take().is_none(), "nobody waits for it any more");
        desk.close("this server ends");
        assert_eq!(ask(), "this server ends");
    }
}
