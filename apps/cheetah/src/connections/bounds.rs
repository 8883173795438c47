//! Limits that an operator sets: connections, also of each peer, the least rates of clients, and how long they may keep a
//! server that is to stop.
//!
//! Connections in all are the stack's limit: beyond it SYNs are not answered, which costs nothing, and the client's next
//! try may find room.

use std::time::Duration;

use exos::requests::Capacity;
use exos_inet::Instant;
use exos_program::units::parse_duration;

use crate::limits::{
    HEAD_GRACE_TIME, READ_RATE_TIME, REQUEST_TIME, SHUTDOWN_TIME, SHUTDOWN_TIME_MAX,
};

/// What is limited, and how much; without a number, not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Connections of an IPv4 address, or of an IPv6 network of 64 bits: what one subscriber usually has.
    pub peer_connections: Option<u32>,
    /// Bytes a second that a client takes of its responses at least.
    pub read_rate: Option<u32>,
    /// Bytes a second that a client sends of a request's head at least, after a few seconds, and of a body that an
    /// application is to have.
    pub head_rate: Option<u32>,
}

/// What the command line and a configuration say of these limits.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundsArgs {
    /// Most connections at once; further SYNs are not answered [default: 1048576]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Most connections at once from one IPv4 address or IPv6 /64; further ones are reset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_peer_connections: Option<u32>,
    /// Lowest rate at which a client may take its responses, in bytes per second; slower clients are reset
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_read_rate: Option<u32>,
    /// Lowest rate at which a client may send the head of a request, or a body for an application, in bytes per second; slower
    /// clients get 408
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub min_head_rate: Option<u32>,
    /// How long responses under way may still take after SIGTERM or SIGINT, such as 30s or 5m [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_shutdown_timeout)]
    pub shutdown_timeout: Option<Duration>,
}

/// A time that a stop may wait for responses.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn parse_shutdown_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        time if time > SHUTDOWN_TIME_MAX => Err(format!(
            "{text:?} is out of bounds; write a time up to {} h",
            SHUTDOWN_TIME_MAX.as_secs() / 3600
        )),
        time => Ok(time),
    }
}

impl BoundsArgs {
    /// This, and what a file says where this says nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        Self {
            max_connections: self.max_connections.or(file.max_connections),
            max_peer_connections: self.max_peer_connections.or(file.max_peer_connections),
            min_read_rate: self.min_read_rate.or(file.min_read_rate),
            min_head_rate: self.min_head_rate.or(file.min_head_rate),
            shutdown_timeout: self.shutdown_timeout.or(file.shutdown_timeout),
        }
    }

    /// What the kernel and the server have together where the kernel answers requests.
    pub(crate) fn capacity(&self) -> Capacity {
        let most = Capacity::DOCUMENTS;
        Capacity {
            connections: self.max_connections.unwrap_or(most.connections),
            peer_connections: self.max_peer_connections,
            ..most
        }
    }

    /// How long a stop waits for responses under way.
    pub(crate) fn shutdown_time(&self) -> Duration {
        self.shutdown_timeout.unwrap_or(SHUTDOWN_TIME)
    }

    /// The limits of each client.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            peer_connections: self.max_peer_connections,
            read_rate: self.min_read_rate,
            head_rate: self.min_head_rate,
        }
    }
}

impl Bounds {
    /// How long a head of which `len` bytes have come may take in all.
    pub(crate) fn head_time(&self, len: usize) -> Duration {
        let Some(rate) = self.head_rate else {
            return REQUEST_TIME;
        };
        let earned = Duration::from_secs_f64(len as f64 / f64::from(rate.max(1)));
        REQUEST_TIME.min(HEAD_GRACE_TIME + earned)
    }
}

/// How a client sends a body, since it was last its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyPace {
    since: Instant,
    come: u64,
}

impl BodyPace {
    /// From here on.
    pub(crate) fn new(since: Instant) -> Self {
        Self { since, come: 0 }
    }

    /// It was kept from sending until now.
    pub(crate) fn begin(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// This much of it is there; true when that is more than before.
    pub(crate) fn has_grown_to(&mut self, len: usize) -> bool {
        let before = std::mem::replace(&mut self.come, len as u64);
        before < self.come
    }

    /// This much more has come.
    pub(crate) fn came(&mut self, len: usize) {
        self.come += len as u64;
    }

    /// When more has to have come, if there is a least rate.
    pub(crate) fn until(&self, bounds: &Bounds) -> Option<Instant> {
        let rate = bounds.head_rate?;
        let earned = Duration::from_secs_f64(self.come as f64 / f64::from(rate.max(1)));
        Some(self.since + HEAD_GRACE_TIME + earned)
    }
}

/// How a client takes its responses: what it had taken when it was looked at last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    at: Instant,
    taken: u64,
}

impl Pace {
    /// From here on.
    pub(crate) fn new(at: Instant, taken: u64) -> Self {
        Self { at, taken }
    }

    /// Looks again, when it is time to; true when too little was taken since.
    pub(crate) fn is_too_slow(&mut self, bounds: &Bounds, now: Instant, taken: u64) -> bool {
        let Some(rate) = bounds.read_rate else {
            return false;
        };
        let time = now - self.at;
        if time < READ_RATE_TIME {
            return false;
        }
        let least = f64::from(rate) * time.as_secs_f64();
        let is_slow = ((taken - self.taken) as f64) < least;
        *self = Self::new(now, taken);
        is_slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_earns_time_by_coming() {
        let bounds = Bounds {
            head_rate: Some(100),
            ..Bounds::default()
        };
        assert_eq!(bounds.head_time(0), HEAD_GRACE_TIME);
        assert_eq!(
            bounds.head_time(300),
            HEAD_GRACE_TIME + Duration::from_secs(3)
        );
        assert_eq!(bounds.head_time(1 << 20), REQUEST_TIME);
        assert_eq!(Bounds::default().head_time(0), REQUEST_TIME);
    }

    #[test]
    fn a_reader_is_judged_now_and_then_by_what_it_took_since() {
        let bounds = Bounds {
            read_rate: Some(1000),
            ..Bounds::default()
        };
        let secs = READ_RATE_TIME.as_secs();
        let at = |second: u64| Instant::from_millis(1000 * second);
        let mut pace = Pace::new(at(0), 0);
        assert!(!pace.is_too_slow(&bounds, at(secs - 1), 0), "not yet");
        assert!(!pace.is_too_slow(&bounds, at(secs), 1000 * secs));
        assert!(pace.is_too_slow(&bounds, at(2 * secs), 2000 * secs - 1));
        assert!(!pace.is_too_slow(&Bounds::default(), at(9 * secs), 0));
    }
}
