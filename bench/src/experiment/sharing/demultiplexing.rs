//! Finding out whose a packet is, among few grants and many; and how soon a grant counts.
//!
//! One program holds the grants, claimed from the daemon one by one. The time of a packet is the kernel's own measure of
//! the gate's program on the daemon's tables (`BPF_PROG_TEST_RUN`), the least of some repetitions: what other programs of
//! the machine take from us is not the gate's. How soon a grant counts is seen by a program that claims ports while
//! another receives: from the request to the first packet by the grant. Whether anybody waits is seen by the other: each of
//! its packets carries when it was handed over.

use super::frames::{Frame, HEADERS_LEN};
use super::program::{Claim, FlowSettings, Hold, Own, Receive, Received};
use super::session::{Experiment, OURS, PEER, Session};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::daemon::Daemon;
use crate::stage::{Started, mac_of};
use exos_filter::gate::maps::SPECS;
use exos_filter::gate::{self, Maps};
use exos_host::bpf::{Map, Prog, SkbContext};
use exos_host::{Error, Result};
use exos_lab::Side;
use exos_program::status::Status;
use exos_wire::Mac;
use std::net::SocketAddrV4;
use std::path::PathBuf;

/// How many grants.
const COUNTS: [u32; 5] = [1, 10, 100, 1000, 10_000];

/// The longest time of a packet by the shortest.
const FLAT: Goal = Goal::AtMost(1.1);

/// How soon a grant must count.
const SOON: Goal = Goal::AtMost(1000.0);

/// The first port of many.
const PORT: u16 = 2000;

/// Packets of one timing, half a millisecond that other programs may leave us, and timings of which the least counts.
const REPEAT: u32 = 2000;
const TIMINGS: usize = 30;

/// Times that the programs are loaded, of which the least counts too: where they come to lie makes some percent.
const LOADS: usize = 5;

/// Claims whose effect is timed.
const CLAIMS: u32 = 200;

pub(super) fn experiments() -> Vec<Experiment> {
    vec![
        Experiment::new("demultiplexing/ports", |s, f| among(s, f, "ports")),
        Experiment::new("demultiplexing/connections", |s, f| {
            among(s, f, "connections")
        }),
        Experiment::new("demultiplexing/grant", grant),
    ]
}

/// The programs of a gate, on the tables of a daemon that runs.
pub(super) struct Gate<'s> {
    session: &'s Session<'s>,
    maps: Maps<Map>,
    status: Status,
    incoming: Prog,
    outgoing: Prog,
    macs: (Mac, Mac),
}

impl<'s> Gate<'s> {
    /// The gate of a daemon.
    pub fn of(session: &'s Session<'s>, daemon: &Daemon<'_>) -> Result<Self> {
        let status = daemon.status()?;
        let index = status.interfaces.first().map_or(0, |i| i.ifindex);
        let inode = session.lab.netns(Side::A).inode()?;
        let folder = PathBuf::from(format!("/sys/fs/bpf/exos/{inode}-{index}"));
        let maps = SPECS.try_map(|spec| Map::open_pinned(&folder.join(spec.name)))?;
        let fds = maps.map(Map::raw_fd);
        Ok(Self {
            session,
            status,
            incoming: Prog::load(&gate::incoming(&fds).words(), "bench_in", true)?,
            outgoing: Prog::load_classifier(&gate::outgoing(&fds, None).words(), "bench_out")?,
            macs: (
                mac_of(&session.lab, Side::A)?,
                mac_of(&session.lab, Side::B)?,
            ),
            maps,
        })
    }

    /// Nanoseconds of the program for what arrives, on a segment for a port of ours.
    pub fn incoming_ns(&self, port: u16) -> Result<f64> {
        let (ours, peer) = addresses(port);
        let frame = Frame::segment((self.macs.1, self.macs.0), peer, ours, FRAME_LEN)?;
        let run = |repeat| self.incoming.test_run_repeated(&frame.bytes, repeat);
        if run(1)?.verdict != XDP_REDIRECT {
            return Err(Error::new("the gate does not deliver what is timed"));
        }
        least(|| Ok(run(REPEAT)?.nanoseconds))
    }

    /// Nanoseconds of the program for what leaves, on a segment of a program's from its port.
    pub fn outgoing_ns(&self, program: &Started, port: u16) -> Result<f64> {
        let (ours, peer) = addresses(port);
        let frame = Frame::segment((self.macs.0, self.macs.1), ours, peer, FRAME_LEN)?;
        let context = SkbContext {
            ifindex: self.interface_of(program)?,
            ..SkbContext::default()
        };
        let program = &self.outgoing;
        let run = |repeat| program.test_run_skb(&frame.bytes, context, repeat);
        // The interface is one of side a's.
        self.session.lab.netns(Side::A).run(|| {
            if run(1)?.verdict != TC_REDIRECT {
                return Err(Error::new("the gate does not let through what is timed"));
            }
            least(|| Ok(run(REPEAT)?.nanoseconds))
        })?
    }

    /// The host's end of a program's pair.
    fn interface_of(&self, program: &Started) -> Result<u32> {
        let slots = self.status.interfaces.iter().flat_map(|i| &i.slots);
        let mut own = slots.filter(|slot| slot.pid == Some(program.running.pid()));
        let slot = own.next().map(|slot| u32::from(slot.slot).to_ne_bytes());
        for key in self.maps.by_ifindex.keys()? {
            if self.maps.by_ifindex.lookup(&key)?.as_deref() == slot.as_ref().map(|s| &s[..]) {
                let index = <[u8; 4]>::try_from(key);
                return index.map(u32::from_ne_bytes).map_err(|_| not_there());
            }
        }
        Err(not_there())
    }
}

/// What the programs return for a packet that goes on to an interface.
const XDP_REDIRECT: u32 = 4;
const TC_REDIRECT: u32 = 7;

/// Bytes of the frames that programs are timed on.
const FRAME_LEN: usize = HEADERS_LEN + 10;

fn not_there() -> Error {
    Error::new("the daemon has no interface for a program")
}

/// Ours with a port, and the peer's.
const fn addresses(port: u16) -> (SocketAddrV4, SocketAddrV4) {
    (
        SocketAddrV4::new(OURS, port),
        SocketAddrV4::new(PEER, 50_000),
    )
}

fn least(time: impl Fn() -> Result<u32>) -> Result<f64> {
    let times = (0..TIMINGS).map(|_| time()).collect::<Result<Vec<_>>>()?;
    Ok(f64::from(times.into_iter().min().unwrap_or(0)))
}

/// A packet for the first of this many grants, and one from it.
fn among(session: &Session<'_>, figures: &mut Figures, grants: &str) -> Result<()> {
    let (_, peer) = addresses(PORT);
    let mut times = [Vec::new(), Vec::new()];
    for count in COUNTS {
        let daemon = session.daemon_of(None)?;
        let hold = Hold {
            own: Own::of(Some(&daemon), OURS, PORT),
            count,
            connections_to: (grants == "connections").then_some(peer),
        };
        let holder = session.as_user(session.cores[1], &hold)?;
        let mut least = [f64::INFINITY; 2];
        for _ in 0..LOADS {
            let gate = Gate::of(session, &daemon)?;
            least[0] = least[0].min(gate.incoming_ns(PORT)?);
            least[1] = least[1].min(gate.outgoing_ns(&holder.started, PORT)?);
        }
        times[0].push(least[0]);
        times[1].push(least[1]);
        holder.stop()?;
    }
    for (times, way) in times.iter().zip(["in", "out"]) {
        let name = format!("demultiplexing/{grants}/{way}");
        for (count, time) in COUNTS.iter().zip(times) {
            figures.add(format!("{name}/{count}"), "ns", *time);
        }
        let most = times.iter().copied().fold(0.0, f64::max);
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        figures.add_goal(format!("{name}/ratio"), "", FLAT, most / least);
    }
    Ok(())
}

/// Claims beside a program that receives, and the same without.
fn grant(session: &Session<'_>, figures: &mut Figures) -> Result<()> {
    let daemon = session.daemon_of(None)?;
    let quiet = delays(session, &daemon, || session.wait())?;
    let mut claimed = None;
    let granting = delays(session, &daemon, || {
        let own = Own::of(Some(&daemon), OURS, PORT);
        let claim = Claim { own, count: CLAIMS };
        let program = session.as_user(session.cores[1], &claim)?;
        claimed = Some(program.measured(session, session.args.seconds())?);
        Ok(())
    })?;
    let claimed = claimed.expect("it was measured");
    let name = "demultiplexing/grant";
    figures.add(format!("{name}/answer/p50"), "us", claimed.answer_p50_us);
    let [half, most] = [claimed.effect_p50_us, claimed.effect_max_us];
    figures.add_goal(format!("{name}/effect/p50"), "us", SOON, half);
    figures.add_goal(format!("{name}/effect/worst"), "us", SOON, most);
    for (seen, when) in [(quiet, "quiet"), (granting, "granting")] {
        let name = format!("{name}/others/{when}");
        figures.add(format!("{name}/p99"), "us", seen.delay_p99_us);
        figures.add(format!("{name}/worst"), "us", seen.delay_max_us);
    }
    Ok(())
}

/// How long packets of another program are under way while something happens.
fn delays(
    session: &Session<'_>,
    daemon: &Daemon<'_>,
    meanwhile: impl FnOnce() -> Result<()>,
) -> Result<Received> {
    let port = 9001;
    let receive = Receive(Own::of(Some(daemon), OURS, port));
    let receiver = session.as_user(session.cores[0], &receive)?;
    // Some 5,000 frames a second of 64 bytes.
    let flow = FlowSettings::of(SocketAddrV4::new(OURS, port), Some(2_560_000.0));
    let mut send = session.sender_to(Side::A, Own::of(None, PEER, 50_000), vec![flow])?;
    send.bytes = 64;
    let sender = session.on_side(Side::B, session.cores[1], &send)?;
    meanwhile()?;
    sender.stop()?;
    receiver.stop_measured()
}
