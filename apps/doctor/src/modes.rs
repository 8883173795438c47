//! How fast each way of attaching is on this machine.
//!
//! Packets go from a program to the other end of a veth and come back, in a network namespace that is made for it and
//! goes with it: over a queue that the program opened itself, over one that a daemon lent (`direct`), and over a virtual
//! interface of its own through the daemon's checks (`shared`). The daemon is the real one, for this measurement alone.
//! One thread drives both ends, so a figure is all the work that the machine has with a packet there and back, the
//! kernel's included: compare the ways with each other.

use crate::check::{AFTER_THE_OTHERS, About, Check, remedy};
use crate::trial;
use exos::via::{Mode, Via};
use exos::wire::Prefix;
use exos_host::caps::{self, CapabilitySet};
use exos_host::kernel;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_link::{BOUND_MAPPING_KERNEL, RX_BATCH, TxMeta, XdpLink};
use exos_xok::Protocol;
use exos_xok::message::PortWish;
use exos_xokd::daemon::{Config, Daemon};
use exos_xokd::gate::LiveFrames;
use exos_xokd::policy;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long each way is measured, in each of the two manners: some 50,000 packets.
const MEASURE_TIME: Duration = Duration::from_millis(150);

/// Packets under way at once, where many are: a batch of the rings.
const WINDOW: usize = RX_BATCH as usize;

/// What is under way for longer is lost: a busy machine delays a packet by some milliseconds.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// A measurement that loses everything so often is none.
const LOSSES_MAX: usize = 20;

/// The program's address and port, and those that it sends to. For documentation (RFC 5737), so nobody's.
const OURS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 7), 7777);
const THEIRS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 9), 8888);

/// What was measured of one way of attaching.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ModeMeasure {
    /// `own queue` (AF_XDP without a daemon), `direct` or `shared`.
    pub mode: &'static str,
    /// A lone packet there and back over a veth, both ends driven by one core, on average.
    pub round_trip_ns: u64,
    /// Packets there and back in a second, with 64 under way.
    pub round_trips_per_sec: u64,
}

/// What it takes to measure anything in a namespace of its own.
pub(crate) const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::SYS_ADMIN);

/// Measures all ways, and says what came of it.
pub(crate) fn examine() -> (Vec<Check>, Vec<ModeMeasure>) {
    let about = About(
        "modes",
        "what a packet costs in each mode is measured in a network of its own",
    );
    if !caps::has(NEEDED) {
        return (vec![about.warn("not measured", "run as root")], Vec::new());
    }
    let measured = NetNs::anonymous().and_then(|netns| netns.run(|| measure_all(&netns))?);
    match measured {
        Ok((all, live_frames)) => {
            let modes = all.iter().map(describe);
            (modes.chain([live_frames]).collect(), all)
        }
        Err(error) => {
            let what = format!("a measurement of the modes: {}", error.sentence());
            let check = about.warn(what, remedy(&error, AFTER_THE_OTHERS));
            (vec![check], Vec::new())
        }
    }
}

/// Whether a daemon can lend a queue of an interface itself on this kernel.
pub(crate) fn lends_queues() -> bool {
    let needed = BOUND_MAPPING_KERNEL;
    kernel::version().is_ok_and(|v| (v.major, v.minor) >= needed)
}

fn describe(measure: &ModeMeasure) -> Check {
    let meaning = match measure.mode {
        "own queue" => "AF_XDP as root, without a daemon",
        "direct" => "a queue that the daemon lends: nothing is checked on the way out",
        _ => "an interface of one's own: each packet is checked and shared fairly",
    };
    let what = format!(
        "{:<9} {:>5.1} us there and back, {:>4.0} thousand a second",
        measure.mode,
        measure.round_trip_ns as f64 / 1e3,
        measure.round_trips_per_sec as f64 / 1e3,
    );
    Check::ok("modes", what, meaning)
}

/// Whether a daemon lends programs live frames here, or why not.
fn describe_live_frames(why_not: Option<String>) -> Check {
    match why_not {
        None => Check::ok(
            "modes",
            "live frames behind a daemon",
            "programs send many frames by one cheap call, checked, and the kernel guards what it takes",
        ),
        Some(why) => Check::warn(
            "modes",
            format!("no live frames behind a daemon: {why}"),
            "programs send many frames by one call, checked, each in a socket buffer of its own",
            "nothing, or where no program would stop other interfaces from receiving: exos daemon --live-frames trusted",
        ),
    }
}

/// The modes, and whether a daemon lends live frames.
fn measure_all(netns: &NetNs) -> Result<(Vec<ModeMeasure>, Check)> {
    let netlink = wire(netns)?;
    let frame = frame(&netlink)?;
    let mut far = trial::open("far")?;
    let mut all = Vec::new();
    let own =
        trial::open("near").and_then(|mut near| measure("own queue", &mut near, &mut far, &frame));
    all.push(own?);
    let folder = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
    let folder = folder.map_err(|e| Error::io("cannot make a folder for a socket", e))?;
    let socket = folder.path().join("xokd.sock");
    let live_frames = with_daemon(netns, &socket, || {
        let modes = [("direct", Mode::Direct(None)), ("shared", Mode::Shared)];
        // What is missing there stands among the machine's checks.
        let lent = modes.into_iter().skip(usize::from(!lends_queues()));
        for (name, mode) in lent {
            let (mut via, mut near) = Via::open(&socket, None, mode, "doctor")?;
            let port = PortWish::Number(OURS.1);
            via.claim(Protocol::Udp, OURS.0.into(), port, None)?;
            all.push(measure(name, &mut near, &mut far, &frame)?);
        }
        Ok(())
    })?;
    Ok((all, describe_live_frames(live_frames)))
}

/// What the name of the folder of our daemon's socket begins with.
fn folder_prefix() -> String {
    format!("exos-doctor-{}-", std::process::id())
}

/// A pair of interfaces on which nobody speaks but us.
pub(crate) fn wire(netns: &NetNs) -> Result<Netlink> {
    // Without IPv6 in the kernel there is nothing to turn off.
    let _ = netns.set_sysctl("net/ipv6/conf/all/disable_ipv6", "1");
    let _ = netns.set_sysctl("net/ipv6/conf/default/disable_ipv6", "1");
    let netlink = netns.netlink()?;
    netlink.create_veth("near", "far")?;
    for name in ["near", "far"] {
        netlink.set_up(netlink.link_by_name(name)?.index, true)?;
    }
    Ok(netlink)
}

/// Runs a daemon on `near` while the work is done, and has it take everything down; why it lends no live frames, if it does not.
fn with_daemon(
    netns: &NetNs,
    socket: &Path,
    work: impl FnOnce() -> Result<()>,
) -> Result<Option<String>> {
    let (waker, wake) = UnixStream::pair().map_err(|e| Error::io("cannot make a socket", e))?;
    let done = AtomicBool::new(false);
    let (ready, started) = mpsc::channel();
    std::thread::scope(|scope| {
        let (done, path) = (&done, socket.to_owned());
        let daemon = scope.spawn(move || {
            netns.enter()?;
            let started = Daemon::start(config(path));
            let (result, daemon) = match started {
                Ok(daemon) => {
                    let gates = daemon.interfaces().iter().map(|interface| &interface.gate);
                    let mut reasons = gates.filter_map(|gate| gate.lends_no_live_frames());
                    let why = reasons.next().map(|error| error.sentence());
                    (Ok(why), Some(daemon))
                }
                Err(error) => (Err(error), None),
            };
            let _ = ready.send(result);
            let Some(mut daemon) = daemon else {
                return Ok(());
            };
            let mut ran = Ok(());
            while ran.is_ok() && !done.load(Ordering::Relaxed) {
                ran = daemon.turn(wake.as_fd());
            }
            ran.and(daemon.stop())
        });
        let started = started.recv().unwrap_or(Ok(None));
        let worked = started.and_then(|live_frames| work().map(|()| live_frames));
        done.store(true, Ordering::Relaxed);
        drop(waker); // Ends the daemon's wait.
        let ended = daemon.join().expect("the daemon does not panic");
        ended.and(worked)
    })
}

fn config(socket: PathBuf) -> Config {
    let interface = policy::Interface {
        name: "near".to_owned(),
        rate: None,
        addresses: vec![Prefix {
            addr: OURS.0.into(),
            len: 24,
        }],
        gateways: Vec::new(),
        share_address: false,
    };
    Config {
        socket,
        policy: policy::without_file(interface, 0),
        live_frames: LiveFrames::Guarded,
    }
}

/// A datagram of 64 bytes from `near` to `far`. Without a UDP checksum, so that it can be turned around as it is.
fn frame(netlink: &Netlink) -> Result<Vec<u8>> {
    const PAYLOAD: usize = 22;
    let mac = |name| Ok::<_, Error>(netlink.link_by_name(name)?.mac.unwrap_or_default());
    let mut ip = [0; 20];
    (ip[0], ip[8], ip[9]) = (0x45, 64, 17);
    ip[2..4].copy_from_slice(&(28 + PAYLOAD as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&OURS.0.octets());
    ip[16..20].copy_from_slice(&THEIRS.0.octets());
    let sum = exos_wire::checksum::Sum::of(&ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [OURS.1, THEIRS.1, 8 + PAYLOAD as u16, 0].map(u16::to_be_bytes);
    let head = [&mac("far")?[..], &mac("near")?, &[8, 0], &ip, &udp.concat()];
    Ok([head.concat(), vec![0xe0; PAYLOAD]].concat())
}

/// A datagram on its way back: addresses and ports change places, which leaves the header's sum as it is.
fn turned(frame: &[u8]) -> Vec<u8> {
    let mut back = frame.to_vec();
    for (one, other, len) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        back[one..one + len].copy_from_slice(&frame[other..other + len]);
        back[other..other + len].copy_from_slice(&frame[one..one + len]);
    }
    back
}

fn measure(
    mode: &'static str,
    near: &mut XdpLink,
    far: &mut XdpLink,
    frame: &[u8],
) -> Result<ModeMeasure> {
    let lone = exchange(near, far, frame, 1)?;
    let many = exchange(near, far, frame, WINDOW)?;
    Ok(ModeMeasure {
        mode,
        round_trip_ns: (1e9 / lone) as u64,
        round_trips_per_sec: many as u64,
    })
}

/// Round trips in a second, with this many packets under way.
fn exchange(near: &mut XdpLink, far: &mut XdpLink, frame: &[u8], window: usize) -> Result<f64> {
    let back = turned(frame);
    let (mut owed, mut losses, mut begin, mut count) = (window, 0, None, 0_u64);
    let mut last = Instant::now();
    loop {
        send(near, frame, owed)?;
        let mut there = 0;
        far.receive(|seen, _| there += usize::from(seen == frame));
        send(far, &back, there)?;
        owed = 0;
        near.receive(|seen, _| owed += usize::from(seen == back));
        let now = Instant::now();
        if owed > 0 {
            // The first ones find caches cold and interfaces that have just come up.
            let begin = begin.get_or_insert(now);
            count += owed as u64;
            last = now;
            if now - *begin >= MEASURE_TIME {
                return Ok(count as f64 / (now - *begin).as_secs_f64());
            }
        } else if now - last >= LOST_AFTER {
            (owed, last, losses) = (window, now, losses + 1);
            if losses > LOSSES_MAX {
                return Err(Error::new("packets do not come back")
                    .mend("report this kernel to us, with the output of `exos doctor --json`"));
            }
        }
    }
}

fn send(link: &mut XdpLink, frame: &[u8], count: usize) -> Result<()> {
    for _ in 0..count {
        link.transmit(frame, &[], TxMeta::default());
    }
    link.flush()
        .map_err(|e| Error::io("cannot send over AF_XDP", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_turned_twice_is_itself() {
        let frame: Vec<u8> = (0..64).collect();
        let back = turned(&frame);
        assert_eq!(back[..12], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
        assert_eq!(turned(&back), frame);
    }

    /// Figures depend on the machine; that all ways carry packets and nothing is left does not.
    #[test]
    fn every_mode_is_measured_by_root() {
        let (checks, measures) = examine();
        let left = std::fs::read_dir(std::env::temp_dir()).expect("there is one");
        let names = left.flatten().map(|entry| entry.file_name());
        let mut ours = names.filter(|name| name.to_string_lossy().starts_with(&folder_prefix()));
        assert_eq!(ours.next(), None);
        if measures.is_empty() {
            assert!(checks[0].mend.is_some(), "{checks:?}");
            eprintln!("SKIPPED: measuring the modes needs root: {checks:?}");
            return;
        }
        let modes: Vec<_> = measures.iter().map(|m| m.mode).collect();
        let all = ["own queue", "direct", "shared"];
        let there = all.into_iter().filter(|m| *m != "direct" || lends_queues());
        assert_eq!(modes, there.collect::<Vec<_>>());
        for measure in measures {
            assert!(
                measure.round_trip_ns > 0 && measure.round_trips_per_sec > 0,
                "{measure:?}"
            );
        }
    }
}
