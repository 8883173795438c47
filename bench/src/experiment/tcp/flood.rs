//! A SYN flood of a steady rate, against an echo service of ours and of Linux's.
//!
//! Three phases of equal length: quiet; the same frames at the same rate to an address that nobody has, which
//! costs sender and wire the same and the server nothing; the flood. The second tells what the flood takes from the
//! clients' own core, which they share with its sender, from what it takes from the server. The sender has a lower
//! priority than the clients.

use super::args::Group;
use super::clients::{Clients, Echo, Phase};
use super::session::{EXOS, Session};
use super::syns::Syns;
use crate::experiment::cells::measure_cells;
use crate::limits::CONNECT_TIMEOUT;
use crate::report::{Head, Shown as _, Tabular};
use crate::stage::{Started, mac_of};
use exos_host::Result;
use exos_lab::{INTERFACE, Lab, Side};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

/// An address that nobody has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 99);
/// Linux on side a.
const LINUX: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// Side b, through which the way back to the SYNs' addresses leads, as through a router.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);

/// The echo service's port.
const PORT: u16 = 7;

/// One server under the flood.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Flood {
    /// `flood/exos` or `flood/linux`, the server.
    pub name: String,
    /// SYNs a second to nobody, and to the server.
    pub syns_per_sec: [f64; 2],
    /// Without any flood.
    pub quiet: Phase,
    /// While the same frames went to an address that nobody has.
    pub elsewhere: Phase,
    /// While they went to the server.
    pub flooded: Phase,
    /// Our server's counters; `null` of Linux's.
    pub counters: Value,
}

impl Tabular for Flood {
    fn heads() -> Vec<Head> {
        let head = |text, is_text| Head { text, is_text };
        let first = [
            head("server", true),
            head("phase", true),
            head("kSYN/s", false),
        ];
        let phase = Phase::heads().into_iter();
        let all = first.into_iter().chain(phase);
        all.chain([head("x quiet", false)]).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let [to_nobody, to_server] = self.syns_per_sec;
        let row = |(name, phase, syns): (&str, &Phase, f64)| {
            let first = vec![self.name.clone(), name.to_owned(), (syns / 1000.0).shown(0)];
            let quiet = self.quiet.round_trips_per_sec.max(1.0);
            let by_quiet = (phase.round_trips_per_sec / quiet).shown(2);
            [first, phase.rows().concat(), vec![by_quiet]].concat()
        };
        let phases = [
            ("quiet", &self.quiet, 0.0),
            ("elsewhere", &self.elsewhere, to_nobody),
            ("flooded", &self.flooded, to_server),
        ];
        phases.map(row).into()
    }
}

pub(super) const NOTE: &str =
    "4,000 round trips a second on connections that stood before, 200 new connections a second.";

pub(super) const CELLS: [&str; 2] = ["flood/exos", "flood/linux"];

/// Measures the cells that were asked for, each once.
pub(super) fn measure(session: &Session<'_>) -> Result<Vec<Flood>> {
    let cells = session.args.wanted(Group::Flood, CELLS);
    measure_cells(session, &cells, 1, |name| {
        session.progress.set_message(*name);
        let flood = measure_one(session, name)?;
        session.progress.inc(session.runs.into());
        Ok(vec![flood])
    })
}

fn measure_one(session: &Session<'_>, name: &str) -> Result<Flood> {
    let lab = session.plain()?;
    let is_ours = name == CELLS[0];
    let server = if is_ours {
        let echo = format!("echo --port {PORT} --gateway {ROUTER}");
        let mut server = session.exos(&lab, Side::A, &echo)?;
        session.await_address(&mut server)?;
        server
    } else {
        serve_on_linux(session, &lab)?
    };
    let seconds = session.args.seconds();
    let phase = Duration::from_secs_f64(seconds);
    let to = SocketAddrV4::new(if is_ours { EXOS } else { LINUX }, PORT);
    let clients = Clients {
        to: to.into(),
        phases: 3,
        seconds,
    };
    let clients = session.help_on(&lab, Side::B, &clients)?;
    let begin = Instant::now();
    session.pause(phase)?;
    let syns_per_sec = [
        flood(
            session,
            &lab,
            SocketAddrV4::new(NOBODY, PORT),
            begin + 2 * phase,
        )?,
        flood(session, &lab, to, begin + 3 * phase)?,
    ];
    let wait = 3.0 * seconds + CONNECT_TIMEOUT.as_secs_f64();
    let mut phases = clients.measured(session, wait)?.into_iter();
    let mut next = || phases.next().unwrap_or_default();
    Ok(Flood {
        name: name.to_owned(),
        syns_per_sec,
        quiet: next(),
        elsewhere: next(),
        flooded: next(),
        counters: server.statistics()?["counters"].take(),
    })
}

fn serve_on_linux(session: &Session<'_>, lab: &Lab) -> Result<Started> {
    let netlink = lab.netns(Side::A).netlink()?;
    let wire = netlink.link_by_name(INTERFACE)?.index;
    netlink.add_route(Ipv4Addr::UNSPECIFIED.into(), 0, Some(ROUTER.into()), wire)?;
    let at = SocketAddrV4::new(LINUX, PORT).into();
    Ok(session.help_on(lab, Side::A, &Echo { at })?.started)
}

/// SYNs to there until then; how many a second.
fn flood(session: &Session<'_>, lab: &Lab, to: SocketAddrV4, end: Instant) -> Result<f64> {
    let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
    let syns = Syns {
        to,
        mac: mac_of(lab, Side::A)?.0,
        seconds: left.max(0.1),
        rate: session.args.flood_rate * 1000,
    };
    let flood = session.help_on(lab, Side::B, &syns)?;
    flood.measured(session, session.args.seconds())
}
