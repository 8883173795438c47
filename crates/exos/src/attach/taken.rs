//! Whether somebody on the link has an address that we are asked to answer for.
//!
//! Two hosts with one address tear connections to and fro between them, and both suffer; so a
//! program asks before it announces itself (RFC 5227 §2.1, RFC 4862 §5.4). It asks through the
//! host's neighbour table: the answers go to the host's own address, where they would go anyway,
//! and no filter of ours has to take packets from the host for it. What the host comes to know
//! thereby it is made to forget again.
//!
//! Silence proves little, as with every such check: a host that is asleep or cut off has its
//! address all the same.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use exos_host::error::{Error, ErrorKind};
use exos_host::netlink::{Neighbour, NeighbourState, Netlink};

use super::addresses::Prefixed;

/// How long an owner has to answer. The RFCs wait a second or more for each question; a host on the
/// same link that is awake answers within a few milliseconds.
const ANSWER_TIME: Duration = Duration::from_millis(300);

/// Between two looks at the table.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Refuse addresses that a host on the interface's link answers for.
pub(crate) fn refuse(interface: u32, addresses: &[Prefixed]) -> Result<(), Error> {
    let netlink = Netlink::new()?;
    let mut asked: Vec<IpAddr> = Vec::new();
    for address in addresses {
        match netlink.neighbour(interface, address.ip)? {
            // Set by hand: the person knows why, and it says nothing about who is there.
            Some(n) if n.state == NeighbourState::Permanent => continue,
            // What was true some time ago may have been us.
            Some(_) => netlink.delete_neighbour(interface, address.ip)?,
            None => {}
        }
        // A host without that family of addresses cannot ask.
        if netlink.probe_neighbour(interface, address.ip).is_ok() {
            asked.push(address.ip);
        }
    }
    let owner = first_answer(&netlink, interface, &asked);
    for ip in asked {
        // It may have gone by itself.
        let _ = netlink.delete_neighbour(interface, ip);
    }
    match owner? {
        None => Ok(()),
        Some((ip, mac)) => Err(Error::new(format!(
            "{ip} is the address of a host on the link, {mac}"
        ))
        .mend("choose an address that nobody has, or end the program that has it")
        .of_kind(ErrorKind::AddressInUse)),
    }
}

fn first_answer(
    netlink: &Netlink,
    interface: u32,
    asked: &[IpAddr],
) -> Result<Option<(IpAddr, exos_wire::Mac)>, Error> {
    let until = Instant::now() + ANSWER_TIME;
    while Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
        for &ip in asked {
            let found = netlink.neighbour(interface, ip)?;
            if let Some(Neighbour {
                mac: Some(mac),
                state,
                ..
            }) = found
                && is_an_answer(state)
            {
                return Ok(Some((ip, exos_wire::Mac(mac))));
            }
        }
    }
    Ok(None)
}

/// A state that somebody's answer led to.
fn is_an_answer(state: NeighbourState) -> bool {
    use NeighbourState::{Delay, Probe, Reachable, Stale};
    matches!(state, Reachable | Stale | Delay | Probe)
}
