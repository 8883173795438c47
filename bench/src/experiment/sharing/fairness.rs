//! Who gets how much of the link, and how long others wait: programs of equal weight, one of them hostile.
//!
//! A hostile sender sends full frames as fast as its core goes, on the ring or as super-packets. Its victim, on the
//! other core, offers somewhat more than its share, so that it could have all of it. Shares are what the gate let
//! through (its counters), of the link's rate; senders' frames are dropped at the other side. A flood from outside brings
//! twice what the link has.

use super::policy::{CAP, CAPPED_UID, HEAVY_UID};
use super::program::{FlowSettings, Hold, Own, Ping, Receive};
use super::session::{Experiment, OURS, PEER, Session, counter};
use crate::experiment::figure::{Figures, Goal};
use crate::experiment::tcp::{Listener, Role};
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use exos_host::Result;
use exos_lab::Side;
use std::net::SocketAddrV4;

/// The part of the link that a victim offers.
const OFFERED: f64 = 0.6;

/// What a flood from outside brings, of the link.
const FLOOD: f64 = 2.0;

/// What is asked of a share of one half.
const HALF: Goal = Goal::AtLeast(0.45);

/// Programs that send at once.
const MANY: usize = 8;

const ECHO_PORT: u16 = 7007;
const VICTIM_PORT: u16 = 9001;
const HOSTILE_PORT: u16 = 9000;

pub(super) fn experiments() -> Vec<Experiment> {
    vec![
        Experiment::new("fairness/send/ring", |s, f| {
            beside_hostile(s, f, "fairness/send/ring", false)
        }),
        Experiment::new("fairness/send/packet", |s, f| {
            beside_hostile(s, f, "fairness/send/packet", true)
        }),
        Experiment::new("fairness/send/tcp", transfer),
        Experiment::new("fairness/send/idle", beside_idle),
        Experiment::new("fairness/send/capped", capped),
        Experiment::new("fairness/send/weights", weights),
        Experiment::new("fairness/send/many", many),
        Experiment::new("fairness/receive", receive),
        Experiment::new("fairness/latency/send", latency_beside_sender),
        Experiment::new("fairness/latency/receive", latency_beside_flood),
    ]
}

/// A program that sends as fast as it goes.
fn flood(session: &Session<'_>, daemon: &Daemon<'_>, core: usize, port: u16) -> Result<Started> {
    flood_of(session.args.uid, session, daemon, core, port)
}

/// A program of some user that sends as fast as it goes.
fn flood_of(
    uid: u32,
    session: &Session<'_>,
    daemon: &Daemon<'_>,
    core: usize,
    port: u16,
) -> Result<Started> {
    let send = session.sender(Some(daemon), port, None)?;
    Ok(session.help_as(uid, core, &send)?.started)
}

/// A program that offers a victim's part of the link.
fn offer(session: &Session<'_>, daemon: &Daemon<'_>, core: usize) -> Result<Started> {
    let rate = OFFERED * session.link_rate();
    let send = session.sender(Some(daemon), VICTIM_PORT, Some(rate))?;
    Ok(session.as_user(core, &send)?.started)
}

/// A program that holds a port and does nothing.
fn idle(session: &Session<'_>, daemon: &Daemon<'_>, core: usize, port: u16) -> Result<Started> {
    let hold = Hold::one(Own::of(Some(daemon), OURS, port));
    Ok(session.as_user(core, &hold)?.started)
}

/// What the gate let through of each program while one measurement lasts, as parts of the link.
fn shares(
    session: &Session<'_>,
    daemon: &Daemon<'_>,
    programs: &[&Started],
    name: &str,
) -> Result<Vec<f64>> {
    session.settle()?;
    let before = daemon.status()?;
    session.wait()?;
    let after = daemon.status()?;
    let ns = after.time_ns.unwrap_or(0) - before.time_ns.unwrap_or(0);
    let link = session.link_rate() * ns as f64 / 1e9 / 8.0;
    let share = |program: &&Started| {
        let bytes = counter(&after, program, name)? - counter(&before, program, name)?;
        Ok(bytes as f64 / link)
    };
    programs.iter().map(share).collect()
}

/// What senders that are named get of the link while frames go to nobody; programs are ended.
fn sent(session: &Session<'_>, daemon: &Daemon<'_>, programs: Vec<Started>) -> Result<Vec<f64>> {
    let all: Vec<&Started> = programs.iter().collect();
    let shares = shares(session, daemon, &all, "tx_bytes")?;
    programs.into_iter().try_for_each(Started::stop)?;
    Ok(shares)
}

fn beside_hostile(
    session: &Session<'_>,
    figures: &mut Figures,
    name: &str,
    super_packets: bool,
) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let victim = offer(session, &daemon, session.cores[0])?;
    let mut send = session.sender(Some(&daemon), HOSTILE_PORT, None)?;
    send.super_packets = super_packets;
    let hostile = session.as_user(session.cores[1], &send)?.started;
    let shares = sent(session, &daemon, vec![victim, hostile])?;
    figures.add_goal(format!("{name}/share"), "of link", HALF, shares[0]);
    figures.add(format!("{name}/hostile"), "of link", shares[1]);
    Ok(())
}

/// A TCP connection of ours to Linux, beside a hostile sender.
fn transfer(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let to = SocketAddrV4::new(PEER, 5001);
    let listener = Listener {
        role: Role::Receive,
        address: to.into(),
        congestion: "cubic".to_owned(),
        connections: 1,
        warmup: 0.0,
        seconds: 600.0,
    };
    let peer = session.on_side(Side::B, session.cores[0], &listener)?;
    let victim = session.program(
        &daemon,
        session.cores[0],
        &format!("chargen --connect {to}"),
    )?;
    let hostile = flood(session, &daemon, session.cores[1], HOSTILE_PORT)?;
    session.settle()?;
    let shares = sent(session, &daemon, vec![victim, hostile])?;
    figures.add_goal("fairness/send/tcp/share", "of link", HALF, shares[0]);
    figures.add("fairness/send/tcp/hostile", "of link", shares[1]);
    peer.stop()
}

/// Two programs, one of which is silent: the other has the link.
fn beside_idle(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let idle = idle(session, &daemon, session.cores[0], VICTIM_PORT)?;
    let busy = flood(session, &daemon, session.cores[1], HOSTILE_PORT)?;
    let shares = sent(session, &daemon, vec![idle, busy])?;
    let all = Goal::AtLeast(0.95);
    figures.add_goal("fairness/send/idle/share", "of link", all, shares[1]);
    Ok(())
}

/// A program that policy caps below the link, alone: it has what it is capped at.
fn capped(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let idle = idle(session, &daemon, session.cores[0], VICTIM_PORT)?;
    let core = session.cores[1];
    let busy = flood_of(CAPPED_UID, session, &daemon, core, HOSTILE_PORT)?;
    let shares = sent(session, &daemon, vec![idle, busy])?;
    let (of_cap, all) = (shares[1] / CAP, Goal::AtLeast(0.95));
    figures.add_goal("fairness/send/capped/share", "of cap", all, of_cap);
    Ok(())
}

/// Two programs at full blast with weights of 3 and 1.
fn weights(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let [first, second] = [session.cores[0], session.cores[1]];
    let heavy = flood_of(HEAVY_UID, session, &daemon, first, VICTIM_PORT)?;
    let light = flood(session, &daemon, second, HOSTILE_PORT)?;
    let shares = sent(session, &daemon, vec![heavy, light])?;
    let heavy = Goal::AtLeast(0.75 * 0.9);
    figures.add_goal("fairness/send/weights/heavy", "of link", heavy, shares[0]);
    let light = Goal::AtLeast(0.25 * 0.9);
    figures.add_goal("fairness/send/weights/light", "of link", light, shares[1]);
    Ok(())
}

/// Eight programs at full blast, four on each core.
fn many(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let start = |number: usize| {
        let core = session.cores[number % 2];
        flood(session, &daemon, core, HOSTILE_PORT + number as u16)
    };
    let programs = (0..MANY).map(start).collect::<Result<Vec<_>>>()?;
    let shares = sent(session, &daemon, programs)?;
    let off = shares.iter().map(|share| (share * MANY as f64 - 1.0).abs());
    let off = off.fold(0.0, f64::max);
    let goal = Goal::AtMost(0.1);
    figures.add_goal("fairness/send/many/off", "of share", goal, off);
    figures.add("fairness/send/many/all", "of link", shares.iter().sum());
    Ok(())
}

/// A sender on side b: a flood to one program, and what it offers to the other. Not as much as it could: that overflows
/// the queue of its own interface, and its neighbours lose packets, whichever program is attacked.
fn flood_from_outside(session: &Session<'_>, victim: bool) -> Result<Started> {
    let flow = |port, part| {
        let rate = part * session.link_rate();
        FlowSettings::of(SocketAddrV4::new(OURS, port), Some(rate))
    };
    let mut flows = vec![flow(HOSTILE_PORT, FLOOD)];
    if victim {
        flows.insert(0, flow(VICTIM_PORT, OFFERED));
    }
    let send = session.sender_to(Side::A, Own::of(None, PEER, 50_000), flows)?;
    Ok(session.on_side(Side::B, session.cores[1], &send)?.started)
}

/// A flood from outside to one program, beside what another receives.
fn receive(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let daemon = session.daemon()?;
    let core = session.cores[0];
    let receive = Receive(Own::of(Some(&daemon), OURS, VICTIM_PORT));
    let victim = session.as_user(core, &receive)?.started;
    let attacked = idle(session, &daemon, core, HOSTILE_PORT)?;
    let flood = flood_from_outside(session, true)?;
    let shares = shares(session, &daemon, &[&victim, &attacked], "rx_bytes")?;
    figures.add_goal("fairness/receive/share", "of link", HALF, shares[0]);
    figures.add("fairness/receive/attacked", "of link", shares[1]);
    flood.stop()?;
    attacked.stop()?;
    victim.stop()
}

/// Round trips with a program of ours: alone, then beside something.
fn latency(
    session: &Session<'_>,
    figures: &mut Figures,
    name: &str,
    daemon: &Daemon<'_>,
    beside: impl FnOnce() -> Result<Started>,
) -> Result<()> {
    let core = session.cores[0];
    let mut echo = session.program(daemon, core, &format!("echo --port {ECHO_PORT}"))?;
    session.await_address(&mut echo)?;
    let seconds = session.args.seconds();
    let to = SocketAddrV4::new(OURS, ECHO_PORT).into();
    let ping = || {
        let ping = session.on_side(Side::B, core, &Ping { to, seconds })?;
        ping.measured(session, seconds)
    };
    let alone = ping()?;
    let hostile = beside()?;
    session.settle()?;
    let beside = ping()?;
    let three = Goal::AtMost(3.0);
    for (what, alone, beside) in [
        ("p50", alone.p50_us, beside.p50_us),
        ("p99", alone.p99_us, beside.p99_us),
    ] {
        figures.add(format!("{name}/{what}/alone"), "us", alone);
        figures.add(format!("{name}/{what}/beside"), "us", beside);
        figures.add_goal(format!("{name}/{what}/ratio"), "", three, beside / alone);
    }
    hostile.stop()?;
    echo.stop()
}

fn latency_beside_sender(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    latency(session, figures, "fairness/latency/send", &daemon, || {
        flood(session, &daemon, session.cores[1], HOSTILE_PORT)
    })
}

fn latency_beside_flood(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let daemon = session.daemon()?;
    let attacked = idle(session, &daemon, session.cores[1], HOSTILE_PORT)?;
    let name = "fairness/latency/receive";
    latency(session, figures, name, &daemon, || {
        flood_from_outside(session, false)
    })?;
    attacked.stop()
}
