//! A SYN flood of a steady rate, against an echo service of ours and of Linux's.
//!
//! Three phases of equal length: quiet; the same frames at the same rate to an address that nobody has, which
//! costs sender and wire the same and the server nothing; the flood. The second tells what the flood takes from the
//! clients' own core, which they share with its sender, from what it takes from the server. The sender has a lower
//! priority than the clients.

use super::load::Phase;
use super::options::Group;
use super::session::{EXOS, Session};
use crate::limits::CONNECT_TIMEOUT;
use crate::stage::mac_of;
use exos_host::Result;
use exos_lab::{Lab, Side};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Of an address that nobody has.
const NOBODY: &str = "10.10.0.99";

/// The echo service's port.
const PORT: u16 = 7;

/// One server under the flood.
#[derive(Clone, Debug, Serialize)]
pub struct FloodCase {
    /// Its name.
    pub name: String,
    /// SYNs a second to nobody, and to the server.
    pub syns_per_sec: [f64; 2],
    /// Without any flood.
    pub quiet: Phase,
    /// While the same frames went to nobody.
    pub elsewhere: Phase,
    /// While they went to the server.
    pub flooded: Phase,
    /// Our server's counters; of Linux's there are none.
    pub counters: serde_json::Value,
}

const SERVERS: [&str; 2] = ["flood/exos", "flood/linux"];

/// The names of the cells.
pub(super) fn names() -> Vec<String> {
    SERVERS.map(str::to_owned).to_vec()
}

/// Measures the cells that were asked for.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<FloodCase>> {
    let names = SERVERS.into_iter();
    let names: Vec<_> = names.filter(|n| session.wants(Group::Flood, n)).collect();
    let progress = session.progress(names.len());
    let mut cases = Vec::new();
    for name in names {
        progress.set_message(name);
        let case = measure_one(session, name)?;
        progress.suspend(|| case.rows().iter().for_each(|row| eprintln!("{row}")));
        cases.push(case);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(cases)
}

fn measure_one(session: &Session<'_>, name: &str) -> Result<FloodCase> {
    let lab = session.plain()?;
    let (server, address) = if name == SERVERS[0] {
        // The way back to the SYNs' addresses leads through side b, as through a router.
        let arguments = ["echo", "--port", "7", "--gateway", "10.10.0.2"];
        let mut server = session.exos(&lab, Side::A, &arguments)?;
        session.await_address(&mut server)?;
        (server, EXOS)
    } else {
        let netlink = lab.netns(Side::A).netlink()?;
        let wire = netlink.link_by_name(exos_lab::INTERFACE)?.index;
        let (all, router) = (
            Ipv4Addr::UNSPECIFIED.into(),
            Ipv4Addr::new(10, 10, 0, 2).into(),
        );
        netlink.add_route(all, 0, Some(router), wire)?;
        let listen = format!("10.10.0.1:{PORT}");
        let arguments = ["tcp-raw", "echo", "--seconds", "3600", "--to", &listen];
        (
            session.ready_helper(&lab, Side::A, &arguments)?,
            "10.10.0.1",
        )
    };
    let phase = Duration::from_secs_f64(session.args.seconds);
    let (to, seconds) = (
        format!("{address}:{PORT}"),
        session.args.seconds.to_string(),
    );
    let arguments = [
        "tcp-raw",
        "load",
        "--to",
        &to,
        "--phases",
        "3",
        "--seconds",
        &seconds,
    ];
    let load = session.ready_helper(&lab, Side::B, &arguments)?;
    let begin = Instant::now();
    sleep_until(begin + phase);
    let nobody = format!("{NOBODY}:{PORT}");
    let syns_per_sec = [
        flood(session, &lab, &nobody, begin + 2 * phase)?,
        flood(session, &lab, &to, begin + 3 * phase)?,
    ];
    let wait = 3.0 * session.args.seconds + CONNECT_TIMEOUT.as_secs_f64();
    let phases: [Phase; 3] = session.measured(load, wait)?;
    let counters = server.statistics()?["counters"].take();
    let [quiet, elsewhere, flooded] = phases;
    Ok(FloodCase {
        name: name.to_owned(),
        syns_per_sec,
        quiet,
        elsewhere,
        flooded,
        counters,
    })
}

/// SYNs to there until then; how many a second.
fn flood(session: &Session<'_>, lab: &Lab, to: &str, end: Instant) -> Result<f64> {
    let seconds = end.saturating_duration_since(Instant::now()).as_secs_f64();
    let seconds = seconds.max(0.1).to_string();
    let mac = mac_of(lab, Side::A)?.to_string();
    let rate = (session.args.flood_rate * 1000).to_string();
    let arguments = [
        "tcp-raw",
        "syns",
        "--to",
        to,
        "--mac",
        &mac,
        "--seconds",
        &seconds,
        "--rate",
        &rate,
    ];
    let flood = session.helper(lab, Side::B, &arguments)?;
    let sent: serde_json::Value = session.measured(flood, session.args.seconds)?;
    Ok(sent["frames_per_sec"].as_f64().unwrap_or_default())
}

fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

impl FloodCase {
    /// Lines for people.
    pub(super) fn rows(&self) -> [String; 3] {
        let row = |what: &str, phase: &Phase, syns: f64| {
            format!(
                "{:<40} {:>9.0} {:>9.0} {:>9.2} {:>9.2} {:>9.0} {:>9} {:>9.2}",
                format!("{} {what}", self.name),
                syns / 1000.0,
                phase.round_trips_per_sec,
                phase.round_trips_per_sec / self.quiet.round_trips_per_sec.max(1.0),
                phase.round_trip_p50_us / 1000.0,
                phase.new_connections_per_sec,
                phase.failed_connections,
                phase.new_connection_p50_us / 1000.0
            )
        };
        [
            row("quiet", &self.quiet, 0.0),
            row("elsewhere", &self.elsewhere, self.syns_per_sec[0]),
            row("flooded", &self.flooded, self.syns_per_sec[1]),
        ]
    }
}
