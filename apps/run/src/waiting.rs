//! Intercepted calls that wait for something of their socket's, each as long as the socket's time limit says (`SO_RCVTIMEO`,
//! `SO_SNDTIMEO`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use exos_host::intercept::Call;
use rustix::net::sockopt::{self, Timeout};

use crate::context::Context;

/// How long a call waits, and the number of the error that it ends with then.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    limit: Option<Duration>,
    error: i32,
}

impl Patience {
    /// As long as the socket says of calls that receive.
    ///
    /// # Errors
    ///
    /// It is no socket.
    pub fn to_receive(of: impl AsFd) -> io::Result<Self> {
        let limit = sockopt::socket_timeout(of, Timeout::Recv)?;
        let error = libc::EAGAIN;
        Ok(Self { limit, error })
    }

    /// As long as the socket says of calls that send, as which connect(2) counts; with what that says where it is made for the first
    /// time, or again.
    ///
    /// # Errors
    ///
    /// It is no socket.
    pub fn to_connect(of: impl AsFd, is_again: bool) -> io::Result<Self> {
        let limit = sockopt::socket_timeout(of, Timeout::Send)?;
        Ok(Self::connecting(limit, is_again))
    }

    /// As above, where the limit is known.
    pub fn connecting(limit: Option<Duration>, is_again: bool) -> Self {
        let error = match is_again {
            true => libc::EALREADY,
            false => libc::EINPROGRESS,
        };
        Self { limit, error }
    }

    pub fn has_end(self) -> bool {
        self.limit.is_some()
    }
}

struct Waiter {
    call: Call,
    until: Option<Instant>,
    error: i32,
}

/// The calls that wait for one socket, in their order.
#[derive(Default)]
pub(crate) struct Waiters(VecDeque<Waiter>);

impl Waiters {
    /// One more waits, for a socket that [`end`](Self::end) is called for when that token is looked at again. Those that signals have
    /// interrupted are forgotten: they are made again.
    pub fn push(&mut self, cx: &Context, call: &Call, patience: Patience, token: usize) {
        self.0.retain(|waiter| cx.calls.waits(&waiter.call));
        let until = patience.limit.map(|limit| Instant::now() + limit);
        if let Some(until) = until {
            cx.later().add_at(token, until);
        }
        self.0.push_back(Waiter {
            call: *call,
            until,
            error: patience.error,
        });
    }

    /// Takes out the first that waits still.
    pub fn pop(&mut self, cx: &Context) -> Option<Call> {
        loop {
            let waiter = self.0.pop_front()?;
            if cx.calls.waits(&waiter.call) {
                return Some(waiter.call);
            }
        }
    }

    /// Answers those whose time is over; the socket is looked at again when the next one's is. Says whether there was any.
    pub fn end(&mut self, cx: &Context, token: usize) -> bool {
        let now = Instant::now();
        let count = self.0.len();
        self.0.retain(|waiter| {
            let waits = waiter.until.is_none_or(|until| until > now);
            if !waits {
                let error = io::Error::from_raw_os_error(waiter.error);
                cx.respond(&waiter.call, Err(error));
            }
            waits
        });
        if let Some(next) = self.0.iter().filter_map(|waiter| waiter.until).min() {
            cx.later().add_at(token, next);
        }
        self.0.len() < count
    }

    /// Answers all of them alike.
    pub fn answer(self, cx: &Context, result: Result<i64, i32>) {
        for waiter in self.0 {
            cx.respond(&waiter.call, result.map_err(io::Error::from_raw_os_error));
        }
    }

    /// Whether any waits still.
    pub fn is_any(&self, cx: &Context) -> bool {
        self.0.iter().any(|waiter| cx.calls.waits(&waiter.call))
    }
}
