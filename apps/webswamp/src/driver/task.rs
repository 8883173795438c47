//! The interface of a driver: it tells each client its next task.

use std::time::Duration;

use exos_inet::Part;

use crate::request::Request;

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
    pub(super) fn at_once(self) -> Self {
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
