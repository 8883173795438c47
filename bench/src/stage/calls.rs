//! What the calls take by which a client hands frames over. On a veth the kernel delivers them in there, and so does what the other end's
//! kernel does with them; where the kernel defers that to its thread for soft interrupts, the thread's time is counted, too.
//!
//! A client has one thread, and a core for itself.

use super::cpu::{SoftirqThread, own_ns};
use exos_host::{Result, affinity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls that handed something over, and their processor time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Nanoseconds.
    pub ns: u64,
}

impl Calls {
    /// Of each of so many requests: how many, and microseconds.
    pub(crate) fn per_request(self, requests: u64) -> (f64, f64) {
        let requests = requests as f64;
        (
            self.count as f64 / requests,
            self.ns as f64 / 1e3 / requests,
        )
    }
}

/// Counts them.
#[derive(Debug)]
pub(crate) struct CallClock {
    calls: Calls,
    softirqs: SoftirqThread,
    softirqs_ns: u64,
}

impl CallClock {
    /// Of this thread, on the core that it may use.
    pub fn new() -> Result<Self> {
        let core = affinity::allowed()?.first().copied().unwrap_or(0);
        let softirqs = SoftirqThread::of_core(core)?;
        Ok(Self {
            calls: Calls::default(),
            softirqs_ns: softirqs.ns(),
            softirqs,
        })
    }

    /// Makes a call that hands something over.
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begin = own_ns();
        let returned = call();
        self.calls.ns += own_ns() - begin;
        self.calls.count += 1;
        returned
    }

    /// Begins again; what was counted until then.
    pub fn restart(&mut self) -> Calls {
        let softirqs_ns = self.softirqs.ns();
        let before = std::mem::replace(&mut self.softirqs_ns, softirqs_ns);
        let mut calls = std::mem::take(&mut self.calls);
        calls.ns += softirqs_ns - before;
        calls
    }
}

/// What the calls of a client take by themselves for a request, where nobody serves and what it sends comes straight back: the client's and
/// the wire's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bare {
    /// Of each call, in microseconds, however many requests it hands over.
    pub call_us: f64,
    /// Of a request.
    pub request_us: f64,
}

impl Bare {
    /// Of loads with many requests in a call, and with one: how many calls a request takes, and how many microseconds.
    pub fn of(many: (f64, f64), one: (f64, f64)) -> Self {
        let call_us = ((one.1 - many.1) / (one.0 - many.0)).max(0.0);
        Self {
            call_us,
            request_us: many.1 - call_us * many.0,
        }
    }

    /// Of a request that takes so many calls, in microseconds.
    pub fn us(self, calls: f64) -> f64 {
        self.request_us + self.call_us * calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_requests_are_told_apart() {
        // Three calls of 2 us by themselves; 64 requests in these: 3 us each beside them.
        let bare = Bare::of((3.0 / 64.0, 3.0 + 6.0 / 64.0), (3.0, 9.0));
        let [many, one] = [3.0 / 64.0, 3.0].map(|calls| bare.us(calls));
        assert_eq!((bare.call_us, bare.request_us), (2.0, 3.0));
        assert_eq!((many, one), (3.0 + 6.0 / 64.0, 9.0));
        // A machine that was busier meanwhile: calls take nothing off, and not more than was measured.
        assert_eq!(Bare::of((0.5, 9.0), (3.0, 8.0)).us(3.0), 9.0);
    }
}
