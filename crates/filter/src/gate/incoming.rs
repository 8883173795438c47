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

mod delivery;
mod generals;
mod neighbours;

use super::code::classify::Local;
use super::code::parse::Faults;
use super::code::{
    Amount, CELL, Code, DESTINATION, ETHERNET, SHAPES, SLOT, STRAY, Side, TAPS, half, tcx,
};
use super::counter::Counter;
use super::layout::AddressFlags;
use super::maps::MapFds;
use super::tap::{TapRecord, Verdict};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use crate::layers::{ARP, IPV4, IPV6};
use crate::program::{Program, xdp};
pub use generals::general;

/// Offsets in [`super::Config`].
const CONFIG_SHAPES: i16 = 0;
const CONFIG_MAC: i16 = 8;
pub(super) const CONFIG_TAPS: i16 = 16;

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

impl Code<'_> {
    fn ends(&mut self) -> Ends {
        let [pass, malformed, unclaimed, daemon, deliver] = [(); 5].map(|()| self.label());
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
        let own = self.label();
        // struct __sk_buff: ingress_ifindex.
        self.load(Size::Word, Reg::R1, Reg::R6, 36);
        self.jump_if(Reg::R1, Condition::Equal, 0, own);
        self.write(Size::Word, CELL, Reg::R1);
        self.lookup(self.maps.by_ifindex, CELL, own);
        self.jump(pass);
        self.bind(own);
        // struct __sk_buff: vlan_present. Another network.
        self.load(Size::Word, Reg::R1, Reg::R6, 20);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, pass);
    }

    /// Fields from the configuration; frames for other stations are not ours to look at.
    fn configuration(&mut self, pass: Label) {
        let ours = self.label();
        self.lookup_index(self.maps.config, 0, pass);
        self.set(Reg::R7, Reg::R0);
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
        self.jump_if(Reg::R1, Condition::Set, 1, ours);
        for at in [0, 2, 4] {
            self.read(Size::Half, Reg::R1, ETHERNET + at);
            self.load(Size::Half, Reg::R2, Reg::R7, CONFIG_MAC + at);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, pass);
        }
        self.bind(ours);
    }

    fn by_type(&mut self, ends: Ends) {
        let [v4, v6, arp, located] = [(); 4].map(|()| self.label());
        self.read(Size::Half, Reg::R1, ETHERNET + 12);
        for (kind, label) in [(IPV4, v4), (IPV6, v6), (ARP, arp)] {
            self.jump_if(Reg::R1, Condition::Equal, half(kind), label);
        }
        self.jump(ends.unclaimed);
        self.bind(arp);
        self.arp(ends);
        let faults = Faults {
            header: ends.malformed,
            fragment: ends.malformed,
        };
        self.bind(v4);
        self.parse_v4(faults, located);
        self.bind(v6);
        self.parse_v6(faults, located);
        self.bind(located);
        self.neighbour_discovery(ends);
        let unclaimed = self.label();
        self.classify(Local::Destination, unclaimed);
        self.put(SLOT, Reg::R0);
        self.jump(ends.deliver);
        self.bind(unclaimed);
        let known = self.label();
        self.if_address(DESTINATION, AddressFlags::OURS_ALONE, known);
        self.jump(ends.unclaimed);
        self.bind(known);
        self.put_imm(STRAY, 1);
        self.sole_owner(ends.unclaimed);
        self.alu(Alu::Add, Reg::R0, 1);
        self.put(STRAY, Reg::R0);
        self.jump(ends.unclaimed);
    }

    fn emit_ends(&mut self, ends: Ends) {
        self.bind(ends.unclaimed);
        if self.side == Side::In {
            self.call_generals();
        }
        self.emit_strays(ends);
        self.bind(ends.malformed);
        if self.side == Side::In {
            self.count(SLOT, &[(Counter::Malformed, Amount::One)]);
            self.host();
        } else {
            self.jump(ends.pass);
        }
        self.emit_used_ends(ends);
    }

    /// The ends that every program has a use for.
    fn emit_used_ends(&mut self, ends: Ends) {
        self.bind(ends.pass);
        if self.side == Side::In {
            self.count(SLOT, &[(Counter::PassToHost, Amount::One)]);
        }
        self.host();
        self.bind(ends.daemon);
        self.put_imm(SLOT, 0);
        self.bind(ends.deliver);
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
        self.jump_if(Reg::R1, Condition::Equal, 0, ends.pass);
        self.alu(Alu::Sub, Reg::R1, 1);
        self.put(SLOT, Reg::R1);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, ends.deliver);
        self.count(SLOT, &[(Counter::StrayToDaemon, Amount::One)]);
        self.jump(ends.daemon);
    }
}
