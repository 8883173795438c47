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

use super::code::checksum::Checksum;
use super::code::classify::Local;
use super::code::parse::Faults;
use super::code::share::{SEGMENT_SIZE, SLOT_RX, SLOT_TX};
use super::code::{
    Amount, CELL, Code, DESTINATION, ETHERNET, FRAGMENT, ICMP_TYPE, IS_V6, ODD, PEER, PROTOCOL,
    RESULT, SENDER, SHAPES, SLOT, Side, TAPS, UNCHECKED, VERDICT, fragment, half,
};
use super::counter::Counter;
use super::layout::{AddressFlags, LINK_RX, LINK_TX, SlotKind};
use super::limits::SEGMENT_SIZE_MIN;
use super::maps::MapFds;
use super::tap::Verdict;
use crate::ebpf::{Alu, Condition, Helper, Label, Reg, Size};
use crate::filter::Filter;
use crate::layers::{IPV4, IPV6};
use crate::program::{CompileError, Program};

/// Internet group management (RFC 3376).
const IGMP: u8 = 2;
/// Offset of the MAC address in [`super::Slot`] and in [`super::Config`].
const MAC: i16 = 8;
/// `bpf_redirect`: to the ingress of the device.
const INGRESS: i32 = 1;

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

/// Where allowed packets go.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    wire: Label,
    host: Label,
    slot: Label,
}

impl Ends {
    pub(super) fn new(code: &mut Code<'_>) -> Self {
        let [wire, host, slot] = [(); 3].map(|()| code.asm.label());
        Self { wire, host, slot }
    }

    /// What is for this machine goes to `here`.
    pub(super) fn to_wire_alone(code: &mut Code<'_>, here: Label) -> Self {
        let wire = code.asm.label();
        Self {
            wire,
            host: here,
            slot: here,
        }
    }
}

impl Code<'_> {
    /// Whose interface this is; leaves its slot in r7.
    fn sender(&mut self) {
        let checked = self.asm.label();
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
        self.asm.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.asm
            .jump_if(Reg::R1, Condition::Equal, SlotKind::None as i32, no_ring);
        self.asm.jump_if(
            Reg::R1,
            Condition::NotEqual,
            SlotKind::Daemon as i32,
            checked,
        );
        self.put_imm(UNCHECKED, 1);
        self.asm.bind(checked);
    }

    /// To `label` when the sender is the daemon, which sends no batches.
    pub(super) fn if_unchecked(&mut self, label: Label) {
        if self.side.is_lent() {
            return;
        }
        self.get(Reg::R1, UNCHECKED);
        self.asm.jump_if(Reg::R1, Condition::NotEqual, 0, label);
    }

    /// Ethernet and the first bytes behind it.
    pub(super) fn load_frame(&mut self) {
        let bad_header = self.refuse(Counter::TxBadHeader);
        let bad_type = self.refuse(Counter::TxBadEthertype);
        if !self.side.is_xdp() {
            // struct __sk_buff: vlan_present. The kernel has moved the tag there.
            self.load(Size::Word, Reg::R1, Reg::R6, 20);
            self.asm.jump_if(Reg::R1, Condition::NotEqual, 0, bad_type);
        }
        self.load_headers(bad_header);
    }

    /// The source is the station of the slot that r7 points to.
    pub(super) fn station(&mut self) {
        let trusted = self.asm.label();
        let bad_mac = self.refuse(Counter::TxBadMac);
        self.if_unchecked(trusted);
        if self.side == Side::Out {
            self.segments();
        }
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + 6 + at);
            self.load(Size::Half, Reg::R2, Reg::R7, MAC + at);
            self.asm
                .jump_if(Reg::R1, Condition::NotEqual, Reg::R2, bad_mac);
        }
        self.asm.bind(trusted);
    }

    /// The headers of IP.
    pub(super) fn network(&mut self, ends: Ends) {
        let [v4, v6, located, not_ip] = [(); 4].map(|()| self.asm.label());
        let bad_header = self.refuse(Counter::TxBadHeader);
        let bad_type = self.refuse(Counter::TxBadEthertype);
        self.read(Size::Half, Reg::R1, ETHERNET + 12);
        self.asm.jump_if(Reg::R1, Condition::Equal, half(IPV4), v4);
        self.asm.jump_if(Reg::R1, Condition::Equal, half(IPV6), v6);
        self.if_unchecked(not_ip);
        self.asm.jump(bad_type);
        if self.asm.is_target(not_ip) {
            self.asm.bind(not_ip);
            self.by_station(ends);
        }
        let faults = Faults {
            header: bad_header,
            fragment: self.refuse(Counter::TxFragment),
        };
        self.asm.bind(v4);
        self.parse_v4(faults, located);
        self.asm.bind(v6);
        self.parse_v6(faults, located);
        self.asm.bind(located);
    }

    /// A super-packet is not cut into thousands.
    fn segments(&mut self) {
        let fine = self.asm.label();
        let bad = self.refuse(Counter::TxBadHeader);
        self.load(Size::Word, Reg::R1, Reg::R6, SEGMENT_SIZE);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, fine);
        self.asm
            .jump_if(Reg::R1, Condition::Less, SEGMENT_SIZE_MIN, bad);
        self.asm.bind(fine);
    }

    /// The daemon's ARP: to the host if the frame is for the device's own address, which is the host's.
    fn by_station(&mut self, ends: Ends) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + at);
            self.load(Size::Half, Reg::R2, Reg::R0, MAC + at);
            self.asm
                .jump_if(Reg::R1, Condition::NotEqual, Reg::R2, ends.wire);
        }
        self.asm.jump(ends.host);
    }

    /// What nobody but the daemon may send.
    pub(super) fn forbidden(&mut self) {
        let [allowed, v6] = [(); 2].map(|()| self.asm.label());
        let (bad_header, ndp) = (
            self.refuse(Counter::TxBadHeader),
            self.refuse(Counter::TxNdp),
        );
        self.if_unchecked(allowed);
        self.get(Reg::R1, ODD);
        self.asm
            .jump_if(Reg::R1, Condition::NotEqual, 0, bad_header);
        self.get(Reg::R1, ICMP_TYPE);
        self.get(Reg::R2, IS_V6);
        self.asm.jump_if(Reg::R2, Condition::NotEqual, 0, v6);
        // RFC 792: redirect; RFC 1256: router advertisement.
        for kind in [5, 9] {
            self.asm.jump_if(Reg::R1, Condition::Equal, kind, ndp);
        }
        self.get(Reg::R1, PROTOCOL);
        self.asm
            .jump_if(Reg::R1, Condition::Equal, i32::from(IGMP), ndp);
        self.asm.jump(allowed);
        self.asm.bind(v6);
        // RFC 3810, RFC 2710: group membership 130 to 132 and 143; RFC 4861: discovery 133 to 137.
        self.asm.jump_if(Reg::R1, Condition::Equal, 143, ndp);
        self.asm.alu(Alu::Sub, Reg::R1, 130);
        self.asm.jump_if(Reg::R1, Condition::LessOrEqual, 7, ndp);
        self.asm.bind(allowed);
    }

    /// The source must lead to the sender by the lookups that find the receiver of what comes in, or, where they find
    /// nobody, by the sender's general filter.
    fn source(&mut self, general: Option<&Filter>) -> Result<(), CompileError> {
        let [allowed, wrong, unclaimed] = [(); 3].map(|()| self.asm.label());
        let (bad_source, bad_fragment) = (
            self.refuse(Counter::TxBadSource),
            self.refuse(Counter::TxFragment),
        );
        self.if_unchecked(allowed);
        self.classify(Local::Source, unclaimed);
        self.get(Reg::R1, SENDER);
        self.asm
            .jump_if(Reg::R0, Condition::Equal, Reg::R1, allowed);
        self.asm.jump(wrong);
        self.asm.bind(unclaimed);
        if let Some(filter) = general {
            self.in_general(filter, allowed, wrong)?;
        }
        self.asm.bind(wrong);
        self.get(Reg::R1, FRAGMENT);
        self.asm
            .jump_if(Reg::R1, Condition::Equal, fragment::LATER, bad_fragment);
        self.asm.jump(bad_source);
        self.asm.bind(allowed);
        Ok(())
    }

    /// What is allowed goes its way.
    pub(super) fn send(&mut self, ends: Ends) {
        self.route(ends);
        self.send_to_wire(ends.wire);
        if self.side == Side::Live {
            return;
        }
        self.send_to_host(ends.host);
        self.send_to_slot(ends.slot);
    }

    /// By the destination: a slot of this machine, the host, or the wire.
    fn route(&mut self, ends: Ends) {
        let [none, ours] = [(); 2].map(|()| self.asm.label());
        self.classify(Local::Destination, none);
        self.put(PEER, Reg::R0);
        self.asm.jump(ends.slot);
        self.asm.bind(none);
        self.if_address(DESTINATION, AddressFlags::HOST, ends.host);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ours);
        self.asm.jump(ends.wire);
        self.asm.bind(ours);
        self.put_imm(PEER, 0);
        if self.side.takes_fragments() {
            self.sole_owner(ends.slot);
            self.put(PEER, Reg::R0);
        }
        self.asm.jump(ends.slot);
    }

    /// Charge the sender.
    fn charge_sender(&mut self) {
        let [over, charged] = [(); 2].map(|()| self.asm.label());
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_field(self.maps.slots, SENDER, no_ring);
        self.asm.set(Reg::R7, Reg::R0);
        self.police(SLOT_TX, LINK_TX, over);
        self.asm.jump(charged);
        self.refuse_unsent(over, Counter::TxOverShare);
        self.asm.bind(charged);
    }

    /// What is dropped at last although it may be sent opens no way for later fragments.
    fn refuse_unsent(&mut self, label: Label, counter: Counter) {
        self.asm.bind(label);
        self.forget_fragment();
        let refused = self.refuse(counter);
        self.asm.jump(refused);
    }

    fn send_to_wire(&mut self, label: Label) {
        self.asm.bind(label);
        self.charge_sender();
        self.count(SENDER, &[SENT, SENT_BYTES]);
        self.send_to_device(0, Verdict::Wire);
    }

    fn send_to_host(&mut self, label: Label) {
        self.asm.bind(label);
        self.charge_sender();
        self.count(
            SENDER,
            &[SENT, SENT_BYTES, (Counter::TxToHost, Amount::One)],
        );
        self.send_to_device(INGRESS, Verdict::Host);
    }

    fn send_to_device(&mut self, flags: i32, verdict: Verdict) {
        if self.side == Side::Live {
            return self.send_live();
        }
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R0, 4);
        self.asm.set(Reg::R2, flags);
        self.redirect(verdict);
    }

    /// Out of r1 with the flags r2.
    fn redirect(&mut self, verdict: Verdict) {
        if self.side == Side::Batch {
            return self.send_clone();
        }
        self.asm.call(Helper::Redirect);
        self.put(RESULT, Reg::R0);
        self.put_imm(VERDICT, i32::from(verdict.to_byte()));
        self.finish();
    }

    /// Another slot, within its share of what arrives; what it refuses is counted for it.
    fn send_to_slot(&mut self, label: Label) {
        let [no_ring, over] = [(); 2].map(|()| self.asm.label());
        self.asm.bind(label);
        self.charge_sender();
        self.get(Reg::R1, PEER);
        self.put(SLOT, Reg::R1);
        self.lookup_field(self.maps.slots, SLOT, no_ring);
        self.asm.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.asm
            .jump_if(Reg::R1, Condition::Equal, SlotKind::None as i32, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
        self.police(SLOT_RX, LINK_RX, over);
        self.count(
            SLOT,
            &[
                (Counter::RxPackets, Amount::One),
                (Counter::RxBytes, Amount::Length),
            ],
        );
        self.get(Reg::R1, SENDER);
        self.put(SLOT, Reg::R1);
        self.count(
            SENDER,
            &[SENT, SENT_BYTES, (Counter::TxToSlot, Amount::One)],
        );
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.asm.set(Reg::R2, 0);
        self.redirect(Verdict::Slot);
        self.refuse_unsent(no_ring, Counter::NoRing);
        self.refuse_unsent(over, Counter::RxOverShare);
    }
}

const SENT: (Counter, Amount) = (Counter::TxPackets, Amount::One);
const SENT_BYTES: (Counter, Amount) = (Counter::TxBytes, Amount::Length);
