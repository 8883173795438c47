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
use exos_host::netlink::{Netlink, XdpFeatures};

use super::{Mode, XdpLink};
use crate::Error;
use crate::meta::RxChecksum;

/// Their kind in netlink.
const VETH: &str = "veth";

impl XdpLink {
    /// How packets that come by this link leave by that one when a handler sends them on, whose checksums it has seen to. It may
    /// change with the other end of a veth.
    ///
    /// # Errors
    ///
    /// They would not arrive, or damaged; or an interface has gone.
    pub fn way_out_to(&self, to: &Self) -> Result<WayOut, Error> {
        let is_generic = self.mode == Mode::Generic;
        if is_generic && self.interface.rx_checksum == RxChecksum::MaybePartial {
            return Err(runs_no_programs(self.name()));
        }
        if is_generic && self.interface() != to.interface() {
            // There is nothing to ask of the driver: it is sent what the host itself would send.
            return match to.interface.rx_checksum {
                RxChecksum::MaybePartial => Err(runs_no_programs(self.name())),
                _ => Ok(WayOut::Redirect(to.interface())),
            };
        }
        way_out_between(self.name(), to.name())
    }
}

fn runs_no_programs(name: &str) -> Error {
    Error::new(format!(
        "packets cannot be sent on in the kernel by {name}: its driver runs no XDP programs"
    ))
    .mend("name an interface of hardware, or a veth")
}

/// How packets that come by an interface of the first name, whose program runs in the driver, leave by one of the other: what can
/// be known without a link.
///
/// # Errors
///
/// They would not arrive, or there is no such interface.
pub fn way_out_between(from: &str, to: &str) -> Result<WayOut, Error> {
    let info = Netlink::new()?.link_by_name(to)?;
    let is_veth = info.kind.as_deref() == Some(VETH);
    if from == to && !is_veth {
        return Ok(WayOut::Transmit);
    }
    let features = XdpFeatures::of(info.index)?;
    match is_veth {
        true => arrives(to, features)?,
        false => takes(to, features)?,
    }
    Ok(WayOut::Redirect(info.index))
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
}
