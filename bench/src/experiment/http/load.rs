//! One load of one server: started, checked to answer with the right document, measured and stopped. What it showed: a run,
//! and the medians of some.

use super::args::Client;
use super::session::Session;
use crate::report::{limited_by, median, median_of};
use crate::stage::cpu::{CoreTime, ticks_to_us};
use crate::stage::packets::Visited;
use crate::stage::request::{Connection, Errors, Size};
use crate::stage::web::{Measured, Setup, Used};
use exos_host::Result;
use exos_lab::{Lab, WireKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// What is asked of a server, and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Load {
    pub client: Client,
    pub wire: WireKind,
    pub connection: Connection,
    pub size: Size,
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

    /// Starts a server, checks it, has it loaded, and stops it. `limit` is the link's packet limit for such visits.
    pub fn run(
        self,
        session: &Session<'_>,
        lab: &Lab,
        setup: Setup,
        limit: Option<f64>,
    ) -> Result<Run> {
        let serving = session.serve(lab, setup, self.size)?;
        let run = match self.client {
            Client::Wrk => {
                let (measured, used) = session.load(lab, &serving, self.connection, self.size)?;
                Run::of_wrk(&measured, used, limit)
            }
            Client::Packets => {
                let visit = session.new_visit(lab, setup.server, self.connection, self.size)?;
                let (visited, used, ()) = session.visit(lab, &serving, &visit, || Ok(()))?;
                Run::of_packets(&visited, used, limit)
            }
        };
        session.end(self.wire, serving)?;
        Ok(run)
    }
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

    fn median_of(runs: &[Run], core: fn(&Run) -> Self) -> Self {
        let of = |value: fn(Self) -> f64| median(runs.iter().map(|run| value(core(run))).collect());
        Self {
            user_us: of(|core| core.user_us),
            system_us: of(|core| core.system_us),
            softirq_us: of(|core| core.softirq_us),
        }
    }

    /// The three of them, for a table.
    pub(super) fn shown(&self) -> String {
        format!(
            "{:.1}+{:.1}+{:.1}",
            self.user_us, self.system_us, self.softirq_us
        )
    }
}

/// One server in one case: medians over the runs, errors summed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outcome {
    /// `exos`; `exos-handlers`: with SYNs answered in the kernel (not in cases of wrk); `exos-xokd`: without privilege, on a
    /// link that the daemon lends; `exos-sockets`: on the kernel's sockets; `nginx`, `h2o`, `lighttpd`. Of specialisations
    /// also `exos without WHAT` and `exos without all`.
    pub server: String,
    /// Answers received in a second; our client counts those that were whole and right.
    pub requests_per_sec: f64,
    /// A megabyte is 1,000,000 bytes, heads of answers included.
    pub megabytes_per_sec: f64,
    /// Part of the packet limit that was measured in the same run; `null` on the offload wire and of specialisations. Large
    /// documents leave in super-packets, so they may exceed 1.
    pub of_packet_limit: Option<f64>,
    /// Processor time of the server's processes for one request. The kernel delivers a packet over a veth on the core of the
    /// sender, so part of receiving is not in here.
    pub server_cpu_us_per_request: f64,
    /// Time that the server's core was busy for one request, soft interrupts included. Ours looks for packets while it waits,
    /// which counts as busy.
    pub server_core_us_per_request: f64,
    /// What the server's core did for one request.
    pub server_core: CoreUse,
    /// What the client's core did for it. Our client looks for packets while it waits.
    pub client_core: CoreUse,
    /// Part of the time that the server's core was busy, 0 to 1.
    pub server_core_busy: f64,
    /// Part of the time that the client's core was busy, 0 to 1; of our client, that it had something to do.
    pub client_busy: f64,
    /// Who had no time left, which is to be busy for 0.95 of the time: `client`, `server` or `neither`.
    pub limited_by: &'static str,
    /// The median of the time from a request to its whole answer; our client counts from the SYN where there is one.
    pub latency_p50_us: f64,
    /// The 99th percentile of that.
    pub latency_p99_us: f64,
    /// Errors of all kinds, of all runs.
    pub errors: u64,
    /// Every run, in order.
    pub runs: Vec<Run>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// Answers received in a second.
    pub requests_per_sec: f64,
    /// Megabytes (1,000,000 bytes) received in a second.
    pub megabytes_per_sec: f64,
    /// Part of the packet limit measured in this run.
    pub of_packet_limit: Option<f64>,
    /// Time of the server's processes in their own code, for one request.
    pub server_user_us_per_request: f64,
    /// Time of the server's processes in the kernel, for one request.
    pub server_system_us_per_request: f64,
    /// Time that the server's core was busy, for one request.
    pub server_core_us_per_request: f64,
    /// Of that, in soft interrupts.
    pub server_softirq_us_per_request: f64,
    /// What the server's core did for one request.
    pub server_core: CoreUse,
    /// What the client's core did for one request.
    pub client_core: CoreUse,
    /// Part of the time that the server's core was busy, 0 to 1.
    pub server_core_busy: f64,
    /// Part of the time that the client had something to do, 0 to 1.
    pub client_busy: f64,
    /// The median of the time that requests took.
    pub latency_p50_us: f64,
    /// The 99th percentile.
    pub latency_p99_us: f64,
    /// What went wrong.
    pub errors: Errors,
    /// Segments that our client sent again; `null` of wrk.
    pub resent: Option<u64>,
}

impl Run {
    /// What wrk saw.
    pub(super) fn of_wrk(measured: &Measured, used: Used, limit: Option<f64>) -> Self {
        // It is its requests that the processors' time is divided by, however long it took to start.
        let seconds = measured.seconds();
        let used = Used { seconds, ..used };
        Self {
            megabytes_per_sec: measured.bytes as f64 / 1e6 / seconds,
            latency_p50_us: measured.p50_us as f64,
            latency_p99_us: measured.p99_us as f64,
            errors: measured.errors,
            ..Self::new(measured.per_sec(), used, limit)
        }
    }

    /// What our client saw.
    pub(super) fn of_packets(visited: &Visited, used: Used, limit: Option<f64>) -> Self {
        Self {
            megabytes_per_sec: visited.bytes as f64 / 1e6 / visited.seconds,
            // It looks for packets all the time: that its core is busy says nothing.
            client_busy: visited.working,
            latency_p50_us: visited.latency(50.0),
            latency_p99_us: visited.latency(99.0),
            errors: visited.errors,
            resent: Some(visited.resent),
            ..Self::new(visited.per_sec(), used, limit)
        }
    }

    fn new(rate: f64, used: Used, limit: Option<f64>) -> Self {
        let per_request = |ticks: u64| ticks_to_us(ticks) / (used.seconds * rate);
        Self {
            requests_per_sec: rate,
            megabytes_per_sec: 0.0,
            of_packet_limit: limit.map(|limit| rate / limit),
            server_user_us_per_request: per_request(used.process.user),
            server_system_us_per_request: per_request(used.process.system),
            server_core_us_per_request: per_request(used.server.busy),
            server_softirq_us_per_request: per_request(used.server.softirq),
            server_core: CoreUse::of(used.server, per_request),
            client_core: CoreUse::of(used.client, per_request),
            server_core_busy: used.server.busy_share(),
            client_busy: used.client.busy_share(),
            latency_p50_us: 0.0,
            latency_p99_us: 0.0,
            errors: Errors::default(),
            resent: None,
        }
    }

    fn server_cpu_us(&self) -> f64 {
        self.server_user_us_per_request + self.server_system_us_per_request
    }
}

impl Outcome {
    /// The medians of some runs.
    pub(super) fn of(server: impl ToString, runs: Vec<Run>) -> Self {
        let of = |value: fn(&Run) -> f64| median_of(&runs, value);
        let limits: Vec<f64> = runs.iter().filter_map(|run| run.of_packet_limit).collect();
        let (server_busy, client_busy) = (of(|r| r.server_core_busy), of(|r| r.client_busy));
        Self {
            server: server.to_string(),
            requests_per_sec: of(|r| r.requests_per_sec),
            megabytes_per_sec: of(|r| r.megabytes_per_sec),
            of_packet_limit: (!limits.is_empty()).then(|| median(limits)),
            server_cpu_us_per_request: of(Run::server_cpu_us),
            server_core_us_per_request: of(|r| r.server_core_us_per_request),
            server_core: CoreUse::median_of(&runs, |run| run.server_core),
            client_core: CoreUse::median_of(&runs, |run| run.client_core),
            server_core_busy: server_busy,
            client_busy,
            limited_by: limited_by(server_busy, client_busy),
            latency_p50_us: of(|r| r.latency_p50_us),
            latency_p99_us: of(|r| r.latency_p99_us),
            errors: runs.iter().map(|r| r.errors.total()).sum(),
            runs,
        }
    }

    /// Requests a second in each run, with its name.
    pub(super) fn rates(&self) -> (String, Vec<f64>) {
        let rates = self.runs.iter().map(|run| run.requests_per_sec);
        (self.server.clone(), rates.collect())
    }
}
