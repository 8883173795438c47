//! Trials of everything together: a packet from one AF_XDP link to another, and frames in live frame mode.
//!
//! They happen over a veth pair in a network namespace that is made for it and goes with it, so nothing of the
//! machine's own network is touched. What works here and not on a real interface is up to that one's driver. `exos bench link`
//! measures how fast it is.

use crate::check::{AFTER_THE_OTHERS, About, Check, remedy};
use exos_filter::{Action, Filter, Rule};
use exos_host::caps::{self, CapabilitySet};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_link::{Mode, TransmitChoice, TxMeta, XdpConfig, XdpLink};
use std::time::{Duration, Instant};

/// A packet crosses within microseconds of the interfaces having come up; a busy machine may need longer.
const CROSSING_TIMEOUT: Duration = Duration::from_secs(2);

/// The EtherType for local experiments (IEEE 802), so that nothing else's packets are taken for ours.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Frames that are sent at once in live frame mode. A veth takes 256 and drops what is beyond.
const BATCH: usize = 64;

/// What it takes to try anything in a namespace of its own.
pub(crate) const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::SYS_ADMIN);

/// Tries whether a packet crosses.
pub(crate) fn examine() -> Check {
    let about = About(
        "trial",
        "filter, socket map, rings and packet memory work together",
    );
    match NetNs::anonymous().and_then(|netns| netns.run(|| cross(&netns))?) {
        Ok(mode) => about.ok(format!("a packet crosses between AF_XDP links ({mode})")),
        Err(e) => about.fail(
            format!("a trial of AF_XDP: {}", e.sentence()),
            remedy(&e, AFTER_THE_OTHERS),
        ),
    }
}

/// Tries whether frames leave in live frame mode.
pub(crate) fn live_frames() -> Check {
    let about = About(
        "live-frames",
        "a link sends many frames at once in one system call that batches, where that costs less",
    );
    if !caps::has(NEEDED) {
        return about.warn("live frame mode not tried", "run as root");
    }
    match NetNs::anonymous().and_then(|netns| netns.run(|| send_live(&netns))?) {
        Ok(()) => about.ok("frames leave in live frame mode"),
        Err(error) => Check::warn(
            about.0,
            format!("no live frame mode: {}", error.sentence()),
            "all frames leave one by one, by AF_XDP's ring",
            remedy(&error, AFTER_THE_OTHERS),
        ),
    }
}

/// A pair of interfaces, `near` and `far`, on which nobody speaks but us.
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

/// Sends a packet from one end of a new veth pair to the other; how XDP was attached.
fn cross(netns: &NetNs) -> Result<&'static str> {
    wire(netns)?;
    let (mut near, mut far) = (open("near")?, open("far")?);
    let mode = match far.mode() {
        Mode::Native => "native XDP",
        Mode::Generic => "generic XDP",
    };
    let frame = frame(&near, &far);
    carry(&mut near, &mut far, &frame)?;
    Ok(mode)
}

/// Sends many at once from one end of a new veth pair to the other.
fn send_live(netns: &NetNs) -> Result<()> {
    wire(netns)?;
    // The receiver first: a veth takes live frames only where its other end has an XDP program.
    let mut far = open("far")?;
    let mut near = open_by("near", TransmitChoice::Batches)?;
    if let Some(error) = near.live_refusal() {
        return Err(Error {
            mend: error.mend.clone(),
            ..Error::new(error.sentence())
        });
    }
    let frame = frame(&near, &far);
    carry(&mut near, &mut far, &frame)?;
    let [left, failed] = live_counters(&near);
    send(&mut near, &frame, BATCH)?;
    match live_counters(&near) == [left + BATCH as u64, failed] {
        true => Ok(()),
        false => Err(Error::new("frames of a veth leave by the ring all the same").mend(REPORT)),
    }
}

/// Frames that have left in live frame mode, and those that were refused.
fn live_counters(link: &XdpLink) -> [u64; 2] {
    let counters = link.counters();
    ["tx_live_frames", "tx_live_failed"].map(|name| {
        let counter = counters.iter().find(|(of, _)| *of == name);
        counter.map_or(0, |(_, count)| *count)
    })
}

const REPORT: &str = "report this kernel to us, with the output of `exos doctor --json`";

/// A short frame between these links.
fn frame(from: &XdpLink, to: &XdpLink) -> [u8; 60] {
    let mut frame = [0xe0; 60];
    frame[..6].copy_from_slice(&to.mac().0);
    frame[6..12].copy_from_slice(&from.mac().0);
    frame[12..14].copy_from_slice(&EXPERIMENTAL);
    frame
}

/// A link on an interface, to which all that arrives there is given.
pub(crate) fn open(interface: &str) -> Result<XdpLink> {
    open_by(interface, TransmitChoice::default())
}

/// Such a link whose frames leave in this way.
pub(crate) fn open_by(interface: &str, transmit: TransmitChoice) -> Result<XdpLink> {
    let filter = Filter::everything();
    let rules = vec![Rule {
        filter,
        action: Action::RedirectToSocket,
    }];
    XdpLink::open(&XdpConfig {
        transmit,
        ..XdpConfig::new(interface, rules)
    })
}

/// Has a frame that `from` sends come to `to`. It is sent again and again, since a veth that has just got its XDP program
/// loses some.
pub(crate) fn carry(from: &mut XdpLink, to: &mut XdpLink, frame: &[u8]) -> Result<()> {
    let end = Instant::now() + CROSSING_TIMEOUT;
    let mut arrived = false;
    while !arrived {
        if Instant::now() >= end {
            return Err(Error::new("the packet did not arrive").mend(REPORT));
        }
        let room = from.room();
        send(from, frame, room.min(1))?;
        std::thread::sleep(Duration::from_millis(1));
        to.receive(|seen, _| arrived |= seen == frame);
    }
    Ok(())
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
    fn root_is_told_whether_frames_leave_live() {
        let check = live_frames();
        assert_eq!(check.id, "live-frames");
        if caps::has(NEEDED) {
            let works = check.what == "frames leave in live frame mode";
            assert!(
                works || check.what.starts_with("no live frame mode: "),
                "{check:?}"
            );
            assert_eq!(works, check.mend.is_none(), "{check:?}");
        } else {
            assert_eq!(check.mend.as_deref(), Some("run as root"));
        }
    }
}
