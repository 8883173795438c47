//! A trial of everything together: a packet from one AF_XDP link to another.
//!
//! It happens over a veth pair in a network namespace that is made for it and goes with it, so nothing of the
//! machine's own network is touched. What works here and not on a real interface is up to that one's driver.

use crate::check::{AFTER_THE_OTHERS, About, Check, remedy};
use exos_filter::{Action, Filter, Rule};
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_link::{Mode, TransmitChoice, TxMeta, XdpConfig, XdpLink};
use std::time::{Duration, Instant};

/// A packet crosses within microseconds of the interfaces having come up; a busy machine may need longer.
const CROSSING_TIMEOUT: Duration = Duration::from_secs(2);

/// The EtherType for local experiments (IEEE 802), so that nothing else's packets are taken for ours.
pub(crate) const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Tries it.
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

/// Sends a packet from one end of a new veth pair to the other; how XDP was attached.
fn cross(netns: &NetNs) -> Result<&'static str> {
    let netlink = netns.netlink()?;
    netlink.create_veth("left", "right")?;
    for name in ["left", "right"] {
        netlink.set_up(netlink.link_by_name(name)?.index, true)?;
    }
    let mut left = open("left")?;
    let mut right = open("right")?;
    let mode = match right.mode() {
        Mode::Native => "native XDP",
        Mode::Generic => "generic XDP",
    };
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&right.mac().0);
    frame[6..12].copy_from_slice(&left.mac().0);
    frame[12..14].copy_from_slice(&EXPERIMENTAL);
    frame[14..].fill(0xe0);
    if !receives(&mut left, &mut right, &frame)? {
        return Err(Error::new("the packet did not arrive")
            .mend("report this kernel to us, with the output of `exos doctor --json`"));
    }
    Ok(mode)
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

/// True once the frame that `from` sends has come to `to`. It is sent again and again, since a veth that has
/// just got its XDP program loses some.
fn receives(from: &mut XdpLink, to: &mut XdpLink, frame: &[u8]) -> Result<bool> {
    let end = Instant::now() + CROSSING_TIMEOUT;
    let mut arrived = false;
    while !arrived && Instant::now() < end {
        if from.room() > 0 {
            from.transmit(frame, &[], TxMeta::default());
        }
        from.flush()
            .map_err(|e| Error::io("cannot send over AF_XDP", e))?;
        std::thread::sleep(Duration::from_millis(1));
        to.receive(|seen, _| arrived |= seen == frame);
    }
    Ok(arrived)
}
