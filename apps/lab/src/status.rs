//! What is there of a lab, read from the kernel.

use crate::emulator::Statistics;
use crate::emulator::control::{Request, ask};
use crate::lab::find_sides;
use crate::offloads;
use crate::settings::{INTERFACE, Side, WireKind, check_name};
use crate::steering;
use crate::wiring::{are_tied, find_interface, find_middle};
use exos_host::Result;
use exos_host::netlink::LinkInfo;
use exos_host::netns::NetNs;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Whether a lab can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of it is there.
    Up,
    /// Something is missing; `exos lab up` repairs it.
    Broken,
    /// Nothing of it is there.
    Down,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Up => "up",
            State::Broken => "broken",
            State::Down => "down",
        })
    }
}

/// All labs of which anything is there, or the one that was asked for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Labs {
    /// The labs.
    pub labs: Vec<Status>,
}

/// A lab.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub state: State,
    /// The kind of wire; `null` when it is neither or there is none.
    pub wire: Option<WireKind>,
    /// What is missing or other than it should be, a phrase each; empty unless broken.
    pub problems: Vec<String>,
    /// The namespaces that are there, a before b.
    pub sides: Vec<SideStatus>,
    /// The emulator of its wire, and what it did; `null` when the sides are joined directly.
    pub emulation: Option<Statistics>,
}

/// One side of a lab.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SideStatus {
    /// Which.
    pub side: Side,
    /// Its namespace, as `ip netns` lists it.
    pub namespace: String,
    /// Its interface.
    pub interface: &'static str,
    /// True when the interface is up and has its other end.
    pub up: bool,
    /// The longest IP packet on the wire in bytes; `null` when there is no interface.
    pub mtu: Option<u32>,
    /// The interface's Ethernet address.
    pub mac: Option<String>,
    /// The interface's addresses with prefix lengths, without link-local ones.
    pub addresses: Vec<String>,
    /// The core on which its kernel processes what comes to it; `null`: on the sender's.
    pub receive_core: Option<usize>,
    /// The number of the XDP program on the interface.
    pub xdp_program: Option<u32>,
    /// The processes inside: number and name.
    pub processes: Vec<(u32, String)>,
    #[serde(skip)]
    kind: Option<WireKind>,
    #[serde(skip)]
    link: Option<LinkInfo>,
}

/// What is there of the lab of this name.
pub fn status(name: &str) -> Result<Status> {
    check_name(name)?;
    let mut sides = Vec::new();
    for (side, netns) in Side::BOTH.into_iter().zip(find_sides(name)?) {
        if let Some(netns) = netns {
            sides.push(side_status(side, name, &netns)?);
        }
    }
    let mut problems = problems(&sides);
    let middle = find_middle(name)?;
    let mut emulation = None;
    match &middle {
        Some(middle) => emulation = middle_status(middle, &sides, &mut problems)?,
        None => direct_problems(&sides, &mut problems),
    }
    let state = match (sides.is_empty() && middle.is_none(), problems.is_empty()) {
        (true, _) => State::Down,
        (false, true) => State::Up,
        (false, false) => State::Broken,
    };
    let wire = match sides.as_slice() {
        [a, b] if a.kind == b.kind => a.kind,
        _ => None,
    };
    Ok(Status {
        name: name.to_owned(),
        state,
        wire,
        problems,
        sides,
        emulation,
    })
}

/// The names of all labs of which there is something, sorted.
pub fn list() -> Result<Vec<String>> {
    let namespaces = NetNs::list()?;
    let mut names: Vec<String> = namespaces
        .iter()
        .filter_map(|n| lab_of(n))
        .map(str::to_owned)
        .collect();
    names.dedup();
    Ok(names)
}

/// The lab to which a namespace belongs by its name.
fn lab_of(namespace: &str) -> Option<&str> {
    let name = namespace.strip_prefix("exos-")?;
    let name = name
        .strip_suffix("-a")
        .or_else(|| name.strip_suffix("-b"))
        .or_else(|| name.strip_suffix("-wire"))?;
    check_name(name).ok().map(|()| name)
}

fn side_status(side: Side, name: &str, netns: &NetNs) -> Result<SideStatus> {
    let netlink = netns.netlink()?;
    let link = netlink.find_link(INTERFACE)?;
    let addresses = match &link {
        Some(link) => netlink.addresses(link.index)?,
        None => Vec::new(),
    };
    let kind = match &link {
        Some(_) => offloads::kind(&netns.ethtool()?)?,
        None => None,
    };
    let is_link_local = |ip: &std::net::IpAddr| matches!(ip, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local());
    let addresses = addresses.iter().filter(|(ip, _)| !is_link_local(ip));
    Ok(SideStatus {
        side,
        namespace: side.namespace(name),
        interface: INTERFACE,
        up: link.as_ref().is_some_and(|l| l.running),
        mtu: link.as_ref().map(|l| l.mtu),
        mac: link.as_ref().and_then(|l| l.mac).map(mac_text),
        addresses: addresses
            .map(|(ip, prefix)| format!("{ip}/{prefix}"))
            .collect(),
        receive_core: match &link {
            Some(_) => steering::core(netns)?,
            None => None,
        },
        xdp_program: link.as_ref().and_then(|l| l.xdp).map(|xdp| xdp.prog_id),
        processes: netns.processes()?,
        kind,
        link,
    })
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// What keeps a lab from being used, a phrase each.
fn problems(sides: &[SideStatus]) -> Vec<String> {
    let mut problems = Vec::new();
    for side in Side::BOTH {
        match sides.iter().find(|s| s.side == side) {
            None => problems.push(format!("side {side} has no namespace")),
            Some(SideStatus { link: None, .. }) => {
                problems.push(format!("side {side} has no wire"))
            }
            Some(status) => side_problems(status, &mut problems),
        }
    }
    if let [
        SideStatus { link: Some(a), .. },
        SideStatus { link: Some(b), .. },
    ] = sides
        && a.mtu != b.mtu
    {
        problems.push(format!(
            "the MTU is {} on side a and {} on side b",
            a.mtu, b.mtu
        ));
    }
    problems
}

/// What is wrong with a wire that joins the sides directly.
fn direct_problems(sides: &[SideStatus], problems: &mut Vec<String>) {
    if let [
        SideStatus { link: Some(a), .. },
        SideStatus { link: Some(b), .. },
    ] = sides
        && !are_tied(a, b)
    {
        problems.push("the two ends do not belong to one wire".to_owned());
    }
}

/// The emulator's statistics, and what is wrong with an emulated wire.
fn middle_status(
    middle: &NetNs,
    sides: &[SideStatus],
    problems: &mut Vec<String>,
) -> Result<Option<Statistics>> {
    for status in sides {
        let side = status.side;
        let inner = find_interface(middle, side.middle_interface())?;
        let outer = status.link.as_ref();
        if !outer.zip(inner).is_some_and(|(o, i)| are_tied(o, &i)) {
            problems.push(format!("side {side} is not joined to the emulator"));
        }
    }
    match ask(middle, Request::Statistics) {
        Ok(Some(statistics)) => return Ok(Some(statistics)),
        Ok(None) => problems.push("the emulator is not running".to_owned()),
        Err(error) => problems.push(error.sentence()),
    }
    Ok(None)
}

fn side_problems(status: &SideStatus, problems: &mut Vec<String>) {
    let side = status.side;
    if !status.up {
        problems.push(format!("the wire is down on side {side}"));
    }
    for (ip, prefix) in side.addresses() {
        if !status.addresses.contains(&format!("{ip}/{prefix}")) {
            problems.push(format!("side {side} has no address {ip}"));
        }
    }
    if status.kind.is_none() {
        problems.push(format!(
            "the offloads of side {side} are neither those of a plain nor of an offload wire"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_are_known_by_their_namespaces() {
        for (namespace, lab) in [
            ("exos-lab-a", Some("lab")),
            ("exos-my-lab-b", Some("my-lab")),
            ("exos-my-lab-wire", Some("my-lab")),
            ("exos-a", None),
            ("exos--a", None),
            ("exos-lab", None),
            ("other-lab-a", None),
        ] {
            assert_eq!(lab_of(namespace), lab, "{namespace}");
        }
    }
}
