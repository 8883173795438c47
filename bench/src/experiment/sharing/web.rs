//! What protection costs a web server: the same server on the device as root, on the device's queue that the daemon lends, and
//! on a virtual interface of the daemon's, which sends in one of three ways.
//!
//! | who | |
//! |---|---|
//! | `device` | as root on the interface itself |
//! | `queue` | an ordinary user on the device's queue: what it sends is checked by nobody |
//! | `batches` | an ordinary user, many frames by one checked call: `exos daemon --live-frames never` |
//! | `trusted`, `guarded` | the same with live frames, for each user (`--live-frames trusted`) and where a security module guards their program (`guarded`) |
//!
//! All take turns in each run, and ratios are of one run. What left in which way is told by the server's own counters. Live frames
//! arrive only where an XDP program receives: at wrk's end, which has none, they are not sent, so its cells are without the last row.

use super::policy::DIRECT_UID;
use super::session::{DOCUMENT, Experiment, Session};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::request::Connection;
use crate::stage::web::{Lent, Measured, Server, Serving, WebLoad};
use exos_host::{Error, Result};
use exos_lab::WireKind;
use serde_json::Value;
use std::fmt;

/// How many connections a client keeps busy.
const CONNECTIONS: [u32; 2] = [64, 512];

/// The least part of the rate of the queue and, sending in batches, of the device.
const WANTED: Goal = Goal::AtLeast(0.85);

/// The least part of the device's rate with live frames.
const WANTED_LIVE: Goal = Goal::AtLeast(1.0);

/// Who loads the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::Display)]
#[strum(serialize_all = "lowercase")]
enum Client {
    /// `exos load`, on packets.
    Exos,
    Wrk,
}

/// What is measured together.
#[derive(Clone, Copy, Debug)]
struct Cell {
    connection: Connection,
    client: Client,
    connections: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connection,
            client,
            connections,
        } = self;
        write!(f, "protection/{connection}/{client}/{connections}")
    }
}

/// What the server's link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum ServerLink {
    Device,
    Queue,
    Batches,
    Trusted,
    Guarded,
}

impl ServerLink {
    /// Those that differ for a client.
    const fn of(client: Client) -> &'static [Self] {
        match client {
            Client::Exos => &[
                Self::Device,
                Self::Queue,
                Self::Batches,
                Self::Trusted,
                Self::Guarded,
            ],
            Client::Wrk => &[Self::Device, Self::Queue, Self::Batches],
        }
    }

    /// Whom the daemon lends live frames; `None` without a daemon.
    fn live_frames(self) -> Option<&'static str> {
        match self {
            Self::Device => None,
            Self::Queue | Self::Batches => Some("never"),
            Self::Trusted | Self::Guarded => Some(self.into()),
        }
    }

    const fn has_live_frames(self) -> bool {
        matches!(self, Self::Trusted | Self::Guarded)
    }
}

/// Each kind of connection, client and number of connections; quickly, the least number only.
pub(super) fn experiments(quick: bool) -> Vec<Experiment> {
    let numbers = &CONNECTIONS[..if quick { 1 } else { 2 }];
    let mut cells = Vec::new();
    for connection in [Connection::Persistent, Connection::New] {
        for client in [Client::Exos, Client::Wrk] {
            cells.extend(numbers.iter().map(|&connections| Cell {
                connection,
                client,
                connections,
            }));
        }
    }
    let experiment =
        |cell: Cell| Experiment::new(cell.to_string(), move |s, f| measure(s, f, cell));
    cells.into_iter().map(experiment).collect()
}

fn measure(session: &Session<'_>, figures: &mut Figures, cell: Cell) -> Result<()> {
    let mut rates: Vec<(ServerLink, f64)> = Vec::new();
    for &link in ServerLink::of(cell.client) {
        let Some(seen) = load_by(session, cell, link)? else {
            continue;
        };
        let name = format!("{cell}/{link}");
        seen.note(figures, &name, link);
        let by = |other: ServerLink| {
            let rate = rates.iter().find(|(of, _)| *of == other);
            rate.map_or(0.0, |(_, rate)| seen.per_sec / rate)
        };
        let goal = match link.has_live_frames() {
            true => WANTED_LIVE,
            false => WANTED,
        };
        if link != ServerLink::Device {
            figures.add_goal(
                format!("{name}/of-device"),
                "",
                goal,
                by(ServerLink::Device),
            );
        }
        if link == ServerLink::Batches {
            figures.add_goal(
                format!("{name}/of-queue"),
                "",
                WANTED,
                by(ServerLink::Queue),
            );
        }
        if link.has_live_frames() {
            figures.add(format!("{name}/of-batches"), "", by(ServerLink::Batches));
        }
        rates.push((link, seen.per_sec));
    }
    Ok(())
}

/// What a server did on such a link; `None`, with a note, where the daemon says that it lends no live frames.
fn load_by(session: &Session<'_>, cell: Cell, link: ServerLink) -> Result<Option<Seen>> {
    let Some(live_frames) = link.live_frames() else {
        let serving = session.serve(&session.lab, Server::Exos, DOCUMENT)?;
        return load(session, cell, serving).map(Some);
    };
    let daemon = session.daemon_lending(live_frames)?;
    if let (true, Some(why)) = (link.has_live_frames(), daemon.live_refusal()?) {
        session.note(format!("live frames, {link}, are left out: {why}"));
        return Ok(None);
    }
    let (mode, uid) = match link {
        ServerLink::Queue => ("direct", DIRECT_UID),
        _ => ("shared", session.args.uid),
    };
    let daemon = &daemon;
    let lent = Lent { daemon, mode, uid };
    let serving = session.serve_lent(&session.lab, lent, DOCUMENT)?;
    load(session, cell, serving).map(Some)
}

/// Loads a server, and ends it.
fn load(session: &Session<'_>, cell: Cell, serving: Serving<'_>) -> Result<Seen> {
    let (lab, server) = (&session.lab, serving.server);
    let load = WebLoad {
        connections: cell.connections,
        ..session.load_of(server, cell.connection, DOCUMENT)
    };
    let (per_sec, client_busy, errors) = match cell.client {
        Client::Wrk => {
            let read = |output: &str| Ok((Measured::read(output)?.requests, output.to_owned()));
            let (output, _) =
                session.load_by("wrk", || session.wrk(lab, &load), read, || Ok(()))?;
            let measured = Measured::of_answers(&output, server)?;
            (measured.per_sec(), None, measured.errors.total())
        }
        Client::Exos => {
            let (report, _) = session.load_by_exos(lab, &load, || Ok(()))?;
            if report.responses == 0 {
                return Err(Error::new(format!("{server} did not answer in {cell}")));
            }
            (report.per_sec(), Some(report.busy_share), report.errors())
        }
    };
    if errors > 0 {
        session.note(format!(
            "{errors} answers of a run of {cell} were wrong or did not come"
        ));
    }
    let told = session.end(WireKind::Plain, serving)?;
    Ok(Seen {
        per_sec,
        client_busy,
        sent: Sent::of(&told["counters"]),
    })
}

/// What came of one load.
struct Seen {
    per_sec: f64,
    /// The part of the time in which the client had something to do, where it knows.
    client_busy: Option<f64>,
    sent: Sent,
}

impl Seen {
    fn note(&self, figures: &mut Figures, name: &str, link: ServerLink) {
        figures.add(name, "req/s", self.per_sec);
        if let Some(busy) = self.client_busy {
            figures.add(format!("{name}/client"), "of its time", busy);
        }
        if link == ServerLink::Device || link.has_live_frames() {
            figures.add(format!("{name}/live"), "of sent", self.sent.live);
        }
        if link == ServerLink::Batches || link.has_live_frames() {
            figures.add(format!("{name}/checked"), "of sent", self.sent.checked);
            figures.add(format!("{name}/given-back"), "of sent", self.sent.returned);
        }
    }
}

/// How a server's frames left it, as parts of all: those that were given back, and what is left, went by the ring.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sent {
    /// As live frames, with those of them that were given back.
    live: f64,
    /// In batches through the daemon's program, with those of them that were given back.
    checked: f64,
    /// Of both, given back by the daemon's programs, and sent by the ring.
    returned: f64,
}

impl Sent {
    fn of(counters: &Value) -> Self {
        let count = |name: &str| counters[format!("link_tx_{name}")].as_f64().unwrap_or(0.0);
        let all = count("frames").max(1.0);
        let part = |name: &str| count(name) / all;
        Self {
            live: part("live_frames"),
            checked: part("checked_frames"),
            returned: part("checked_returned"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_frames_left() {
        let counters = serde_json::json!({
            "link_tx_frames": 1000, "link_tx_live_frames": 700, "link_tx_checked_frames": 200,
            "link_tx_checked_returned": 10,
        });
        let sent = Sent {
            live: 0.7,
            checked: 0.2,
            returned: 0.01,
        };
        assert_eq!(Sent::of(&counters), sent);
        let none = Sent {
            live: 0.0,
            checked: 0.0,
            returned: 0.0,
        };
        assert_eq!(Sent::of(&Value::Null), none);
    }

    /// No goal is set for what is not sent.
    #[test]
    fn live_frames_are_measured_where_they_arrive() {
        let have_live = |client| {
            ServerLink::of(client)
                .iter()
                .filter(|link| link.has_live_frames())
        };
        assert_eq!(have_live(Client::Exos).count(), 2);
        assert_eq!(have_live(Client::Wrk).count(), 0);
    }

    #[test]
    fn quick_sessions_have_half_of_the_cells() {
        assert_eq!(experiments(false).len(), 8);
        let names: Vec<String> = experiments(true).into_iter().map(|e| e.name).collect();
        let expected = [
            "protection/persistent/exos/64",
            "protection/persistent/wrk/64",
            "protection/new/exos/64",
            "protection/new/wrk/64",
        ];
        assert_eq!(names, expected);
    }
}
