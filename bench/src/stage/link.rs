//! The wire itself, for programs of the experiments that write frames of their own.

use super::args::{all, shown_as_on_the_command_line};
use super::cpu::unreadable;
use exos::attach::{Addresses, Interface, Prefixed};
use exos_filter::program::{Action, Rule};
use exos_filter::{Filter, Program, dispatcher};
use exos_host::bpf::{self, Map, Prog, XdpMode};
use exos_host::netlink::Netlink;
use exos_host::netns::NetNs;
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Lab, Side};
use exos_link::{Link, TransmitChoice, XdpConfig, XdpLink};
use exos_wire::Mac;
use exos_wire::ethernet::EthernetHeader;
use procfs::FromRead as _;
use procfs::net::InterfaceDeviceStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// The ethertype for local experiments (IEEE 802).
pub(crate) const EXPERIMENT: u16 = 0x88b5;

/// How long frames are exchanged before they are counted. Each end asks at its first frames whether the other takes live ones;
/// then those that choose learn by some thousand batches what each way costs.
pub(crate) const WARMUP: Duration = Duration::from_millis(300);

/// How an AF_XDP link sends.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LinkWay {
    /// AF_XDP's transmit ring
    Ring,
    /// Live frame mode, whatever the batch
    Live,
    /// The ring or live frame mode, whichever has cost less: a link's default
    Cheaper,
}

shown_as_on_the_command_line!(LinkWay);

impl LinkWay {
    /// Those that a lab's wire has.
    pub(crate) fn available(lab: &Lab) -> Result<Vec<Self>> {
        let has_live = live_refusal(lab)?.is_none();
        let mut all = all::<Self>();
        all.retain(|way| has_live || *way == Self::Ring);
        Ok(all)
    }

    fn transmit(self) -> TransmitChoice {
        match self {
            Self::Ring => TransmitChoice::Ring,
            Self::Live => TransmitChoice::Batches,
            Self::Cheaper => TransmitChoice::Cheaper,
        }
    }
}

/// Why no frames leave a lab's wire in live frame mode.
pub(crate) fn live_refusal(lab: &Lab) -> Result<Option<Error>> {
    lab.netns(Side::A).run(|| {
        let link = open_by(LinkWay::Live)?;
        let refusal = link.live_refusal();
        Ok(refusal.map(|error| Error::new(error.to_string())))
    })?
}

/// The best of some ways in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Best {
    pub per_sec: f64,
    pub way: LinkWay,
}

impl Best {
    /// Of what each of the wire's ways did.
    pub(crate) fn of(lab: &Lab, mut measure: impl FnMut(LinkWay) -> Result<f64>) -> Result<Self> {
        let mut best: Option<Self> = None;
        for way in LinkWay::available(lab)? {
            let per_sec = measure(way)?;
            if best.is_none_or(|best| best.per_sec < per_sec) {
                best = Some(Self { per_sec, way });
            }
        }
        Ok(best.expect("a link has a ring"))
    }

    /// The way that was the best in most runs; `None` without any.
    pub(crate) fn usual_way(runs: &[Self]) -> Option<LinkWay> {
        let times = |way: &LinkWay| runs.iter().filter(|run| run.way == *way).count();
        let ways = all::<LinkWay>().into_iter().rev();
        ways.filter(|way| times(way) > 0).max_by_key(times)
    }
}

/// The interface of the wire, for sending, and for what the filter claims.
pub(crate) fn open(filter: Filter) -> Result<Link> {
    Ok(Link::from(XdpLink::open(&config(filter))?))
}

/// The interface of the wire for frames of local experiments, which leave in this way.
pub(crate) fn open_by(way: LinkWay) -> Result<XdpLink> {
    XdpLink::open(&XdpConfig {
        transmit: way.transmit(),
        ..config(experiment())
    })
}

/// The interface of the wire for a stack with an address in the lab's network that the kernel does not have.
pub(crate) fn interface_with(ip: IpAddr) -> Result<Interface> {
    let own = Prefixed { ip, prefix: 24 };
    Ok(Interface::new(INTERFACE, Addresses::new([own])?))
}

/// A frame of local experiments of this length, to a link address.
pub(crate) fn frame_to(link: &Link, mac: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; len];
    let header = EthernetHeader {
        dst: Mac(mac),
        src: link.mac(),
        vlan: None,
        ethertype: EXPERIMENT,
    };
    header.emit(&mut frame);
    frame
}

fn config(filter: Filter) -> XdpConfig {
    let rules = vec![Rule {
        filter,
        action: Action::RedirectToSocket,
    }];
    XdpConfig::new(INTERFACE, rules)
}

fn parse(filter: &str) -> Result<Filter> {
    Filter::parse(filter).map_err(|e| Error::new(format!("{filter}: {e}")))
}

/// This many queues of it, for what a filter written as text claims. A frame arrives at the queue of the number that it left
/// by, as a peer needs whose cores have a queue each; of several queues it leaves by the ring, because a live frame arrives at
/// that of the core which sent it.
pub(crate) fn open_queues(filter: &str, count: u32) -> Result<Vec<Link>> {
    let transmit = match count {
        1 => TransmitChoice::default(),
        _ => TransmitChoice::Ring,
    };
    let config = XdpConfig {
        transmit,
        ..config(parse(filter)?)
    };
    let links = XdpLink::open_for_cores(&config, count)?;
    Ok(links.into_iter().map(Link::from).collect())
}

/// The interface of the wire, for sending, and for what a filter written as text claims.
pub(crate) fn open_text(filter: &str) -> Result<Link> {
    open(parse(filter)?)
}

/// Frames of local experiments.
pub(crate) fn experiment() -> Filter {
    let text = format!("ether proto {EXPERIMENT}");
    Filter::parse(&text).expect("a constant filter")
}

/// A program of XDP on an interface that passes everything, until it is dropped.
pub(crate) fn pass_all(interface: &str) -> Result<bpf::Link> {
    let slots = Map::prog_array(1)?;
    attach(
        interface,
        "pass_all",
        &dispatcher(slots.raw_fd(), Action::Pass),
    )
}

/// A program of XDP on an interface, until it is dropped.
pub(crate) fn attach(interface: &str, name: &str, code: &Program) -> Result<bpf::Link> {
    let program = Prog::load(&code.words(), name, false)?;
    let index = Netlink::new()?.link_by_name(interface)?.index;
    bpf::Link::attach_xdp(index, &program, XdpMode::Native)
}

/// Hands over what was queued, and gives memory of what was received back.
pub(crate) fn flush(link: &mut Link) -> Result<()> {
    link.flush()
        .map_err(|e| Error::io("the link does not work", e))
}

/// Frames that a link has sent in live frame mode.
pub(crate) fn live_frames(link: &Link) -> u64 {
    let counters = link.counters();
    let mut live = counters
        .iter()
        .filter(|(name, _)| *name == "tx_live_frames");
    live.next().map_or(0, |(_, count)| *count)
}

/// Packets that an interface of a namespace has received so far.
pub(crate) fn received(netns: &NetNs, interface: &str) -> Result<u64> {
    let read = || InterfaceDeviceStatus::from_file("/proc/thread-self/net/dev");
    let all = netns.run(read)?.map_err(unreadable("the interfaces"))?;
    let found = all.0.get(interface).map(|status| status.recv_packets);
    found.ok_or_else(|| Error::new(format!("there is no interface {interface}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_that_was_the_best_most_often() {
        use LinkWay::{Cheaper, Live, Ring};
        let usual = |ways: &[LinkWay]| {
            let best = |&way| Best { per_sec: 1.0, way };
            Best::usual_way(&ways.iter().map(best).collect::<Vec<_>>())
        };
        assert_eq!(usual(&[Live, Ring, Live]), Some(Live));
        assert_eq!(usual(&[Cheaper, Ring, Cheaper]), Some(Cheaper));
        assert_eq!(usual(&[Cheaper, Ring]), Some(Ring), "the first of several");
        assert_eq!(usual(&[]), None);
    }
}
