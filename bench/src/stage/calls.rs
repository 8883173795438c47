//! What the calls take by which a client hands frames over. On a veth the kernel delivers them in there, and so does what the other end's
//! kernel does with them; where the kernel defers that to its thread for soft interrupts, the thread's time is counted, too.
//!
//! A client has one thread, and a core for itself. The kernel has to count soft interrupts as the time of the program in which they run.
//! Where it keeps them apart (`CONFIG_IRQ_TIME_ACCOUNTING`), most calls take much longer than the processor time that is told of them.

use super::cpu::{SoftirqThread, thread_ns};
use super::{Stage, now_ns};
use exos_host::{Result, affinity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls that handed something over, and their processor time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Nanoseconds; `null` where the kernel does not tell them: it keeps the time of soft interrupts apart
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`), or hides its thread for them.
    pub ns: Option<u64>,
}

/// What is said where that is so.
const UNTOLD: &str = "capacity is not told: the kernel keeps the time of soft interrupts apart from that of the programs they run in \
    (CONFIG_IRQ_TIME_ACCOUNTING; boot with tsc=noirqtime), or its threads ksoftirqd or their schedstat cannot be seen in this \
    container (measure outside of it)";

impl Calls {
    /// Of each of this many requests: how many, and microseconds, where that is told.
    pub(crate) fn per_request(self, requests: u64) -> Option<(f64, f64)> {
        let requests = requests as f64;
        let us = self.ns? as f64 / 1e3 / requests;
        Some((self.count as f64 / requests, us))
    }

    /// Notes where their time is not told.
    pub(crate) fn note_untold(self, stage: &Stage) {
        if self.ns.is_none() {
            stage.note(UNTOLD.to_owned());
        }
    }
}

/// Counts them.
#[derive(Debug)]
pub(crate) struct CallClock {
    count: u64,
    ns: u64,
    /// Calls that took well less processor time than time.
    short: u64,
    softirqs: Option<SoftirqThread>,
    softirqs_ns: u64,
}

impl CallClock {
    /// Of this thread, on the core that it may use.
    pub fn new() -> Result<Self> {
        let core = affinity::allowed()?.first().copied().unwrap_or(0);
        let softirqs = SoftirqThread::of_core(core)?;
        Ok(Self {
            count: 0,
            ns: 0,
            short: 0,
            softirqs_ns: softirqs.as_ref().map_or(0, SoftirqThread::ns),
            softirqs,
        })
    }

    /// Makes a call that hands something over.
    pub fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        // The time within the processor time: the latter is the longer one, unless this thread did not run or soft interrupts are
        // kept apart.
        let (begin_own, begin) = (thread_ns(), now_ns());
        let returned = call();
        let ns = now_ns() - begin;
        self.count(thread_ns() - begin_own, ns);
        returned
    }

    /// A call that took this much processor time, and time.
    fn count(&mut self, own_ns: u64, ns: u64) {
        self.count += 1;
        self.ns += own_ns;
        self.short += u64::from(own_ns < ns / 10 * 9);
    }

    /// Processor time of the calls, where that is all of their time.
    fn told_ns(&self) -> Option<u64> {
        (self.short <= self.count / 2).then_some(self.ns)
    }

    /// Begins again; what was counted until then.
    pub fn restart(&mut self) -> Calls {
        let softirqs_ns = self.softirqs.as_ref().map(SoftirqThread::ns);
        let before = std::mem::replace(&mut self.softirqs_ns, softirqs_ns.unwrap_or(0));
        let told = self.told_ns().zip(softirqs_ns);
        let calls = Calls {
            count: self.count,
            ns: told.map(|(ns, softirqs_ns)| ns + softirqs_ns - before),
        };
        (self.count, self.ns, self.short) = (0, 0, 0);
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

    /// Of a request that takes this many calls, in microseconds.
    pub fn us(self, calls: f64) -> f64 {
        self.request_us + self.call_us * calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of few calls is shorter which other programs on the core interrupted.
    #[test]
    fn no_time_is_told_where_most_calls_take_longer_than_that() {
        let cases = [
            ([(100, 95), (100, 4000), (100, 110)], Some(300)),
            ([(60, 100), (100, 4000), (100, 110)], None),
        ];
        for (calls, told) in cases {
            let mut clock = CallClock::new().expect("cores are known");
            for (own_ns, ns) in calls {
                clock.count(own_ns, ns);
            }
            assert_eq!(clock.told_ns(), told, "{calls:?}");
        }
    }

    #[test]
    fn a_call_that_sleeps_takes_less_processor_time_than_time() {
        let mut clock = CallClock::new().expect("cores are known");
        clock.time(|| std::thread::sleep(std::time::Duration::from_millis(20)));
        assert_eq!(clock.told_ns(), None);
        let calls = clock.restart();
        assert_eq!((calls.count, calls.ns), (1, None));
        assert_eq!(calls.per_request(1), None);
    }

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
