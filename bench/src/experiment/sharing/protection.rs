//! Where the time of a protected packet goes.
//!
//! The parts: a sender with nothing but its core to limit it, on the device and through the daemon, and the same for
//! what arrives. Everything a packet costs until it is at the other side is done on the sender's core (soft interrupts of
//! a veth run there), so its time is that core's by the number of packets. The gate's programs are timed by the kernel
//! itself (`BPF_PROG_TEST_RUN`); what is left is the second veth and the redirection to it.

use super::demultiplexing::Gate;
use super::program::{FlowSettings, Hold, Own, Receive, Send};
use super::session::{Experiment, OURS, PEER, Session};
use crate::experiment::figure::Figures;
use crate::stage::daemon::Daemon;
use crate::stage::helper::Helping;
use exos_host::Result;
use exos_lab::Side;
use std::net::SocketAddrV4;

/// Bytes of the frames whose time is taken: small ones, so that it is not copying that is timed.
const FRAME_LEN: usize = 64;

const PORT: u16 = 9000;

pub(super) fn experiments() -> Vec<Experiment> {
    vec![Experiment::new("protection/packet", packet)]
}

fn packet(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let device = [send(session, None)?, receive(session, None)?];
    let daemon = session.daemon_of(None)?;
    let through = [
        send(session, Some(&daemon))?,
        receive(session, Some(&daemon))?,
    ];
    let hold = Hold::one(Own::of(Some(&daemon), OURS, PORT));
    let holder = session.as_user(session.cores[0], &hold)?;
    let gate = Gate::of(session, &daemon)?;
    let program = [
        gate.outgoing_ns(&holder.started, PORT)?,
        gate.incoming_ns(PORT)?,
    ];
    holder.stop()?;
    for (way, name) in ["send", "receive"].into_iter().enumerate() {
        let name = format!("protection/packet/{name}");
        let rest = through[way] - device[way] - program[way];
        figures.add(format!("{name}/device"), "ns", device[way]);
        figures.add(format!("{name}/daemon"), "ns", through[way]);
        figures.add(format!("{name}/program"), "ns", program[way]);
        figures.add(format!("{name}/veth"), "ns", rest);
    }
    Ok(())
}

/// Nanoseconds of the sender's core for each frame sent, by a part that the daemon lends or by the device.
fn send(session: &Session<'_>, daemon: Option<&Daemon<'_>>) -> Result<f64> {
    let _sink = session.sink()?;
    let mut send = session.sender(daemon, PORT, None)?;
    send.bytes = FRAME_LEN;
    let core = session.cores[0];
    let sender = match daemon {
        Some(_) => session.as_user(core, &send)?,
        None => session.on_side(Side::A, core, &send)?,
    };
    each(session, sender)
}

/// Nanoseconds for each frame that a program receives, on the core of the sender at the other side.
fn receive(session: &Session<'_>, daemon: Option<&Daemon<'_>>) -> Result<f64> {
    let receive = Receive(Own::of(daemon, OURS, PORT));
    let receiver = match daemon {
        Some(_) => session.as_user(session.cores[0], &receive)?,
        None => session.on_side(Side::A, session.cores[0], &receive)?,
    };
    let flow = FlowSettings::of(SocketAddrV4::new(OURS, PORT), None);
    let mut send = session.sender_to(Side::A, Own::of(None, PEER, 50_000), vec![flow])?;
    send.bytes = FRAME_LEN;
    let ns = each(session, session.on_side(Side::B, session.cores[1], &send)?)?;
    receiver.stop()?;
    Ok(ns)
}

/// Nanoseconds for each frame of a sender while one measurement lasts.
fn each(session: &Session<'_>, sender: Helping<Send>) -> Result<f64> {
    session.wait()?;
    let sent = sender.stop_measured()?;
    Ok(sent.cpu_ns as f64 / sent.frames.max(1) as f64)
}
