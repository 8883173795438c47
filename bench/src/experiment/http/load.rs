//! One load of one server: started, checked to answer with the right document, measured and stopped. What it showed: a run,
//! and the medians of some.

use super::args::Client;
use super::session::Session;
use crate::report::{
    Shown, known_median, limited_by, median, median_of, median_where_all_are_known, outcomes, sum,
    usual,
};
use crate::stage::calls::Bare;
use crate::stage::cpu::{CoreTime, ticks_to_us};
use crate::stage::link::Best;
use crate::stage::request::{Connection, Errors, Size};
use crate::stage::web::{Seen, Setup, Used};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// What is asked of a server, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    pub client: Client,
    pub wire: WireKind,
    pub connection: Connection,
    pub size: Size,
}

/// What the link does by itself with the frames of a visit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alone {
    pub limit: Best,
    /// What the client's calls take that hand them over, where that is known.
    pub bare: Option<Bare>,
}

/// What was loaded, by whom and how.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Loaded {
    /// `GROUP/CLIENT/WIRE/CONNECTION/SIZE`; the group is `documents` or `specialisations`.
    pub name: String,
    /// Who loaded the servers.
    pub client: Client,
    /// The kind of wire: `plain` or `offload`, see `exos lab`.
    pub wire: String,
    /// How requests were spread over connections.
    pub connection: Connection,
    /// The size of the document in bytes.
    pub size_bytes: u64,
}

/// As it stands in the names of cells.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, wire, connection) = (self.client, self.wire, self.connection);
        write!(f, "{client}/{wire}/{connection}/{}", self.size.name())
    }
}

impl Load {
    /// As results of a group tell it, with the cell's name.
    pub fn named(self, name: String) -> Loaded {
        Loaded {
            name,
            client: self.client,
            wire: self.wire.to_string(),
            connection: self.connection,
            size_bytes: self.size.bytes(),
        }
    }

    /// Starts a server, checks it, has it loaded, and stops it. `alone` is what the link does with such visits.
    pub fn run(
        self,
        session: &Session<'_>,
        lab: &Lab,
        setup: Setup,
        alone: Option<Alone>,
    ) -> Result<Run> {
        let serving = session.serve(lab, setup, self.size)?;
        let times = || session.times(&serving);
        let (seen, used) = match self.client {
            Client::Wrk => {
                let asked = (self.connection, self.size);
                let (seen, [before, after]) = session.load(lab, &serving, asked, times)?;
                // It is its requests that the processors' time is divided by, however long it took to start.
                let seconds = seen.seconds;
                let used = after.since(&before);
                (seen, Used { seconds, ..used })
            }
            Client::Packets => {
                let visit = session.prepare_visit(lab, &serving, self.connection, self.size)?;
                let (visited, [before, after]) = session.visit(lab, &serving, &visit, times)?;
                visited.calls.note_untold(session);
                (Seen::from(&visited), after.since(&before))
            }
        };
        let told = session.end(self.wire, serving)?;
        let own_us = setup.server.polls().then(|| busy_us(&told)).flatten();
        Ok(Run::new(&seen, used, own_us, alone))
    }
}

/// For how long a server of ours had something to do for a request, by what it says of itself.
pub(super) fn busy_us(told: &Value) -> Option<f64> {
    Some(told["counters"]["busy_micros"].as_f64()? / answers(told)?)
}

/// How often a server of ours has answered, by what it says of itself.
pub(super) fn answers(told: &Value) -> Option<f64> {
    let counters = told["counters"].as_object()?.iter();
    let responses = counters.filter(|(name, _)| name.starts_with("http_responses_"));
    Some(responses.filter_map(|(_, count)| count.as_f64()).sum())
}

/// What a core did for a request, by the kind of time. A frame over a veth is delivered in a soft interrupt on the core that sent
/// it, unless the receiver's kernel is steered to its own (`receive_on`).
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct CoreUse {
    /// Microseconds in programs.
    pub user_us: f64,
    /// In system calls, and in threads of the kernel.
    pub system_us: f64,
    /// In soft interrupts.
    pub softirq_us: f64,
}

impl CoreUse {
    fn of(time: CoreTime, per_request: impl Fn(u64) -> f64) -> Self {
        Self {
            user_us: per_request(time.user),
            system_us: per_request(time.system),
            softirq_us: per_request(time.softirq),
        }
    }

    fn median(all: Vec<Self>) -> Self {
        let of = |value: fn(&Self) -> f64| median_of(&all, value);
        Self {
            user_us: of(|core| core.user_us),
            system_us: of(|core| core.system_us),
            softirq_us: of(|core| core.softirq_us),
        }
    }
}

/// The three of them.
impl Shown for CoreUse {
    fn shown(&self, digits: usize) -> String {
        let all = [self.user_us, self.system_us, self.softirq_us];
        all.map(|us| us.shown(digits)).join("+")
    }
}

outcomes! {
    /// One server in one case: medians over the runs, errors summed.
    pub struct Outcome of
    /// `exos`; `exos-handlers`, `exos-kernel`: with SYNs, or requests too, answered in the kernel (not in cases of wrk); `exos-xokd`: without privilege, on a
    /// link that the daemon lends; `exos-sockets`: on the kernel's sockets; `exos-run`, `exos-run-intercept`: nginx by `exos run`, with
    /// shared sockets and with intercepted calls; `nginx`, `h2o`, `lighttpd`. Of specialisations also `exos without WHAT` and
    /// `exos without all`.
    server: String, "server";
    /// One measurement.
    pub struct Run {
        /// Answers received in a second; our client counts those that were whole and right.
        requests_per_sec: f64 as median, "requests/s" 0;
        /// A megabyte is 1,000,000 bytes, heads of answers included.
        megabytes_per_sec: f64 as median, "MB/s" 1;
        /// Part of the packet limit that was measured in the same run; `null` on the offload wire and of specialisations. Large
        /// documents leave in super-packets, so they may exceed 1.
        of_packet_limit: Option<f64> as known_median, "of limit" 2;
        /// Processor time of the server's processes for one request. The kernel delivers a packet over a veth on the core of the
        /// sender, so part of receiving is not in here.
        server_cpu_us_per_request: f64 as median, "CPU us" 1;
        /// Of that, in their own code.
        server_user_us_per_request: f64 as median;
        /// And in the kernel.
        server_system_us_per_request: f64 as median;
        /// Time that the server's core was busy for one request, soft interrupts included. Ours looks for packets while it waits,
        /// which counts as busy.
        server_core_us_per_request: f64 as median, "core us" 1;
        /// Of that, in soft interrupts.
        server_softirq_us_per_request: f64 as median;
        /// What the server's core did for one request.
        server_core: CoreUse as CoreUse::median, "server user+sys+soft" 1;
        /// What the client's core did for it. Our client looks for packets while it waits.
        client_core: CoreUse as CoreUse::median, "client user+sys+soft" 1;
        /// Processor time that the server's side takes for a request, wherever it is spent, in microseconds: that of its processes (ours that
        /// poll: in turns in which there was something to do) and of its core's thread for soft interrupts, and that of the client's calls
        /// beyond what as many calls take where each frame is sent straight back. `null` of wrk, on the offload wire, with `--receive-on own`,
        /// of documents of several segments and of specialisations, where the kernel does not tell the time of soft interrupts, and where in
        /// one of the runs what is taken off was all or more.
        server_side_us_per_request: Option<f64> as median_where_all_are_known, "server side us" 2;
        /// Processor time in our client's calls that hand frames over for a request: what the kernel does in there for the server, too.
        client_calls_us_per_request: Option<f64> as known_median;
        /// Of that, what is taken off: as many calls take this long where each frame is sent straight back.
        bare_calls_us_per_request: Option<f64> as known_median;
        /// Requests for each second of that.
        capacity_per_sec: Option<f64> as median_where_all_are_known, "capacity" 0;
        /// Part of the time that the server's core was busy, 0 to 1.
        server_core_busy: f64 as median;
        /// Part of the time that the client's core was busy, 0 to 1; of our client, that it had something to do.
        client_busy: f64 as median, "busy %" 0 |r| [r.server_core_busy, r.client_busy].map(|part| 100.0 * part);
        /// Who had no time left, which is to be busy for 0.95 of the time: `client`, `server` or `neither`; of several runs, in most.
        limited_by: &'static str as usual, "limited by";
        /// The median of the time from a request to its whole answer; our client counts from the SYN where there is one.
        latency_p50_us: f64 as median, "p50 us" 0;
        /// The 99th percentile of that.
        latency_p99_us: f64 as median, "p99 us" 0;
        /// Errors of all kinds.
        errors: u64 as sum, "errors";
        /// How many of each kind.
        errors_by_kind: Errors as sum;
        /// Segments that our client sent again; `null` of wrk.
        resent: Option<u64> as sum;
    }
}

impl Run {
    /// What a client saw, and the processors did.
    pub(super) fn new(seen: &Seen, used: Used, own_us: Option<f64>, alone: Option<Alone>) -> Self {
        let per_sec = seen.per_sec();
        let per_request = |ticks: u64| ticks_to_us(ticks) / (used.seconds * per_sec);
        let process_us = per_request(used.process.user + used.process.system);
        let calls = seen.calls.and_then(|c| c.per_request(seen.requests));
        let bare = alone.and_then(|alone| alone.bare).zip(calls);
        let bare_us = bare.map(|(bare, (count, _))| bare.us(count));
        let own_us = own_us.map_or(process_us, |us| us.min(process_us));
        let theirs_us = calls.zip(bare_us).map(|((_, us), bare_us)| us - bare_us);
        let side_us = theirs_us.zip(used.softirqs_ns).map(|(theirs_us, ns)| {
            let softirqs_us = ns as f64 / 1e3 / (used.seconds * per_sec);
            own_us + softirqs_us + theirs_us
        });
        let side_us = side_us.filter(|us| *us > 0.0);
        let server_busy = used.server.busy_share();
        let client_busy = seen.busy.unwrap_or(used.client.busy_share());
        Self {
            requests_per_sec: per_sec,
            megabytes_per_sec: seen.megabytes_per_sec(),
            of_packet_limit: alone.map(|alone| per_sec / alone.limit.per_sec),
            server_cpu_us_per_request: process_us,
            server_side_us_per_request: side_us,
            client_calls_us_per_request: calls.map(|(_, us)| us),
            bare_calls_us_per_request: bare_us,
            capacity_per_sec: side_us.map(|us| 1e6 / us),
            server_user_us_per_request: per_request(used.process.user),
            server_system_us_per_request: per_request(used.process.system),
            server_core_us_per_request: per_request(used.server.busy),
            server_softirq_us_per_request: per_request(used.server.softirq),
            server_core: CoreUse::of(used.server, per_request),
            client_core: CoreUse::of(used.client, per_request),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_p50_us: seen.latency_us[0],
            latency_p99_us: seen.latency_us[1],
            errors: seen.errors.total(),
            errors_by_kind: seen.errors,
            resent: seen.resent,
        }
    }
}
