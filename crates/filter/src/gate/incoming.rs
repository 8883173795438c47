//! The program at the device for what arrives, and its twin for what the host sends.
//!
//! ```text
//! Ethernet ─┬─ for another station, too short ── host
//!           ├─ ARP ── target is ours alone? ── slot 0, else host
//!           ├─ IPv4, IPv6 ─┬─ neighbour discovery ── target or destination ours alone? ── slot 0, else host
//!           │              └─ classify ── the slot, within its share ── its handler, its interface, or the queue's socket
//!           └─ tagged, other ─┐                    │ nobody's
//!                             └────────────────────┴─ general filters ── ours alone? ── slot 0, or of a later fragment the only
//!                                                                        slot with ports there; else host
//! ```
//!
//! A tagged frame belongs to another network than the device's addresses, so that no exact grant covers it: general
//! filters may. The twin has no general filters, and what it does not take goes its way to the wire.

use super::code::classify::Local;
use super::code::parse::{Faults, OFFSET};
use super::code::share::SLOT_RX;
use super::code::splice::splice;
use super::code::{
    Amount, CELL, Code, DESTINATION, ETHERNET, ICMP_TYPE, IP, IS_V6, RESULT, SHAPES, SLOT, STRAY,
    Side, TAPS, TARGET, TRANSPORT, VERDICT, half, scratch, tcx,
};
use super::counter::Counter;
use super::layout::{AddressFlags, LINK_RX, SlotKind};
use super::limits::GENERALS_MAX;
use super::maps::MapFds;
use super::tap::{TapRecord, Verdict};
use crate::ebpf::{Alu, Condition, Helper, Label, Reg, Size};
use crate::filter::Filter;
use crate::layers::{ARP, IPV4, IPV6};
use crate::program::{CompileError, Program, xdp};

/// Offsets in [`super::Config`].
const CONFIG_SHAPES: i16 = 0;
const CONFIG_MAC: i16 = 8;
pub(super) const CONFIG_TAPS: i16 = 16;
const CONFIG_GENERALS: i16 = 20;
/// Ethernet, IPv4's ARP and the target's address (RFC 826).
const ARP_LEN: i32 = 28;

/// Ends that several paths lead to.
#[derive(Clone, Copy)]
struct Ends {
    /// Leave it to the host.
    pass: Label,
    /// Leave it to the host, and count it as malformed.
    malformed: Label,
    /// No grant covers it.
    unclaimed: Label,
    /// To slot 0.
    daemon: Label,
    /// To [`SLOT`].
    deliver: Label,
}

/// The XDP program of the device.
pub fn incoming(maps: &MapFds) -> Program {
    receiving(maps, Side::In)
}

/// The traffic control program for the device's egress: the host's own packets to programs of this machine.
pub fn from_host(maps: &MapFds) -> Program {
    receiving(maps, Side::Host)
}

fn receiving(maps: &MapFds, side: Side) -> Program {
    let mut code = Code::new(maps, side);
    let ends = code.ends();
    code.clear();
    if side == Side::Host {
        code.leave_slots_alone(ends.pass);
    }
    code.measure();
    code.load_headers(ends.pass);
    code.configuration(ends.pass);
    code.by_type(ends);
    code.emit_ends(ends);
    Program::new(code.close())
}

/// The program of one slot's general filter, at `index` of `generals`: packets that no exact grant covers and that
/// match go to `slot`, others on to the programs behind it. See [`super`].
pub fn general(
    maps: &MapFds,
    index: u32,
    filter: &Filter,
    slot: u32,
) -> Result<Program, CompileError> {
    assert!(index < GENERALS_MAX, "general filter {index}");
    let mut code = Code::new(maps, Side::In);
    let ends = code.ends();
    let [matched, missed, lost] = [(); 3].map(|()| code.asm.label());
    splice(&mut code, filter, matched)?;
    code.asm.jump(missed);
    code.asm.bind(matched);
    code.resume(lost);
    code.asm.set(Reg::R1, slot as i32);
    code.put(SLOT, Reg::R1);
    code.asm.jump(ends.deliver);
    code.asm.bind(missed);
    code.call_any(maps.generals, index + 1..GENERALS_MAX);
    code.resume(lost);
    code.emit_strays(ends);
    code.asm.bind(lost);
    code.asm.set(Reg::R0, xdp::PASS);
    code.asm.exit();
    code.emit_used_ends(ends);
    Ok(Program::new(code.close()))
}

impl Code<'_> {
    fn ends(&mut self) -> Ends {
        let [pass, malformed, unclaimed, daemon, deliver] = [(); 5].map(|()| self.asm.label());
        Ends {
            pass,
            malformed,
            unclaimed,
            daemon,
            deliver,
        }
    }

    /// Slots' packets come by here on their way to the wire, and were looked at already.
    fn leave_slots_alone(&mut self, pass: Label) {
        let own = self.asm.label();
        // struct __sk_buff: ingress_ifindex.
        self.load(Size::Word, Reg::R1, Reg::R6, 36);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, own);
        self.write(Size::Word, CELL, Reg::R1);
        self.lookup(self.maps.by_ifindex, CELL, own);
        self.asm.jump(pass);
        self.asm.bind(own);
        // struct __sk_buff: vlan_present. Another network.
        self.load(Size::Word, Reg::R1, Reg::R6, 20);
        self.asm.jump_if(Reg::R1, Condition::NotEqual, 0, pass);
    }

    /// Fields from the configuration; frames for other stations are not ours to look at.
    fn configuration(&mut self, pass: Label) {
        let ours = self.asm.label();
        self.lookup_index(self.maps.config, 0, pass);
        self.asm.set(Reg::R7, Reg::R0);
        for (offset, field) in [(CONFIG_SHAPES, SHAPES), (CONFIG_TAPS, TAPS)] {
            self.load(Size::Word, Reg::R1, Reg::R7, offset);
            self.put(field, Reg::R1);
        }
        if self.side == Side::Host {
            // The host's packets to itself are not shown to anyone.
            return self.put_imm(TAPS, 0);
        }
        // IEEE 802.3 §3.2.3: the first bit sent says group; it is the lowest of the first byte.
        self.read(Size::Byte, Reg::R1, ETHERNET);
        self.asm.jump_if(Reg::R1, Condition::Set, 1, ours);
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + at);
            self.load(Size::Half, Reg::R2, Reg::R7, CONFIG_MAC + at);
            self.asm
                .jump_if(Reg::R1, Condition::NotEqual, Reg::R2, pass);
        }
        self.asm.bind(ours);
    }

    fn by_type(&mut self, ends: Ends) {
        let [v4, v6, arp, located] = [(); 4].map(|()| self.asm.label());
        self.read(Size::Half, Reg::R1, ETHERNET + 12);
        for (kind, label) in [(IPV4, v4), (IPV6, v6), (ARP, arp)] {
            self.asm
                .jump_if(Reg::R1, Condition::Equal, half(kind), label);
        }
        self.asm.jump(ends.unclaimed);
        self.asm.bind(arp);
        self.arp(ends);
        let faults = Faults {
            header: ends.malformed,
            fragment: ends.malformed,
        };
        self.asm.bind(v4);
        self.parse_v4(faults, located);
        self.asm.bind(v6);
        self.parse_v6(faults, located);
        self.asm.bind(located);
        self.neighbour_discovery(ends);
        let unclaimed = self.asm.label();
        self.classify(Local::Destination, unclaimed);
        self.put(SLOT, Reg::R0);
        self.asm.jump(ends.deliver);
        self.asm.bind(unclaimed);
        let known = self.asm.label();
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, known);
        self.asm.jump(ends.unclaimed);
        self.asm.bind(known);
        self.put_imm(STRAY, 1);
        self.sole_owner(ends.unclaimed);
        self.asm.alu(Alu::Add, Reg::R0, 1);
        self.put(STRAY, Reg::R0);
        self.asm.jump(ends.unclaimed);
    }

    /// Questions and answers about addresses that are ours alone are the daemon's. RFC 826: target protocol address.
    fn arp(&mut self, ends: Ends) {
        self.load_bytes(14, ARP_LEN, IP, ends.unclaimed);
        // Ethernet, IPv4, 6 and 4 bytes.
        for (at, value) in [(0, 1), (2, IPV4), (4, 0x0604)] {
            self.read(Size::Half, Reg::R1, IP + at);
            self.asm
                .jump_if(Reg::R1, Condition::NotEqual, half(value), ends.unclaimed);
        }
        self.map_address(IP + 24, DESTINATION);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ends.daemon);
        self.asm.jump(ends.pass);
    }

    /// RFC 4861 §4: types 133 to 137 are never a program's.
    fn neighbour_discovery(&mut self, ends: Ends) {
        let [other, addressed] = [(); 2].map(|()| self.asm.label());
        self.get(Reg::R1, IS_V6);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.get(Reg::R1, ICMP_TYPE);
        self.asm.alu(Alu::Sub, Reg::R1, 133);
        self.asm.jump_if(Reg::R1, Condition::Greater, 4, other);
        // Solicitation and advertisement, 135 and 136, name a target behind 8 bytes (RFC 4861 §4.3, §4.4).
        self.asm.alu(Alu::Sub, Reg::R1, 2);
        self.asm.jump_if(Reg::R1, Condition::Greater, 1, addressed);
        self.within(OFFSET, 24, addressed);
        self.asm.alu(Alu::Add, OFFSET, 8);
        self.load_bytes(OFFSET, 16, TARGET, addressed);
        self.if_address(TARGET, AddressFlags::OURS_ALONE, ends.daemon);
        self.asm.bind(addressed);
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, ends.daemon);
        self.asm.jump(ends.pass);
        self.asm.bind(other);
    }

    fn emit_ends(&mut self, ends: Ends) {
        self.asm.bind(ends.unclaimed);
        if self.side == Side::In {
            self.call_generals();
        }
        self.emit_strays(ends);
        self.asm.bind(ends.malformed);
        if self.side == Side::In {
            self.count(SLOT, &[(Counter::Malformed, Amount::One)]);
            self.host();
        } else {
            self.asm.jump(ends.pass);
        }
        self.emit_used_ends(ends);
    }

    /// The ends that every program has a use for.
    fn emit_used_ends(&mut self, ends: Ends) {
        self.asm.bind(ends.pass);
        if self.side == Side::In {
            self.count(SLOT, &[(Counter::PassToHost, Amount::One)]);
        }
        self.host();
        self.asm.bind(ends.daemon);
        self.put_imm(SLOT, 0);
        self.asm.bind(ends.deliver);
        self.deliver();
    }

    fn host(&mut self) {
        self.put_imm(SLOT, i32::from(TapRecord::NO_SLOT));
        let result = match self.side {
            Side::In => xdp::PASS,
            _ => tcx::NEXT,
        };
        self.finish_with(result, Verdict::Host);
    }

    /// What no grant and no filter covers.
    fn emit_strays(&mut self, ends: Ends) {
        self.get(Reg::R1, STRAY);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, ends.pass);
        self.asm.alu(Alu::Sub, Reg::R1, 1);
        self.put(SLOT, Reg::R1);
        self.asm
            .jump_if(Reg::R1, Condition::NotEqual, 0, ends.deliver);
        self.count(SLOT, &[(Counter::StrayToDaemon, Amount::One)]);
        self.asm.jump(ends.daemon);
    }

    /// Programs of general filters, if there are any; they do not come back.
    fn call_generals(&mut self) {
        let none = self.asm.label();
        self.lookup_index(self.maps.config, 0, none);
        self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_GENERALS);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, none);
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), none);
        self.leave(STRAY, scratch::STRAY);
        self.call_any(self.maps.generals, 0..GENERALS_MAX);
        self.asm.bind(none);
    }

    /// Fields of a program that was called: to `lost` when the maps are not there, which they are.
    fn resume(&mut self, lost: Label) {
        self.clear();
        self.measure();
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), lost);
        self.resume_field(STRAY, scratch::STRAY);
        self.lookup_index(self.maps.config, 0, lost);
        self.load(Size::Word, Reg::R1, Reg::R0, CONFIG_TAPS);
        self.put(TAPS, Reg::R1);
    }

    /// To the slot in its field, if it has something to go to and a share left.
    fn deliver(&mut self) {
        self.find_slot();
        let over = self.refuse(Counter::RxOverShare);
        self.police(SLOT_RX, LINK_RX, over);
        if self.side == Side::In {
            self.try_handler();
        }
        self.hand_over();
    }

    /// r7 = the entry of the slot in its field.
    pub(super) fn find_slot(&mut self) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_field(self.maps.slots, SLOT, no_ring);
        self.asm.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
    }

    /// To the slot that r7 points to.
    pub(super) fn hand_over(&mut self) {
        let [sent, daemon, named] = [(); 3].map(|()| self.asm.label());
        if self.side == Side::In {
            self.redirect_to_slot(sent);
        } else {
            let no_ring = self.refuse(Counter::NoRing);
            self.redirect_from_host(no_ring);
        }
        self.asm.bind(sent);
        self.count(
            SLOT,
            &[
                (Counter::RxPackets, Amount::One),
                (Counter::RxBytes, Amount::Length),
            ],
        );
        self.get(Reg::R1, SLOT);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, daemon);
        self.put_imm(VERDICT, i32::from(Verdict::Slot.to_byte()));
        self.asm.jump(named);
        self.asm.bind(daemon);
        self.put_imm(VERDICT, i32::from(Verdict::Daemon.to_byte()));
        self.asm.bind(named);
        self.finish();
    }

    /// Into memory that the slot's holder has for it, by the device map, or to the socket of the queue if that is the slot's.
    fn redirect_to_slot(&mut self, sent: Label) {
        let [direct, check] = [(); 2].map(|()| self.asm.label());
        let (no_ring, wrong_queue) = (
            self.refuse(Counter::NoRing),
            self.refuse(Counter::WrongQueue),
        );
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.asm
            .jump_if(Reg::R1, Condition::Equal, SlotKind::Direct as i32, direct);
        self.put_into_arrivals(sent);
        self.asm.load_map(Reg::R1, self.maps.ports);
        self.get(Reg::R2, SLOT);
        self.asm.set(Reg::R3, xdp::DROP);
        self.asm.call(Helper::RedirectMap);
        self.asm.jump(check);
        self.asm.bind(direct);
        // struct xdp_md: rx_queue_index.
        self.load(Size::Word, Reg::R7, Reg::R6, 16);
        self.write(Size::Word, CELL, Reg::R7);
        self.lookup(self.maps.queue_owner, CELL, wrong_queue);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.get(Reg::R2, SLOT);
        self.asm
            .jump_if(Reg::R1, Condition::NotEqual, Reg::R2, wrong_queue);
        self.asm.load_map(Reg::R1, self.maps.sockets);
        self.asm.set(Reg::R2, Reg::R7);
        self.asm.set(Reg::R3, xdp::DROP);
        self.asm.call(Helper::RedirectMap);
        self.asm.bind(check);
        self.asm
            .jump_if(Reg::R0, Condition::NotEqual, xdp::REDIRECT, no_ring);
        self.put(RESULT, Reg::R0);
        self.asm.jump(sent);
    }

    /// Out of the slot's interface; sockets of queues cannot be reached from here.
    fn redirect_from_host(&mut self, no_ring: Label) {
        self.load(Size::Word, Reg::R1, Reg::R7, 4);
        self.asm.jump_if(Reg::R1, Condition::Equal, 0, no_ring);
        self.asm.set(Reg::R2, 0);
        self.asm.call(Helper::Redirect);
        self.put(RESULT, Reg::R0);
    }
}

const _: () = assert!(ARP_LEN <= (TRANSPORT - IP) as i32);
