//! Whether each mode of the daemon's works on this machine.
//!
//! A packet goes from a program to the other end of a veth and one comes back, in a network namespace that is made for it and
//! goes with it: over a queue that a daemon lent (`direct`), and over a virtual interface of its own through the daemon's checks
//! (`shared`). The daemon is the real one, for this trial alone. `exos bench sharing` measures what the
//! modes cost.

use crate::check::{AFTER_THE_OTHERS, About, Check, remedy};
use crate::trial;
use exos::via::{Mode, Via};
use exos::wire::Prefix;
use exos_host::caps;
use exos_host::kernel;
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_link::BOUND_MAPPING_KERNEL;
use exos_xok::Protocol;
use exos_xok::message::PortWish;
use exos_xokd::daemon::{Config, Daemon};
use exos_xokd::gate::LiveFrames;
use exos_xokd::policy;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// The program's address and port, and those that it sends to. For documentation (RFC 5737), so nobody's.
const OURS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 7), 7777);
const THEIRS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 9), 8888);

/// Tries all modes, and says what came of it.
pub(crate) fn examine() -> Vec<Check> {
    let about = About(
        "modes",
        "packets of each mode go and come in a network of its own",
    );
    if !caps::has(trial::NEEDED) {
        return vec![about.warn("not tried", "run as root")];
    }
    let tried = NetNs::anonymous().and_then(|netns| netns.run(|| try_all(&netns))?);
    tried.unwrap_or_else(|error| {
        let what = format!("a trial of the modes: {}", error.sentence());
        vec![about.warn(what, remedy(&error, AFTER_THE_OTHERS))]
    })
}

/// Whether a daemon can lend a queue of an interface itself on this kernel.
pub(crate) fn lends_queues() -> bool {
    let needed = BOUND_MAPPING_KERNEL;
    kernel::version().is_ok_and(|v| (v.major, v.minor) >= needed)
}

fn describe(mode: &str) -> Check {
    let meaning = match mode {
        "direct" => "a queue that the daemon lends: nothing is checked on the way out",
        _ => "an interface of one's own: each packet is checked and shared fairly",
    };
    Check::ok(
        "modes",
        format!("packets go and come in mode {mode}"),
        meaning,
    )
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
fn try_all(netns: &NetNs) -> Result<Vec<Check>> {
    let netlink = trial::wire(netns)?;
    let frame = frame(&netlink)?;
    let back = turned(&frame);
    let mut far = trial::open("far")?;
    let folder = tempfile::Builder::new().prefix(&folder_prefix()).tempdir();
    let folder = folder.map_err(|e| Error::io("cannot make a folder for a socket", e))?;
    let socket = folder.path().join("xokd.sock");
    let mut checks = Vec::new();
    let live_frames = with_daemon(netns, &socket, || {
        let modes = [("direct", Mode::Direct(None)), ("shared", Mode::Shared)];
        // What is missing there stands among the machine's checks.
        let lent = modes.into_iter().skip(usize::from(!lends_queues()));
        for (name, mode) in lent {
            let (mut via, mut near) = Via::open(&socket, None, mode, "doctor")?;
            let port = PortWish::Number(OURS.1);
            via.claim(Protocol::Udp, OURS.0.into(), port, None)?;
            trial::carry(&mut near, &mut far, &frame)?;
            trial::carry(&mut far, &mut near, &back)?;
            checks.push(describe(name));
        }
        Ok(())
    })?;
    checks.push(describe_live_frames(live_frames));
    Ok(checks)
}

/// What the name of the folder of our daemon's socket begins with.
fn folder_prefix() -> String {
    format!("exos-doctor-{}-", std::process::id())
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

    #[test]
    fn every_mode_is_tried_by_root() {
        let checks = examine();
        let left = std::fs::read_dir(std::env::temp_dir()).expect("there is one");
        let names = left.flatten().map(|entry| entry.file_name());
        let mut ours = names.filter(|name| name.to_string_lossy().starts_with(&folder_prefix()));
        assert_eq!(ours.next(), None);
        if !caps::has(trial::NEEDED) {
            assert_eq!(checks[0].mend.as_deref(), Some("run as root"));
            eprintln!("SKIPPED: trying the modes needs root: {checks:?}");
            return;
        }
        let modes = ["direct", "shared"];
        let there = modes.into_iter().skip(usize::from(!lends_queues()));
        let wanted: Vec<_> = there
            .map(|m| format!("packets go and come in mode {m}"))
            .collect();
        let (live_frames, tried) = checks.split_last().expect("something was tried");
        let tried: Vec<_> = tried.iter().map(|check| check.what.clone()).collect();
        assert_eq!(tried, wanted);
        assert!(
            live_frames.what.contains("live frames behind a daemon"),
            "{live_frames:?}"
        );
    }
}
