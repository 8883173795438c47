//! Who gets how much of the link, and how long others wait: programs of equal weight, one of them hostile.
//!
//! A hostile sender sends full frames as fast as its core goes, on the ring or as super-packets. Its victim, on the
//! other core, offers somewhat more than its share, so that it could have all of it. Shares are what the gate let
//! through (its counters), of the link's rate; senders' frames are dropped at the other side. A flood from outside brings
//! twice what the link has.

use super::daemon::{CAP, CAPPED_UID, HEAVY_UID, counter};
use super::figure::{Figures, Goal};
use super::ping::Pinged;
use super::session::{Experiment, OURS, PEER, SINK_PORT, Session};
use crate::stage::Started;
use crate::stage::daemon::Daemon;
use exos_host::Result;
use exos_lab::Side;

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

pub(super) const EXPERIMENTS: [Experiment; 10] = [
    Experiment {
        name: "fairness/send/ring",
        run: |s, f| beside_hostile(s, f, "fairness/send/ring", &["--way", "ring"]),
    },
    Experiment {
        name: "fairness/send/packet",
        run: |s, f| beside_hostile(s, f, "fairness/send/packet", &["--way", "packet"]),
    },
    Experiment {
        name: "fairness/send/tcp",
        run: transfer,
    },
    Experiment {
        name: "fairness/send/idle",
        run: beside_idle,
    },
    Experiment {
        name: "fairness/send/capped",
        run: capped,
    },
    Experiment {
        name: "fairness/send/weights",
        run: weights,
    },
    Experiment {
        name: "fairness/send/many",
        run: many,
    },
    Experiment {
        name: "fairness/receive",
        run: receive,
    },
    Experiment {
        name: "fairness/latency/send",
        run: latency_beside_sender,
    },
    Experiment {
        name: "fairness/latency/receive",
        run: latency_beside_flood,
    },
];

/// A program that sends as fast as it goes.
fn flood(
    session: &Session<'_>,
    daemon: &Daemon<'_>,
    core: usize,
    port: u16,
    more: &[&str],
) -> Result<Started> {
    flood_of(session.args.uid, session, daemon, core, port, more)
}

fn flood_of(
    uid: u32,
    session: &Session<'_>,
    daemon: &Daemon<'_>,
    core: usize,
    port: u16,
    more: &[&str],
) -> Result<Started> {
    let (from, to) = (format!("{OURS}:{port}"), format!("{PEER}:{SINK_PORT}"));
    let mac = session.mac(Side::B)?;
    let arguments = ["send", "--from", &from, "--to", &to, "--mac", &mac];
    session.part_of(uid, daemon, core, &[&arguments[..], more].concat())
}

/// A program that offers a victim's part of the link.
fn offer(session: &Session<'_>, daemon: &Daemon<'_>, core: usize) -> Result<Started> {
    let (from, to) = (
        format!("{OURS}:{VICTIM_PORT}"),
        format!("{PEER}:{SINK_PORT}"),
    );
    let (mac, rate) = (session.mac(Side::B)?, rate(session, OFFERED));
    let arguments = [
        "send", "--from", &from, "--to", &to, "--rate", &rate, "--mac", &mac,
    ];
    session.part(daemon, core, &arguments)
}

/// A part of the link's rate, or a multiple.
fn rate(session: &Session<'_>, part: f64) -> String {
    ((session.link_rate() * part) as u64).to_string()
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
    way: &[&str],
) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let victim = offer(session, &daemon, session.cores[0])?;
    let hostile = flood(session, &daemon, session.cores[1], HOSTILE_PORT, way)?;
    let shares = sent(session, &daemon, vec![victim, hostile])?;
    figures.add_goal(&format!("{name}/share"), "of link", HALF, shares[0]);
    figures.add(&format!("{name}/hostile"), "of link", shares[1]);
    Ok(())
}

/// A TCP connection of ours to Linux, beside a hostile sender.
fn transfer(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let to = format!("{PEER}:5001");
    let listen = [
        "bench",
        "tcp-peer",
        "receive",
        "--listen",
        &to,
        "--seconds",
        "600",
    ];
    let mut peer = session.lab.command(Side::B, session.program())?;
    let ready = session.ready_file();
    peer.args(listen).arg("--ready").arg(&ready);
    let mut peer = session.start("tcp-peer", peer, session.cores[0])?;
    session.await_true(&mut peer, || ready.exists())?;
    let socket = daemon.socket();
    let arguments = [
        "chargen",
        "--connect",
        &to,
        "--via",
        "xokd",
        "--xokd",
        &socket,
    ];
    let victim = session.as_user(session.cores[0], &arguments)?;
    let hostile = flood(session, &daemon, session.cores[1], HOSTILE_PORT, &[])?;
    session.settle()?;
    let shares = sent(session, &daemon, vec![victim, hostile])?;
    figures.add_goal("fairness/send/tcp/share", "of link", HALF, shares[0]);
    figures.add("fairness/send/tcp/hostile", "of link", shares[1]);
    peer.stop()
}

/// Two programs, one of which is silent: the other has the link.
fn beside_idle(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let from = format!("{OURS}:{VICTIM_PORT}");
    let idle = session.part(&daemon, session.cores[0], &["idle", "--from", &from])?;
    let busy = flood(session, &daemon, session.cores[1], HOSTILE_PORT, &[])?;
    let shares = sent(session, &daemon, vec![idle, busy])?;
    let all = Goal::AtLeast(0.95);
    figures.add_goal("fairness/send/idle/share", "of link", all, shares[1]);
    Ok(())
}

/// A program that policy caps below the link, alone: it has what it is capped at.
fn capped(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let from = format!("{OURS}:{VICTIM_PORT}");
    let idle = session.part(&daemon, session.cores[0], &["idle", "--from", &from])?;
    let core = session.cores[1];
    let busy = flood_of(CAPPED_UID, session, &daemon, core, HOSTILE_PORT, &[])?;
    let shares = sent(session, &daemon, vec![idle, busy])?;
    let (of_cap, all) = (shares[1] / CAP, Goal::AtLeast(0.95));
    figures.add_goal("fairness/send/capped/share", "of cap", all, of_cap);
    Ok(())
}

/// Two programs at full blast with weights of 3 and 1.
fn weights(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    let [first, second] = [session.cores[0], session.cores[1]];
    let heavy = flood_of(HEAVY_UID, session, &daemon, first, VICTIM_PORT, &[])?;
    let light = flood(session, &daemon, second, HOSTILE_PORT, &[])?;
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
        flood(session, &daemon, core, HOSTILE_PORT + number as u16, &[])
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
/// the queue of its own interface, and its neighbours lose packets anyone who is attacked.
fn flood_from_outside(session: &Session<'_>, victim: bool) -> Result<Started> {
    let (from, mac) = (format!("{PEER}:50000"), session.mac(Side::A)?);
    let hostile = format!("{OURS}:{HOSTILE_PORT}");
    let to = format!("{OURS}:{VICTIM_PORT}");
    let (flood, offered) = (rate(session, FLOOD), rate(session, OFFERED));
    let arguments = [
        "send", "--from", &from, "--mac", &mac, "--to", &hostile, "--rate", &flood,
    ];
    let also = ["--also-to", &to, "--also-rate", &offered];
    let also = if victim { &also[..] } else { &[] };
    session.on_side(Side::B, session.cores[1], &[&arguments[..], also].concat())
}

/// A flood from outside to one program, beside what another receives.
fn receive(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let daemon = session.daemon()?;
    let (victim, hostile) = (
        format!("{OURS}:{VICTIM_PORT}"),
        format!("{OURS}:{HOSTILE_PORT}"),
    );
    let core = session.cores[0];
    let victim = session.part(&daemon, core, &["receive", "--from", &victim])?;
    let attacked = session.part(&daemon, core, &["idle", "--from", &hostile])?;
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
    let (socket, port, core) = (daemon.socket(), ECHO_PORT.to_string(), session.cores[0]);
    let echo = ["echo", "--port", &port, "--via", "xokd", "--xokd", &socket];
    let mut echo = session.as_user(core, &echo)?;
    session.await_address(&mut echo)?;
    let (to, seconds) = (format!("{OURS}:{ECHO_PORT}"), session.args.seconds());
    let text = seconds.to_string();
    let ping = || -> Result<Pinged> {
        let arguments = ["ping", "--to", &to, "--seconds", &text];
        session.measured(session.on_side(Side::B, core, &arguments)?, seconds)
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
        figures.add(&format!("{name}/{what}/alone"), "us", alone);
        figures.add(&format!("{name}/{what}/beside"), "us", beside);
        figures.add_goal(&format!("{name}/{what}/ratio"), "", three, beside / alone);
    }
    hostile.stop()?;
    echo.stop()
}

fn latency_beside_sender(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let (_sink, daemon) = (session.sink()?, session.daemon()?);
    latency(session, figures, "fairness/latency/send", &daemon, || {
        flood(session, &daemon, session.cores[1], HOSTILE_PORT, &[])
    })
}

fn latency_beside_flood(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let daemon = session.daemon()?;
    let hostile = format!("{OURS}:{HOSTILE_PORT}");
    let attacked = session.part(&daemon, session.cores[1], &["idle", "--from", &hostile])?;
    latency(
        session,
        figures,
        "fairness/latency/receive",
        &daemon,
        || flood_from_outside(session, false),
    )?;
    attacked.stop()
}
