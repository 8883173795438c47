//! What a service says about itself: on SIGUSR1 and at its end.
//!
//! As a table on standard error, with the counters that are not zero; or as one line of JSON on
//! standard output, with all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use exos::{Exos, clock};
use exos_inet::tcp::{ConnectionId, Info, Reason};
use exos_program::counters;
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::LISTED_MAX;
use crate::service::{Ended, Service, Summary};

/// How a connection ended, to be read behind "the connection".
pub(crate) fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::Done => "ended well",
        Reason::Reset => "was reset by the peer",
        Reason::Refused => "was refused: nobody listens there",
        Reason::TimedOut => "timed out: no answer came",
        Reason::Aborted => "was given up",
        Reason::Unreachable => "failed: the peer cannot be reached",
    }
}

/// Why a connection is over, as JSON has it.
pub(crate) fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Done => "done",
        Reason::Reset => "reset",
        Reason::Refused => "refused",
        Reason::TimedOut => "timed_out",
        Reason::Aborted => "aborted",
        Reason::Unreachable => "unreachable",
    }
}

/// The statistics as they are now, as text or as a line of JSON.
pub(crate) fn report(exos: &Exos, service: &Service, as_json: bool) -> String {
    if as_json {
        line(&Statistics::of(exos, service))
    } else {
        text(exos, service)
    }
}

/// The connections that stand, as many as are listed.
fn standing(exos: &Exos, service: &Service) -> Vec<(Summary, Option<Info>)> {
    let info = |id: ConnectionId| exos.stack.tcp.connection(id).map(|c| c.info());
    let all = service.summaries(clock::now()).take(LISTED_MAX);
    all.map(|(id, summary)| (summary, info(id))).collect()
}

fn text(exos: &Exos, service: &Service) -> String {
    let totals = service.totals();
    let mut text = format!(
        "exos {}: {:.1} s; {} connections open, {} ended well, {} failed, {} in TIME-WAIT\n",
        service.kind().name(),
        totals.age(clock::now()).as_secs_f64(),
        service.connections(),
        totals.completed,
        totals.failed,
        exos.stack.tcp.time_wait_connections()
    );
    for (what, bytes) in [
        ("sent", totals.bytes_sent),
        ("received", totals.bytes_received),
    ] {
        let rate = megabits(totals.bits_per_sec(bytes));
        let _ = writeln!(text, "  {what:<8}  {bytes} bytes, {rate} Mbit/s");
    }
    text + &table(&standing(exos, service), &totals.ended)
        + &counters::lines(&all_counters(exos, service))
}

fn table(
    standing: &[(Summary, Option<Info>)],
    ended: &std::collections::VecDeque<Ended>,
) -> String {
    if standing.is_empty() && ended.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "  {:<40} {:>8} {:>10} {:>8} {:>10} {:>8} {:>8} {:>8}  {}\n",
        "peer", "s", "sent MB", "Mbit/s", "taken MB", "Mbit/s", "rtt ms", "cwnd KB", "state"
    );
    for e in ended {
        let _ = writeln!(
            text,
            "{} {:>8} {:>8}  {}",
            row(&e.summary),
            "",
            "",
            name(e.reason)
        );
    }
    for (summary, info) in standing {
        let (rtt, window, state) = info.as_ref().map_or_else(Default::default, |i| {
            let rtt = i.rtt.map(|rtt| format!("{:.2}", rtt.as_secs_f64() * 1e3));
            (
                rtt.unwrap_or_default(),
                (i.congestion_window / 1024).to_string(),
                i.state.to_string(),
            )
        });
        let _ = writeln!(text, "{} {rtt:>8} {window:>8}  {state}", row(summary));
    }
    text
}

fn row(s: &Summary) -> String {
    format!(
        "  {:<40} {:>8.2} {:>10.2} {:>8} {:>10.2} {:>8}",
        s.peer.to_string(),
        s.time.as_secs_f64(),
        s.bytes_sent as f64 / 1e6,
        megabits(s.bits_per_sec(s.bytes_sent)),
        s.bytes_received as f64 / 1e6,
        megabits(s.bits_per_sec(s.bytes_received))
    )
}

fn megabits(bits_per_sec: f64) -> String {
    format!("{:.1}", bits_per_sec / 1e6)
}

/// A line of JSON.
pub(crate) fn line(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("numbers and texts under names");
    format!("{value}\n")
}

/// What `exos echo`, `discard` and `chargen` report, on one line for each SIGUSR1 and at the end.
#[derive(Serialize, JsonSchema)]
pub struct Statistics {
    /// `"exos.tools.statistics/1"`.
    schema: &'static str,
    /// `"echo"`, `"discard"` or `"chargen"`.
    program: &'static str,
    /// Since the program began.
    seconds: f64,
    /// From the first connection's beginning until a byte last moved on any.
    active_seconds: f64,
    /// Connections that stand.
    connections: usize,
    /// Connections in TIME-WAIT.
    time_wait_connections: usize,
    /// Connections that ended as they should: both sides finished, or a limit was reached.
    completed: u64,
    /// Connections that did not, those that never stood included.
    failed: u64,
    /// Data that peers have acknowledged.
    bytes_sent: u64,
    /// Data that arrived in order and was taken.
    bytes_received: u64,
    /// The former, in `active_seconds`.
    sent_bits_per_sec: f64,
    /// The latter, in `active_seconds`.
    received_bits_per_sec: f64,
    /// Connections that stand, at most 32.
    open: Vec<ConnectionReport>,
    /// The latest connections that are over, at most 32, oldest first.
    ended: Vec<ConnectionReport>,
    /// Every counter by name; those with `service_` are the program's.
    counters: BTreeMap<String, u64>,
}

impl Statistics {
    fn of(exos: &Exos, service: &Service) -> Self {
        let totals = service.totals();
        let open = standing(exos, service);
        let ended = totals.ended.iter();
        Self {
            schema: "exos.tools.statistics/1",
            program: service.kind().name(),
            seconds: totals.age(clock::now()).as_secs_f64(),
            active_seconds: totals.active().as_secs_f64(),
            connections: service.connections(),
            time_wait_connections: exos.stack.tcp.time_wait_connections(),
            completed: totals.completed,
            failed: totals.failed,
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_received,
            sent_bits_per_sec: totals.bits_per_sec(totals.bytes_sent),
            received_bits_per_sec: totals.bits_per_sec(totals.bytes_received),
            open: open
                .iter()
                .map(|(summary, info)| ConnectionReport::of(summary, None, info.as_ref()))
                .collect(),
            ended: ended
                .map(|e| ConnectionReport::of(&e.summary, Some(e.reason), None))
                .collect(),
            counters: all_counters(exos, service).into_iter().collect(),
        }
    }
}

/// A connection.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Connection")]
struct ConnectionReport {
    /// Our address and port.
    local: String,
    /// The peer's.
    peer: String,
    /// From its beginning until a byte last moved.
    seconds: f64,
    /// Data that the peer has acknowledged.
    bytes_sent: u64,
    /// Data that arrived in order and was taken.
    bytes_received: u64,
    /// The former, in `seconds`.
    sent_bits_per_sec: f64,
    /// The latter, in `seconds`.
    received_bits_per_sec: f64,
    /// Why it is over: `"done"`, `"reset"`, `"refused"`, `"timed_out"`, `"aborted"` (by us), `"unreachable"`; `null` while it
    /// stands.
    end: Option<&'static str>,
    /// Its state while it stands, else `null`.
    tcp: Option<TcpState>,
}

impl ConnectionReport {
    fn of(s: &Summary, reason: Option<Reason>, info: Option<&Info>) -> Self {
        Self {
            local: s.local.to_string(),
            peer: s.peer.to_string(),
            seconds: s.time.as_secs_f64(),
            bytes_sent: s.bytes_sent,
            bytes_received: s.bytes_received,
            sent_bits_per_sec: s.bits_per_sec(s.bytes_sent),
            received_bits_per_sec: s.bits_per_sec(s.bytes_received),
            end: reason.map(name),
            tcp: info.map(TcpState::of),
        }
    }
}

/// A connection's state as TCP has it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TcpState {
    /// The RFC's name, for example `"ESTABLISHED"`.
    state: String,
    /// The name of the congestion control.
    congestion: &'static str,
    /// The most data in a segment that we send.
    mss_bytes: u16,
    /// The smoothed round trip; `null` before the first.
    rtt_us: Option<u64>,
    /// The least round trip measured; `null` before the first.
    rtt_least_us: Option<u64>,
    /// Our congestion window.
    congestion_window_bytes: u32,
    /// The slow-start threshold; `null` before the first loss.
    slow_start_threshold_bytes: Option<u32>,
    /// The window that the peer offers.
    send_window_bytes: u32,
    /// The window that we offer.
    receive_window_bytes: u32,
    /// Sent and not acknowledged.
    in_flight_bytes: u32,
    /// A loss is being repaired.
    in_recovery: bool,
    /// The rate at which data leaves; 0 where it is not paced.
    pacing_bytes_per_sec: u64,
    /// The last delivery rate measured; 0 before the first.
    delivery_bytes_per_sec: u64,
}

impl TcpState {
    pub(crate) fn of(info: &Info) -> Self {
        Self {
            state: info.state.to_string(),
            congestion: info.congestion,
            mss_bytes: info.mss,
            rtt_us: info.rtt.map(|rtt| rtt.as_micros() as u64),
            rtt_least_us: info.rtt_least.map(|rtt| rtt.as_micros() as u64),
            congestion_window_bytes: info.congestion_window,
            slow_start_threshold_bytes: Some(info.slow_start_threshold).filter(|t| *t != u32::MAX),
            send_window_bytes: info.send_window,
            receive_window_bytes: info.receive_window,
            in_flight_bytes: info.in_flight,
            in_recovery: info.in_recovery,
            pacing_bytes_per_sec: info.pacing_rate,
            delivery_bytes_per_sec: info.delivery_rate,
        }
    }
}

fn all_counters(exos: &Exos, service: &Service) -> Vec<(String, u64)> {
    let own = service.totals().counters();
    let own = own
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count));
    exos.counters().into_iter().chain(own).collect()
}
