//! Drivers: what the clients ask for, and how long they think before (*Fast and Flexible*, section 6.1).

pub mod log_line;
mod plan;
pub mod replay;
pub mod surge;
pub mod weighted;

use std::time::Duration;

use exos_inet::Part;

use crate::request::Request;

pub use plan::DriverArgs;
pub(crate) use plan::{Common, Plan};

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The request, by its place in [`Driver::requests`].
    pub request: u32,
    /// How long the client thinks before it, in a closed loop.
    pub think: Duration,
}

impl Task {
    /// Without thinking: there is no response yet that a client would think about.
    fn at_once(self) -> Self {
        let think = Duration::ZERO;
        Self { think, ..self }
    }
}

/// Makes the driver of each core, for its part of the load, in the core's own thread.
pub(crate) type Maker = Box<dyn Fn(Part) -> Box<dyn Driver> + Send + Sync>;

/// Decides what clients ask for.
pub trait Driver {
    /// All requests that there are.
    fn requests(&self) -> &[Request];

    /// What this client does first, before the load begins: as a rule what it does next.
    fn first(&mut self, client: u32) -> Option<Task> {
        self.next(client)
    }

    /// What this client does next, or nothing more; clients are counted from zero, on each core, and in an open loop all are
    /// the first.
    ///
    /// It is asked when the client's last request is over, or,
    /// with several requests under way on a connection, when there is room for another. In an open
    /// loop it is asked once for each time at which a request is meant to begin, in their order.
    fn next(&mut self, client: u32) -> Option<Task>;
}

/// One request, each time.
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

    fn first(&mut self, client: u32) -> Option<Task> {
        self.next(client).map(Task::at_once)
    }

    fn next(&mut self, _client: u32) -> Option<Task> {
        Some(Task {
            request: 0,
            think: self.think,
        })
    }
}
