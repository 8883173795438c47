//! How packets that a handler has dealt with leave by the interface that they came from.
//!
//! | interface | how | because |
//! |---|---|---|
//! | hardware, and guests' interfaces | `XDP_TX` | the driver sends them |
//! | a veth, native | a redirection to itself | that arrives where the other end has GRO or an XDP program, `XDP_TX` only where it has a program |
//! | virtual interfaces, generic | not at all | they would go on as the socket buffers that they are, which ask for a checksum to be finished |

use exos_filter::handler::forward::WayOut;
use exos_host::netlink::{Netlink, XdpFeatures};

use super::{Mode, XdpLink};
use crate::Error;
use crate::meta::RxChecksum;

/// Their kind in netlink.
const VETH: &str = "veth";

impl XdpLink {
    /// How packets leave that a handler sends on, whose checksums it has seen to. It may change with the other end of a veth.
    ///
    /// # Errors
    ///
    /// They would not arrive, or damaged; or the interface has gone.
    pub fn way_out(&self) -> Result<WayOut, Error> {
        let name = self.name();
        if self.mode == Mode::Generic && self.interface.rx_checksum == RxChecksum::MaybePartial {
            return Err(Error::new(format!(
                "packets cannot be sent on in the kernel by {name}: its driver runs no XDP programs"
            ))
            .mend("name an interface of hardware, or a veth"));
        }
        way_out_of(name)
    }
}

/// How packets leave by an interface of this name whose program runs in the driver: what can be known without a link.
///
/// # Errors
///
/// They would not arrive, or there is no such interface.
pub fn way_out_of(name: &str) -> Result<WayOut, Error> {
    let info = Netlink::new()?.link_by_name(name)?;
    if info.kind.as_deref() != Some(VETH) {
        return Ok(WayOut::Transmit);
    }
    arrives(name, XdpFeatures::of(info.index)?)?;
    Ok(WayOut::Redirect(info.index))
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
}
