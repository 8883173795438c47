//! What clients do: when their requests begin, and how many of what there may be.

use std::time::Duration;

use exos_inet::Part;

use crate::expect::Expect;
use crate::schedule::Schedule;

/// When requests begin.
pub enum Shape {
    /// Each client asks again when it has its response and has thought.
    Closed,
    /// At these moments.
    Open(Schedule),
}

/// How clients behave.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Clients, or in an open loop connections at most; over HTTP/2 and HTTP/3 connections, each with as many clients as streams.
    pub slots: u32,
    /// Clients of a closed loop whose first connection is being opened at the same time.
    pub opening: u32,
    /// Requests on a connection.
    pub requests_per_connection: u32,
    /// Requests under way on a connection of a closed loop.
    pub pipeline: u32,
    /// Requests under way on a connection of HTTP/2 or HTTP/3, each on a stream; `None` for HTTP/1.
    pub streams: Option<u32>,
    /// It is HTTP/3 that is spoken.
    pub is_http3: bool,
    /// Requests in all.
    pub requests: u64,
    /// How long a request may take.
    pub timeout: Duration,
    /// Acknowledgements ride on what is sent next: that of the SYN-ACK on the request, that of the FIN on ours.
    pub merging: bool,
    /// The FIN goes with the last request of a connection.
    pub early_finish: bool,
    /// Bodies are counted where they arrive and not handed over, when nothing needs to look at them.
    pub count_only: bool,
    /// What responses are to be.
    pub expect: Expect,
}

impl Behaviour {
    /// Requests under way at most: clients of a closed loop.
    pub fn places(&self) -> u32 {
        self.slots * self.streams.unwrap_or(1)
    }

    /// What a core does of it that makes a part of the load.
    pub fn part(&self, part: Part) -> Self {
        let share = |count: u32| part.count(count.into()) as u32;
        Self {
            slots: share(self.slots),
            opening: share(self.opening).max(1),
            requests: part.count(self.requests),
            ..self.clone()
        }
    }
}
