//! What a driver can do with XDP: the `netdev` family of generic netlink (kernel 6.3 and later).
//!
//! Layout: after the netlink header `genlmsghdr { command u8, version u8, reserved u16 }`, then attributes
//! `nlattr { len u16, type u16, value }` padded to 4 bytes. The family's number is asked for by name first.
//! Source: Documentation/netlink/specs/netdev.yaml.

use super::exchange::{RawMessage, Refusal, open, transact};
use crate::error::Result;
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST};
use netlink_sys::{Socket, protocols::NETLINK_GENERIC};

/// What a driver can do with XDP natively; nothing by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XdpFeatures {
    bits: u64,
}

impl XdpFeatures {
    /// It runs programs that pass, drop or send back.
    pub fn is_native(self) -> bool {
        self.bits & 1 != 0
    }

    /// It redirects, which AF_XDP needs.
    pub fn redirects(self) -> bool {
        self.bits & 2 != 0
    }

    /// Other interfaces may redirect to it.
    pub fn is_target(self) -> bool {
        self.bits & 4 != 0
    }

    /// It reads and writes an AF_XDP socket's memory itself.
    pub fn zero_copy(self) -> bool {
        self.bits & 8 != 0
    }

    /// It takes packets that span several buffers.
    pub fn fragments(self) -> bool {
        self.bits & 32 != 0
    }
}

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;

/// Asks the kernel what drivers can do, of interfaces in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Netdev {
    socket: Socket,
    /// The number of the family.
    family: u16,
    sequence: u32,
}

impl Netdev {
    /// Opens it in the network namespace of the calling thread. `None` when the kernel is too old to say.
    pub fn open() -> Result<Option<Self>> {
        let socket = open(NETLINK_GENERIC)?;
        let family = ask(
            &socket,
            1,
            GENL_ID_CTRL,
            CTRL_CMD_GETFAMILY,
            CTRL_ATTR_FAMILY_NAME,
            b"netdev\0",
        );
        let family = match family {
            Ok(answer) => attribute(&answer, CTRL_ATTR_FAMILY_ID).map(u16::from_ne_bytes),
            Err(refusal) if refusal.source.raw_os_error() == Some(libc::ENOENT) => None,
            Err(refusal) => {
                return Err(
                    refusal.while_doing("cannot ask what drivers can do with XDP".to_owned())
                );
            }
        };
        Ok(family.map(|family| Self {
            socket,
            family,
            sequence: 1,
        }))
    }

    /// What the driver of this interface can do now. `None` when the kernel does not say.
    pub fn xdp_features(&mut self, index: u32) -> Result<Option<XdpFeatures>> {
        self.sequence = self.sequence.wrapping_add(1);
        let answer = ask(
            &self.socket,
            self.sequence,
            self.family,
            NETDEV_CMD_DEV_GET,
            NETDEV_A_DEV_IFINDEX,
            &index.to_ne_bytes(),
        );
        let answer = answer.map_err(|refusal| {
            refusal.while_doing(format!(
                "cannot ask what XDP can do on the interface with index {index}"
            ))
        })?;
        let bits = attribute(&answer, NETDEV_A_DEV_XDP_FEATURES).map(u64::from_ne_bytes);
        Ok(bits.map(|bits| XdpFeatures { bits }))
    }
}

impl XdpFeatures {
    /// What the driver of an interface in the network namespace of the calling thread can do now. `None` when the
    /// kernel is too old to say.
    pub fn of(index: u32) -> Result<Option<Self>> {
        match Netdev::open()? {
            Some(mut netdev) => netdev.xdp_features(index),
            None => Ok(None),
        }
    }
}

/// One request with one attribute; the attributes of the answer.
fn ask(
    socket: &Socket,
    sequence: u32,
    family: u16,
    command: u8,
    kind: u16,
    value: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let attribute_len = 4 + value.len();
    let total = 16 + 4 + attribute_len.next_multiple_of(4);
    let mut request = Vec::with_capacity(total);
    request.extend((total as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend(0u32.to_ne_bytes());
    request.extend([command, 1, 0, 0]);
    request.extend((attribute_len as u16).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(total, 0);
    let mut answer = Vec::new();
    let take = |m: &RawMessage<'_>| answer.extend(m.payload.get(4..).unwrap_or(&[]));
    transact(socket, &request, sequence, take)?;
    Ok(answer)
}

/// The value of the first attribute of a kind, if it has the size that it should have.
fn attribute<const N: usize>(attributes: &[u8], kind: u16) -> Option<[u8; N]> {
    super::exchange::attribute(attributes, kind)?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Netlink;

    #[test]
    fn loopback_has_no_native_xdp() {
        let lo = Netlink::new()
            .expect("netlink")
            .link_by_name("lo")
            .expect("everywhere");
        if let Some(features) = XdpFeatures::of(lo.index).expect("asked") {
            assert!(
                !features.is_native() && !features.zero_copy(),
                "{features:?}"
            );
        }
    }

    #[test]
    fn attributes_are_found_and_broken_ones_end_the_search() {
        let bytes = [5, 0, 9, 0, 7, 0, 0, 0, 8, 0, 3, 0, 1, 2, 3, 4];
        assert_eq!(attribute(&bytes, 3), Some([1, 2, 3, 4]));
        assert_eq!(attribute(&bytes, 9), Some([7]));
        assert_eq!(attribute::<2>(&bytes, 3), None, "of another size");
        assert_eq!(attribute::<1>(&bytes, 4), None);
        for cut in 0..16 {
            assert_eq!(attribute::<4>(&bytes[..cut], 3), None);
        }
        assert_eq!(
            attribute::<1>(&[0; 8], 4),
            None,
            "a length of 0 does not go on for ever"
        );
    }
}
