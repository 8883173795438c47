//! What protection costs: a web server on a virtual interface of the daemon's beside the same on the queue of the device
//! that the daemon lends, and on the device itself as root; and where a packet's time goes.
//!
//! The parts: a sender with nothing but its core to limit it, on the device and through the daemon, and the same for
//! what arrives. Everything a packet costs until it is at the other side is done on the sender's core (soft interrupts of
//! a veth run there), so its time is that core's by the number of packets. The gate's programs are timed by the kernel
//! itself (`BPF_PROG_TEST_RUN`); what is left is the second veth and the redirection to it.

use super::daemon;
use super::demultiplexing::Gate;
use super::figure::{Figures, Goal};
use super::program::Sent;
use super::session::{Experiment, OURS, PEER, SINK_PORT, Session};
use super::web::{Kind, Link, Server};
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use exos_host::{Error, Result};
use exos_lab::Side;

/// The least part of the device's requests a second that are to be had through the daemon.
const WANTED: Goal = Goal::AtLeast(0.85);

/// Bytes of the frames whose time is taken: small ones, so that it is not copying that is timed.
const FRAME_LEN: &str = "64";

const PORT: u16 = 9000;

pub(super) const EXPERIMENTS: [Experiment; 3] = [
    Experiment {
        name: "protection/persistent",
        run: |s, f| web(s, f, "protection/persistent", Kind::Persistent),
    },
    Experiment {
        name: "protection/new",
        run: |s, f| web(s, f, "protection/new", Kind::New),
    },
    Experiment {
        name: "protection/packet",
        run: packet,
    },
];

fn web(session: &Session<'_>, figures: &mut Figures, name: &str, kind: Kind) -> Result<()> {
    let load = |link: Link<'_>| {
        let server = Server::start(session, link)?;
        let rate = server.load(session, kind)?;
        server.stop()?;
        Ok::<_, Error>(rate)
    };
    let daemon = daemon::start(session, None)?;
    let through = load(Link::Daemon(&daemon))?;
    let queue = load(Link::Queue(&daemon))?;
    drop(daemon);
    let device = load(Link::Device)?;
    figures.add(&format!("{name}/daemon"), "req/s", through);
    figures.add(&format!("{name}/queue"), "req/s", queue);
    figures.add(&format!("{name}/device"), "req/s", device);
    figures.add_goal(&format!("{name}/of-queue"), "", WANTED, through / queue);
    figures.add_goal(&format!("{name}/of-device"), "", WANTED, through / device);
    Ok(())
}

fn packet(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let device = [send(session, None)?, receive(session, None)?];
    let daemon = daemon::start(session, None)?;
    let through = [
        send(session, Some(&daemon))?,
        receive(session, Some(&daemon))?,
    ];
    let holder = session.part(&daemon, session.cores[0], &["idle", "--from", &ours()])?;
    let gate = Gate::of(session, &daemon)?;
    let program = [gate.outgoing_ns(&holder, PORT)?, gate.incoming_ns(PORT)?];
    holder.stop()?;
    for (way, name) in ["send", "receive"].into_iter().enumerate() {
        let name = format!("protection/packet/{name}");
        let rest = through[way] - device[way] - program[way];
        figures.add(&format!("{name}/device"), "ns", device[way]);
        figures.add(&format!("{name}/daemon"), "ns", through[way]);
        figures.add(&format!("{name}/program"), "ns", program[way]);
        figures.add(&format!("{name}/veth"), "ns", rest);
    }
    Ok(())
}

fn ours() -> String {
    format!("{OURS}:{PORT}")
}

/// Nanoseconds of the sender's core for each frame sent, by a part that the daemon lends or by the device.
fn send(session: &Session<'_>, daemon: Option<&Daemon<'_>>) -> Result<f64> {
    let _sink = session.sink()?;
    let (from, to, mac) = (ours(), format!("{PEER}:{SINK_PORT}"), session.mac(Side::B)?);
    let arguments = [
        "send", "--from", &from, "--to", &to, "--mac", &mac, "--bytes", FRAME_LEN,
    ];
    let core = session.cores[0];
    let sender = match daemon {
        Some(daemon) => session.part(daemon, core, &arguments)?,
        None => session.on_side(Side::A, core, &arguments)?,
    };
    each(session, sender)
}

/// The same for each frame that a program receives, on the core of the sender at the other side.
fn receive(session: &Session<'_>, daemon: Option<&Daemon<'_>>) -> Result<f64> {
    let arguments = ["receive", "--from", &ours()];
    let receiver = match daemon {
        Some(daemon) => session.part(daemon, session.cores[0], &arguments)?,
        None => session.on_side(Side::A, session.cores[0], &arguments)?,
    };
    let (from, to, mac) = (format!("{PEER}:50000"), ours(), session.mac(Side::A)?);
    let arguments = [
        "send", "--from", &from, "--to", &to, "--mac", &mac, "--bytes", FRAME_LEN,
    ];
    let ns = each(
        session,
        session.on_side(Side::B, session.cores[1], &arguments)?,
    )?;
    receiver.stop()?;
    Ok(ns)
}

/// Nanoseconds for each frame of a sender while one measurement lasts.
fn each(session: &Session<'_>, sender: Started) -> Result<f64> {
    session.wait()?;
    let sent = sender.statistics()?;
    let sent: Sent = serde_json::from_value(sent)
        .map_err(|e| Error::new(format!("a sender did not say what it sent: {e}")))?;
    Ok(sent.cpu_seconds * 1e9 / sent.frames.max(1) as f64)
}
