//! IPv6 neighbour discovery messages (RFC 4861 §4).
//!
//! ```text
//!  0      1      2          4                8
//!  | type | code | checksum | flags          | target (16) | options     neighbour sol., adv.
//!  | type | code | checksum | reserved       | options                   router sol.
//!  | type | code | checksum | hops,flags,life| reachable (4), retrans (4) | options  router adv.
//!
//!  option:  | type | length in units of 8 bytes | contents |
//! ```
//!
//! `parse` takes the whole ICMPv6 message and makes those checks of RFC 4861 §6.1 and §7.1 that
//! the message alone allows: code zero, lengths, no option of length zero, no multicast target.
//! The receiver checks the rest: hop limit 255 ([`HOP_LIMIT`]), the checksum, and what depends on
//! the packet's addresses. Options that are not known or have another length than ours are skipped.

use std::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, head, head_mut, put, put16, put32};
use crate::icmpv6::{
    NEIGHBOR_ADVERTISEMENT, NEIGHBOR_SOLICITATION, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION,
    fill_checksum,
};
use crate::limits::RA_PREFIXES_MAX;
use crate::{Mac, WireError};

/// The hop limit of every such packet; one that was forwarded has less (RFC 4861 §3.1).
pub const HOP_LIMIT: u8 = 255;
/// Bytes of a link-layer address option for Ethernet.
pub const MAC_OPTION_LEN: usize = 8;

const NEIGHBOR_HEADER_LEN: usize = 24;
const ROUTER_SOLICITATION_HEADER_LEN: usize = 8;
const ROUTER_ADVERTISEMENT_HEADER_LEN: usize = 16;
const MTU_OPTION_LEN: usize = 8;
const PREFIX_OPTION_LEN: usize = 32;

/// Option: the sender's link-layer address.
pub const OPTION_SOURCE_MAC: u8 = 1;
/// Option: the target's link-layer address.
pub const OPTION_TARGET_MAC: u8 = 2;
/// Option: a prefix of the link.
pub const OPTION_PREFIX: u8 = 3;
/// Option: the link's MTU.
pub const OPTION_MTU: u8 = 5;

/// The group in which the owner of an address is solicited (RFC 4291 §2.7.1).
#[must_use]
pub const fn solicited_node(target: &Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = target.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | a as u16,
        u16::from_be_bytes([b, c]),
    )
}

/// One option of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpOption<'a> {
    /// The option's type.
    pub kind: u8,
    /// What follows type and length: 8 n - 2 bytes.
    pub data: &'a [u8],
}

/// The options of a message, one by one. Ends after the first that cannot be read.
#[derive(Clone, Debug)]
pub struct NdpOptions<'a> {
    rest: &'a [u8],
}

impl<'a> NdpOptions<'a> {
    /// Reads the bytes behind a message's fixed part.
    #[must_use]
    pub fn new(options: &'a [u8]) -> Self {
        Self { rest: options }
    }
}

impl<'a> Iterator for NdpOptions<'a> {
    type Item = Result<NdpOption<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        let (kind, length) = match *rest {
            [] => return None,
            [kind] => return Some(Err(WireError::BadOption { layer: "ndp", kind })),
            [kind, length, ..] => (kind, length),
        };
        // RFC 4861 §4.6: a length of zero makes the whole packet invalid.
        match rest.split_at_checked(usize::from(length) * 8) {
            Some(([_, _, data @ ..], after)) => {
                self.rest = after;
                Some(Ok(NdpOption { kind, data }))
            }
            _ => Some(Err(WireError::BadOption { layer: "ndp", kind })),
        }
    }
}

/// Asks for the link-layer address of a neighbour, or whether it is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborSolicitation {
    /// Whose address is wanted.
    pub target: Ipv6Addr,
    /// The asker's link-layer address; absent when its IP address is unspecified.
    pub source_mac: Option<Mac>,
}

impl NeighborSolicitation {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// See the module's documentation.
    pub fn parse(message: &[u8]) -> Result<Self, WireError> {
        let (header, options) = header::<NEIGHBOR_HEADER_LEN>(message, NEIGHBOR_SOLICITATION)?;
        Ok(Self {
            target: target(header)?,
            source_mac: mac_option(options, OPTION_SOURCE_MAC)?,
        })
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        NEIGHBOR_HEADER_LEN + mac_option_len(self.source_mac)
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, src: &Ipv6Addr, dst: &Ipv6Addr, out: &mut [u8]) -> usize {
        let len = self.message_len();
        let out = room(out, len);
        let (header, options) = head_mut::<NEIGHBOR_HEADER_LEN>(out, "ndp");
        put32::<0, _>(header, u32::from(NEIGHBOR_SOLICITATION) << 24);
        put32::<4, _>(header, 0);
        put::<8, 16, _>(header, self.target.octets());
        emit_mac_option(OPTION_SOURCE_MAC, self.source_mac, options);
        fill_checksum(src, dst, out);
        len
    }
}

/// Gives a link-layer address, asked or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborAdvertisement {
    /// Whose address it is.
    pub target: Ipv6Addr,
    /// The sender is a router.
    pub router: bool,
    /// This answers a solicitation.
    pub solicited: bool,
    /// Replaces what a cache holds already.
    pub override_: bool,
    /// The link-layer address.
    pub target_mac: Option<Mac>,
}

impl NeighborAdvertisement {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// See the module's documentation.
    pub fn parse(message: &[u8]) -> Result<Self, WireError> {
        let (header, options) = header::<NEIGHBOR_HEADER_LEN>(message, NEIGHBOR_ADVERTISEMENT)?;
        let flags = header[4];
        Ok(Self {
            target: target(header)?,
            router: flags & 0x80 != 0,
            solicited: flags & 0x40 != 0,
            override_: flags & 0x20 != 0,
            target_mac: mac_option(options, OPTION_TARGET_MAC)?,
        })
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        NEIGHBOR_HEADER_LEN + mac_option_len(self.target_mac)
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, src: &Ipv6Addr, dst: &Ipv6Addr, out: &mut [u8]) -> usize {
        let len = self.message_len();
        let out = room(out, len);
        let (header, options) = head_mut::<NEIGHBOR_HEADER_LEN>(out, "ndp");
        let flags = u32::from(self.router) << 31
            | u32::from(self.solicited) << 30
            | u32::from(self.override_) << 29;
        put32::<0, _>(header, u32::from(NEIGHBOR_ADVERTISEMENT) << 24);
        put32::<4, _>(header, flags);
        put::<8, 16, _>(header, self.target.octets());
        emit_mac_option(OPTION_TARGET_MAC, self.target_mac, options);
        fill_checksum(src, dst, out);
        len
    }
}

/// Asks routers to advertise themselves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouterSolicitation {
    /// The asker's link-layer address; absent when its IP address is unspecified.
    pub source_mac: Option<Mac>,
}

impl RouterSolicitation {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// See the module's documentation.
    pub fn parse(message: &[u8]) -> Result<Self, WireError> {
        const LEN: usize = ROUTER_SOLICITATION_HEADER_LEN;
        let (_, options) = header::<LEN>(message, ROUTER_SOLICITATION)?;
        Ok(Self {
            source_mac: mac_option(options, OPTION_SOURCE_MAC)?,
        })
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        ROUTER_SOLICITATION_HEADER_LEN + mac_option_len(self.source_mac)
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, src: &Ipv6Addr, dst: &Ipv6Addr, out: &mut [u8]) -> usize {
        let len = self.message_len();
        let out = room(out, len);
        let (header, options) = head_mut::<ROUTER_SOLICITATION_HEADER_LEN>(out, "ndp");
        put32::<0, _>(header, u32::from(ROUTER_SOLICITATION) << 24);
        put32::<4, _>(header, 0);
        emit_mac_option(OPTION_SOURCE_MAC, self.source_mac, options);
        fill_checksum(src, dst, out);
        len
    }
}

/// A prefix that a router advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefixInformation {
    /// The prefix; bits beyond its length are zero.
    pub prefix: Ipv6Addr,
    /// Its length in bits, at most 128.
    pub prefix_len: u8,
    /// Its addresses are on this link.
    pub on_link: bool,
    /// Hosts may make addresses of it (RFC 4862).
    pub autonomous: bool,
    /// How long it is on-link, and addresses made of it are valid; all ones is forever.
    pub valid_secs: u32,
    /// How long addresses made of it are preferred; all ones is forever.
    pub preferred_secs: u32,
}

impl PrefixInformation {
    const NONE: Self = Self {
        prefix: Ipv6Addr::UNSPECIFIED,
        prefix_len: 0,
        on_link: false,
        autonomous: false,
        valid_secs: 0,
        preferred_secs: 0,
    };

    /// RFC 4861 §4.6.2. None for a length of more than 128 bits, which the receiver ignores.
    fn read(option: &[u8; PREFIX_OPTION_LEN - 2]) -> Option<Self> {
        let prefix_len = option[0];
        let mask = u128::MAX
            .checked_shl(128u32.checked_sub(prefix_len.into())?)
            .unwrap_or(0);
        let prefix = u128::from_be_bytes(array::<14, 16, _>(option)) & mask;
        Some(Self {
            prefix: Ipv6Addr::from_bits(prefix),
            prefix_len,
            on_link: option[1] & 0x80 != 0,
            autonomous: option[1] & 0x40 != 0,
            valid_secs: be32::<2, _>(option),
            preferred_secs: be32::<6, _>(option),
        })
    }

    fn write(&self, option: &mut [u8; PREFIX_OPTION_LEN]) {
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        put::<0, 4, _>(option, [OPTION_PREFIX, 4, self.prefix_len, flags]);
        put32::<4, _>(option, self.valid_secs);
        put32::<8, _>(option, self.preferred_secs);
        put32::<12, _>(option, 0);
        put::<16, 16, _>(option, self.prefix.octets());
    }
}

/// The prefixes of one advertisement, at most [`RA_PREFIXES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefixes {
    list: [PrefixInformation; RA_PREFIXES_MAX],
    len: u8,
}

impl Prefixes {
    /// No prefixes.
    pub const NONE: Self = Self {
        list: [PrefixInformation::NONE; RA_PREFIXES_MAX],
        len: 0,
    };

    /// Adds one; false when there is no room, and then it is left out.
    pub fn push(&mut self, prefix: PrefixInformation) -> bool {
        match self.list.get_mut(usize::from(self.len)) {
            None => false,
            Some(place) => {
                *place = prefix;
                self.len += 1;
                true
            }
        }
    }

    /// The prefixes, in the order of the message.
    #[must_use]
    pub fn as_slice(&self) -> &[PrefixInformation] {
        &self.list[..usize::from(self.len)]
    }
}

impl Default for Prefixes {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A router tells what hosts on the link need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouterAdvertisement {
    /// The hop limit to send with; 0 leaves it open.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is to be had by DHCPv6.
    pub other_config: bool,
    /// How long to use it as a default router; 0 means not at all.
    pub lifetime_secs: u16,
    /// How long a neighbour counts as reachable after it was heard from; 0 leaves it open.
    pub reachable_ms: u32,
    /// Time between solicitations; 0 leaves it open.
    pub retrans_ms: u32,
    /// The router's link-layer address.
    pub source_mac: Option<Mac>,
    /// The link's MTU.
    pub mtu: Option<u32>,
    /// Prefixes of the link.
    pub prefixes: Prefixes,
}

impl RouterAdvertisement {
    /// Reads a whole ICMPv6 message.
    ///
    /// # Errors
    /// See the module's documentation.
    pub fn parse(message: &[u8]) -> Result<Self, WireError> {
        const LEN: usize = ROUTER_ADVERTISEMENT_HEADER_LEN;
        let (header, options) = header::<LEN>(message, ROUTER_ADVERTISEMENT)?;
        let mut found = Self {
            hop_limit: header[4],
            managed: header[5] & 0x80 != 0,
            other_config: header[5] & 0x40 != 0,
            lifetime_secs: be16::<6, _>(header),
            reachable_ms: be32::<8, _>(header),
            retrans_ms: be32::<12, _>(header),
            ..Self::default()
        };
        for option in NdpOptions::new(options) {
            found.take(option?);
        }
        Ok(found)
    }

    fn take(&mut self, option: NdpOption<'_>) {
        match option.kind {
            OPTION_SOURCE_MAC => {
                self.source_mac = self
                    .source_mac
                    .or_else(|| option.data.try_into().ok().map(Mac));
            }
            OPTION_MTU => {
                if let Some(data) = sized::<{ MTU_OPTION_LEN - 2 }>(option.data) {
                    self.mtu = Some(be32::<2, _>(data));
                }
            }
            OPTION_PREFIX => {
                let data = sized::<{ PREFIX_OPTION_LEN - 2 }>(option.data);
                if let Some(prefix) = data.and_then(PrefixInformation::read) {
                    self.prefixes.push(prefix);
                }
            }
            _ => {}
        }
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn message_len(&self) -> usize {
        ROUTER_ADVERTISEMENT_HEADER_LEN
            + mac_option_len(self.source_mac)
            + if self.mtu.is_some() {
                MTU_OPTION_LEN
            } else {
                0
            }
            + self.prefixes.as_slice().len() * PREFIX_OPTION_LEN
    }

    /// Writes the message with its checksum and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`Self::message_len`].
    pub fn emit(&self, src: &Ipv6Addr, dst: &Ipv6Addr, out: &mut [u8]) -> usize {
        let len = self.message_len();
        let out = room(out, len);
        let (header, options) = head_mut::<ROUTER_ADVERTISEMENT_HEADER_LEN>(out, "ndp");
        let flags = u8::from(self.managed) << 7 | u8::from(self.other_config) << 6;
        put32::<0, _>(header, u32::from(ROUTER_ADVERTISEMENT) << 24);
        put::<4, 2, _>(header, [self.hop_limit, flags]);
        put16::<6, _>(header, self.lifetime_secs);
        put32::<8, _>(header, self.reachable_ms);
        put32::<12, _>(header, self.retrans_ms);
        let mut rest = emit_mac_option(OPTION_SOURCE_MAC, self.source_mac, options);
        if let Some(mtu) = self.mtu {
            let (option, after) = head_mut::<MTU_OPTION_LEN>(rest, "ndp");
            put::<0, 4, _>(option, [OPTION_MTU, 1, 0, 0]);
            put32::<4, _>(option, mtu);
            rest = after;
        }
        for prefix in self.prefixes.as_slice() {
            let (option, after) = head_mut::<PREFIX_OPTION_LEN>(rest, "ndp");
            prefix.write(option);
            rest = after;
        }
        fill_checksum(src, dst, out);
        len
    }
}

/// The fixed part of a message of the given type, and its options.
fn header<const N: usize>(message: &[u8], kind: u8) -> Result<(&[u8; N], &[u8]), WireError> {
    let (header, options) = head::<N>(message, "ndp")?;
    let bad = |field, value: u8| WireError::BadField {
        layer: "ndp",
        field,
        value: value.into(),
    };
    match (header[0], header[1]) {
        (found, 0) if found == kind => Ok((header, options)),
        (found, 0) => Err(bad("type", found)),
        (_, code) => Err(bad("code", code)),
    }
}

/// RFC 4861 §7.1: the target must not be a multicast address.
fn target(header: &[u8; NEIGHBOR_HEADER_LEN]) -> Result<Ipv6Addr, WireError> {
    let target = Ipv6Addr::from(array::<8, 16, _>(header));
    if target.is_multicast() {
        let value = be32::<8, _>(header);
        return Err(WireError::BadField {
            layer: "ndp",
            field: "target's first word",
            value,
        });
    }
    Ok(target)
}

fn sized<const N: usize>(data: &[u8]) -> Option<&[u8; N]> {
    data.try_into().ok()
}

/// Reads all options, for one bad option makes the message invalid, and returns the first address.
fn mac_option(options: &[u8], kind: u8) -> Result<Option<Mac>, WireError> {
    let mut found = None;
    for option in NdpOptions::new(options) {
        let option = option?;
        if option.kind == kind && found.is_none() {
            found = option.data.try_into().ok().map(Mac);
        }
    }
    Ok(found)
}

const fn mac_option_len(mac: Option<Mac>) -> usize {
    if mac.is_some() { MAC_OPTION_LEN } else { 0 }
}

fn emit_mac_option(kind: u8, mac: Option<Mac>, out: &mut [u8]) -> &mut [u8] {
    let Some(mac) = mac else { return out };
    let (option, rest) = head_mut::<MAC_OPTION_LEN>(out, "ndp");
    put::<0, 2, _>(option, [kind, 1]);
    put::<2, 6, _>(option, mac.0);
    rest
}

fn room(out: &mut [u8], len: usize) -> &mut [u8] {
    let have = out.len();
    out.get_mut(..len)
        .unwrap_or_else(|| panic!("emitting ndp needs {len} bytes of room, not {have}"))
}
