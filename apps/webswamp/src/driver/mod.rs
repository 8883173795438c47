//! Drivers: what the clients ask for, and how long they think before (*Fast and Flexible*, section 6.1).

use std::time::Duration;

use crate::request::Request;

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The request, by its place in [`Driver::requests`].
    pub request: u32,
    /// How long the client thinks before it, in a closed loop.
    pub think: Duration,
}

/// Decides what clients ask for.
pub trait Driver {
    /// All requests that there are.
    fn requests(&self) -> &[Request];

    /// What this client does next; clients are counted from zero, in an open loop all are the first.
    fn next(&mut self, client: u32) -> Task;
}

/// The same request each time.
pub struct One {
    request: [Request; 1],
    think: Duration,
}

impl One {
    /// After the same time of thinking.
    pub fn new(request: Request, think: Duration) -> Self {
        let request = [request];
        Self { request, think }
    }
}

impl Driver for One {
    fn requests(&self) -> &[Request] {
        &self.request
    }

    fn next(&mut self, _client: u32) -> Task {
        Task {
            request: 0,
            think: self.think,
        }
    }
}
