//! The program at a slot's interface for what the slot sends.
//!
//! ```text
//! length, MAC, type ── IP header ── discovery? ── fragment? ── source is the slot's? ── where to ── share ── go
//! ```
//!
//! Each step that fails drops the packet and counts why. What programs send is checked more strictly than what
//! arrives is: nothing here has to be lenient for the sake of old senders.
//!
//! - IPv4 options and IPv6 routing headers are refused. RFC 7126 has networks drop source routes, and nothing else
//!   that a program needs travels in options.
//! - Neighbour and router discovery, redirects and group membership are refused: with them one host speaks for all
//!   of it, or for others. They are the daemon's.
//! - RFC 1858: first fragments hold their whole transport header, and later ones follow a first that was allowed.
//! - A checksum that is still to be written must be written into the transport header's field ([`Checksum`]).
//!
//! The daemon's own slot is not checked, only told apart by where its packets go.

mod destination;

use super::code::checksum::Checksum;
use super::code::classify::Local;
use super::code::parse::Faults;
use super::code::share::SEGMENT_SIZE;
use super::code::{
    CELL, Code, ETHERNET, FRAGMENT, ICMP_TYPE, IS_V6, ODD, PROTOCOL, SENDER, SHAPES, SLOT, Side,
    TAPS, UNCHECKED, fragment, half,
};
use super::counter::Counter;
use super::layout::SlotKind;
use super::limits::SEGMENT_SIZE_MIN;
use super::maps::MapFds;
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use crate::filter::Filter;
use crate::layers::{IPV4, IPV6};
use crate::program::{CompileError, Program};
pub(super) use destination::Ends;

/// Internet group management (RFC 3376).
const IGMP: u8 = 2;
/// Offset of the MAC address in [`super::Slot`] and in [`super::Config`].
const MAC: i16 = 8;

/// The traffic control program for the ingress of every slot's interface.
pub fn outgoing(maps: &MapFds, checksum: Option<&Checksum>) -> Program {
    let program = sending(maps, checksum, None);
    program.expect("without a filter there is nothing to compile")
}

/// The traffic control program for one slot, which may also send what lies in this filter and no exact grant covers.
pub fn outgoing_general(
    maps: &MapFds,
    checksum: Option<&Checksum>,
    filter: &Filter,
) -> Result<Program, CompileError> {
    sending(maps, checksum, Some(filter))
}

fn sending(
    maps: &MapFds,
    checksum: Option<&Checksum>,
    general: Option<&Filter>,
) -> Result<Program, CompileError> {
    let mut code = Code::new(maps, Side::Out);
    let ends = Ends::new(&mut code);
    code.clear();
    code.measure();
    code.sender();
    code.load_frame();
    code.station();
    code.network(ends);
    if let Some(checksum) = checksum {
        code.checksum(checksum);
    }
    code.forbidden();
    code.source(general)?;
    code.send(ends);
    Ok(Program::new(code.close()))
}

impl Code<'_> {
    /// Whose interface this is; leaves its slot in r7.
    fn sender(&mut self) {
        let checked = self.label();
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        for (offset, field) in [(0, SHAPES), (16, TAPS)] {
            self.load(Size::Word, Reg::R1, Reg::R0, offset);
            self.put(field, Reg::R1);
        }
        // struct __sk_buff: ifindex.
        self.load(Size::Word, Reg::R1, Reg::R6, 40);
        self.write(Size::Word, CELL, Reg::R1);
        self.lookup(self.maps.by_ifindex, CELL, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.put(SLOT, Reg::R1);
        self.put(SENDER, Reg::R1);
        self.lookup_field(self.maps.slots, SLOT, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::Equal, SlotKind::None as i32, no_ring);
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            SlotKind::Daemon as i32,
            checked,
        );
        self.put_imm(UNCHECKED, 1);
        self.bind(checked);
    }

    /// To `label` when the sender is the daemon, which sends no batches.
    pub(super) fn if_unchecked(&mut self, label: Label) {
        if self.side.is_lent() {
            return;
        }
        self.get(Reg::R1, UNCHECKED);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, label);
    }

    /// Ethernet and the first bytes behind it.
    pub(super) fn load_frame(&mut self) {
        let bad_header = self.refuse(Counter::TxBadHeader);
        let bad_type = self.refuse(Counter::TxBadEthertype);
        if !self.side.is_xdp() {
            // struct __sk_buff: vlan_present. The kernel has moved the tag there.
            self.load(Size::Word, Reg::R1, Reg::R6, 20);
            self.jump_if(Reg::R1, Condition::NotEqual, 0, bad_type);
        }
        self.load_headers(bad_header);
    }

    /// The source is the station of the slot that r7 points to.
    pub(super) fn station(&mut self) {
        let trusted = self.label();
        let bad_mac = self.refuse(Counter::TxBadMac);
        self.if_unchecked(trusted);
        if self.side == Side::Out {
            self.segments();
        }
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + 6 + at);
            self.load(Size::Half, Reg::R2, Reg::R7, MAC + at);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, bad_mac);
        }
        self.bind(trusted);
    }

    /// The headers of IP.
    pub(super) fn network(&mut self, ends: Ends) {
        let [v4, v6, located, not_ip] = [(); 4].map(|()| self.label());
        let bad_header = self.refuse(Counter::TxBadHeader);
        let bad_type = self.refuse(Counter::TxBadEthertype);
        self.read(Size::Half, Reg::R1, ETHERNET + 12);
        self.jump_if(Reg::R1, Condition::Equal, half(IPV4), v4);
        self.jump_if(Reg::R1, Condition::Equal, half(IPV6), v6);
        self.if_unchecked(not_ip);
        self.jump(bad_type);
        if self.asm.is_target(not_ip) {
            self.bind(not_ip);
            self.by_station(ends);
        }
        let faults = Faults {
            header: bad_header,
            fragment: self.refuse(Counter::TxFragment),
        };
        self.bind(v4);
        self.parse_v4(faults, located);
        self.bind(v6);
        self.parse_v6(faults, located);
        self.bind(located);
    }

    /// A super-packet is not cut into thousands.
    fn segments(&mut self) {
        let fine = self.label();
        let bad = self.refuse(Counter::TxBadHeader);
        self.load(Size::Word, Reg::R1, Reg::R6, SEGMENT_SIZE);
        self.jump_if(Reg::R1, Condition::Equal, 0, fine);
        self.jump_if(Reg::R1, Condition::Less, SEGMENT_SIZE_MIN, bad);
        self.bind(fine);
    }

    /// What nobody but the daemon may send.
    pub(super) fn forbidden(&mut self) {
        let [allowed, v6] = [(); 2].map(|()| self.label());
        let (bad_header, ndp) = (
            self.refuse(Counter::TxBadHeader),
            self.refuse(Counter::TxNdp),
        );
        self.if_unchecked(allowed);
        self.get(Reg::R1, ODD);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, bad_header);
        self.get(Reg::R1, ICMP_TYPE);
        self.get(Reg::R2, IS_V6);
        self.jump_if(Reg::R2, Condition::NotEqual, 0, v6);
        // RFC 792: redirect; RFC 1256: router advertisement.
        for kind in [5, 9] {
            self.jump_if(Reg::R1, Condition::Equal, kind, ndp);
        }
        self.get(Reg::R1, PROTOCOL);
        self.jump_if(Reg::R1, Condition::Equal, i32::from(IGMP), ndp);
        self.jump(allowed);
        self.bind(v6);
        // RFC 3810, RFC 2710: group membership 130 to 132 and 143; RFC 4861: discovery 133 to 137.
        self.jump_if(Reg::R1, Condition::Equal, 143, ndp);
        self.alu(Alu::Sub, Reg::R1, 130);
        self.jump_if(Reg::R1, Condition::LessOrEqual, 7, ndp);
        self.bind(allowed);
    }

    /// The source must lead to the sender by the lookups that find the receiver of what comes in, or, where they find
    /// nobody, by the sender's general filter.
    fn source(&mut self, general: Option<&Filter>) -> Result<(), CompileError> {
        let [allowed, wrong, unclaimed] = [(); 3].map(|()| self.label());
        let (bad_source, bad_fragment) = (
            self.refuse(Counter::TxBadSource),
            self.refuse(Counter::TxFragment),
        );
        self.if_unchecked(allowed);
        self.classify(Local::Source, unclaimed);
        self.get(Reg::R1, SENDER);
        self.jump_if(Reg::R0, Condition::Equal, Reg::R1, allowed);
        self.jump(wrong);
        self.bind(unclaimed);
        if let Some(filter) = general {
            self.in_general(filter, allowed, wrong)?;
        }
        self.bind(wrong);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::Equal, fragment::LATER, bad_fragment);
        self.jump(bad_source);
        self.bind(allowed);
        Ok(())
    }
}
