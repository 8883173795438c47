//! How packets that a handler has dealt with leave, by the interface that they came from or by another.
//!
//! | from | to | how | because |
//! |---|---|---|---|
//! | hardware, and guests' interfaces | itself | `XDP_TX` | the driver sends them |
//! | a veth, native | itself | a redirection | that arrives where the other end has GRO or an XDP program, `XDP_TX` only where it has a program |
//! | native | another whose driver takes frames | a redirection | its driver sends them; of a veth as above |
//! | hardware, generic | hardware | a redirection | they go on as the socket buffers that they are |
//! | virtual interfaces, generic | any | not at all | as socket buffers they ask for a checksum to be finished |

use exos_filter::handler::forward::WayOut;
use exos_host::netlink::{LinkInfo, Netdev, Netlink, XdpFeatures, XdpMode};

use super::XdpLink;
use super::checks::{BOND, VETH, leads_to_a_local_kernel};
use super::program::Mode;
use crate::Error;
use crate::meta::RxChecksum;

/// How packets that come by each of these links leave by each of them when a handler sends them on, whose checksums it has seen to:
/// a row for each that they come by. It may change with the other end of a veth. The kernel is asked once of each link.
///
/// # Errors
///
/// They would not arrive, or damaged; or an interface has gone.
pub fn ways_out(links: &[&XdpLink]) -> Result<Vec<Vec<WayOut>>, Error> {
    let names: Vec<_> = links.iter().map(|link| link.name()).collect();
    let end = |(link, said): (&&XdpLink, Said)| End {
        is_generic: link.mode == Mode::Generic,
        is_virtual: link.interface.rx_checksum == RxChecksum::MaybePartial,
        said,
    };
    let ends: Vec<_> = links.iter().zip(ask(&names)?).map(end).collect();
    ways_between(&ends)
}

/// Whether packets that a handler sends on between interfaces of these names would arrive, as far as it can be known without their
/// links.
///
/// # Errors
///
/// They would not, or there is no such interface.
pub fn check_ways_out(names: &[&str]) -> Result<(), Error> {
    let ends: Vec<_> = ask(names)?.into_iter().map(End::foretold).collect();
    ways_between(&ends).map(drop)
}

/// How packets that come by an interface leave by it when a handler answers them, as far as it can be known without a link there.
///
/// # Errors
///
/// They would not arrive, or there is no such interface.
pub fn way_back(name: &str) -> Result<WayOut, Error> {
    let ends: Vec<_> = ask(&[name])?.into_iter().map(End::foretold).collect();
    Ok(ways_between(&ends)?[0][0])
}

/// What the kernel says of an interface.
struct Said {
    link: LinkInfo,
    /// What its driver can do; nothing where the kernel does not say, or was not asked.
    features: Option<XdpFeatures>,
}

/// An interface that packets come by and leave by.
struct End {
    said: Said,
    /// Programs run on socket buffers there.
    is_generic: bool,
    /// It leads to a kernel that leaves checksums for others to finish.
    is_virtual: bool,
}

impl End {
    /// One that has no link of ours yet: how programs run is seen where one is attached, and foretold where none is.
    fn foretold(said: Said) -> Self {
        let Said { link, features } = &said;
        let is_generic = match link.xdp {
            Some(program) => program.mode == XdpMode::Generic,
            None if link.kind.as_deref() == Some(BOND) => true,
            None => features.is_some_and(|features| !features.is_native()),
        };
        Self {
            is_generic,
            is_virtual: leads_to_a_local_kernel(link),
            said,
        }
    }
}

/// Asks the kernel of interfaces. What drivers can do does not matter to one alone that is no veth.
fn ask(names: &[&str]) -> Result<Vec<Said>, Error> {
    let netlink = Netlink::new()?;
    let links = names.iter().map(|name| netlink.link_by_name(name));
    let links: Vec<LinkInfo> = links.collect::<Result<_, _>>()?;
    let mut netdev = match links.len() > 1 || links.iter().any(is_veth) {
        true => Netdev::open()?,
        false => None,
    };
    let mut features = |link: &LinkInfo| match &mut netdev {
        Some(netdev) => netdev.xdp_features(link.index),
        None => Ok(None),
    };
    let said = |link| {
        Ok(Said {
            features: features(&link)?,
            link,
        })
    };
    links.into_iter().map(said).collect()
}

fn is_veth(link: &LinkInfo) -> bool {
    link.kind.as_deref() == Some(VETH)
}

fn ways_between(ends: &[End]) -> Result<Vec<Vec<WayOut>>, Error> {
    let row = |from| ends.iter().map(|to| way_out(from, to)).collect();
    ends.iter().map(row).collect()
}

fn way_out(from: &End, to: &End) -> Result<WayOut, Error> {
    let (link, features) = (&to.said.link, to.said.features);
    let (name, index) = (&link.name, link.index);
    let from_name = &from.said.link.name;
    let is_one = from.said.link.index == index;
    if from.is_generic && from.is_virtual {
        return Err(Error::new(format!(
            "packets cannot be sent on in the kernel by {from_name}: its driver runs no XDP programs"
        ))
        .mend("name an interface of hardware, or a veth"));
    }
    if from.is_generic && !is_one {
        // There is nothing to ask of the driver: it is sent what the host itself would send.
        return match to.is_virtual {
            true => Err(Error::new(format!(
                "packets that come by {from_name} cannot be sent on by {name} in the kernel: the driver of the first runs no XDP programs, and the second is a virtual interface"
            ))
            .mend("name interfaces of hardware, or let packets be sent on in user space")),
            false => Ok(WayOut::Redirect(index)),
        };
    }
    match is_veth(link) {
        true => arrives(name, features)?,
        false if is_one => return Ok(WayOut::Transmit),
        false => takes(name, features)?,
    }
    Ok(WayOut::Redirect(index))
}

/// Whether the driver of an interface sends what is redirected to it from another. Nobody notices what it does not.
fn takes(name: &str, features: Option<XdpFeatures>) -> Result<(), Error> {
    match features {
        Some(features) if features.is_target() => Ok(()),
        Some(_) => Err(Error::new(format!(
            "packets that come by another interface cannot be sent on by {name} in the kernel: its driver takes none from there"
        ))
        .mend("give one --link, or let packets be sent on in user space")),
        None => Err(Error::new(format!(
            "packets that come by another interface may be lost at {name}: this kernel does not say whether its driver takes them"
        ))
        .mend("use Linux 6.3 or newer, or one --link, or let packets be sent on in user space")),
    }
}

/// Whether the other end of a veth takes what is redirected to it, by what the kernel says of this one: nothing before
/// Linux 6.3, and then nobody notices what is lost there.
fn arrives(name: &str, features: Option<XdpFeatures>) -> Result<(), Error> {
    match features {
        Some(features) if features.is_target() => Ok(()),
        Some(_) => Err(Error::new(format!(
            "packets that the kernel sends on by {name} would not arrive: the other end of this veth has neither GRO nor an XDP program"
        ))
        .mend("turn GRO on there: ethtool -K INTERFACE gro on")),
        None => Err(Error::new(format!(
            "packets that the kernel sends on by {name} may be lost: this kernel does not say whether the other end of this veth takes them"
        ))
        .mend("use Linux 6.3 or newer, or an interface of hardware, or let packets be sent on in user space")),
    }
}

#[cfg(test)]
mod tests {
    use exos_host::netlink::XdpInfo;

    use super::*;

    #[test]
    fn a_veth_is_believed_only_where_the_kernel_says_that_its_other_end_takes_packets() {
        let why = |features| arrives("wire", features).unwrap_err().to_string();
        assert!(why(None).contains("does not say"));
        assert!(why(Some(XdpFeatures::default())).contains("would not arrive"));
    }

    #[test]
    fn another_driver_is_believed_only_where_the_kernel_says_that_it_takes_packets() {
        let why = |features| takes("eth1", features).unwrap_err().to_string();
        assert!(why(None).contains("does not say"));
        assert!(why(Some(XdpFeatures::default())).contains("takes none"));
    }

    fn link(index: u32) -> LinkInfo {
        LinkInfo {
            name: format!("eth{index}"),
            index,
            loopback: false,
            kind: None,
            xdp: None,
            ..Netlink::new().unwrap().link_by_name("lo").unwrap()
        }
    }

    /// One whose driver takes nothing from others.
    fn end(index: u32) -> End {
        End {
            said: Said {
                link: link(index),
                features: Some(XdpFeatures::default()),
            },
            is_generic: false,
            is_virtual: false,
        }
    }

    fn generic(index: u32) -> End {
        End {
            is_generic: true,
            ..end(index)
        }
    }

    #[test]
    fn what_comes_on_socket_buffers_is_sent_by_any_hardware() {
        let ways = ways_between(&[generic(1), generic(2)]).unwrap();
        let expected = [
            [WayOut::Transmit, WayOut::Redirect(2)],
            [WayOut::Redirect(1), WayOut::Transmit],
        ];
        assert_eq!(ways, expected);
        let why = ways_between(&[generic(1), end(2)]).unwrap_err().to_string();
        assert!(
            why.contains("by eth1") && why.contains("takes none"),
            "{why}"
        );
    }

    #[test]
    fn the_interface_that_is_the_reason_is_named() {
        let of_guests = |is_generic| End {
            is_generic,
            is_virtual: true,
            ..end(2)
        };
        for (from, to, told) in [
            (generic(1), of_guests(false), "come by eth1"),
            (generic(1), of_guests(false), "sent on by eth2"),
            (of_guests(true), generic(1), "in the kernel by eth2:"),
        ] {
            let why = way_out(&from, &to).unwrap_err().to_string();
            assert!(why.contains(told), "{why}");
        }
        let back = way_out(&of_guests(false), &of_guests(false));
        assert_eq!(back.unwrap(), WayOut::Transmit);
    }

    /// A program that is there shows how programs run; else the driver tells, if it was asked.
    #[test]
    fn where_programs_run_is_foretold() {
        let none = Some(XdpFeatures::default());
        let is_generic = |mode: Option<XdpMode>, features| {
            let xdp = mode.map(|mode| XdpInfo { prog_id: 1, mode });
            let link = LinkInfo { xdp, ..link(1) };
            End::foretold(Said { link, features }).is_generic
        };
        assert!(is_generic(None, none));
        assert!(!is_generic(None, None));
        assert!(!is_generic(Some(XdpMode::Native), none));
        assert!(is_generic(Some(XdpMode::Generic), None));
    }
}
