//! Code that reads headers into the fields of the stack frame, see [`super`].
//!
//! Does what `tests/all/gate/model/packet.rs` does, branch by branch; the RFC's words stand there.

use super::{
    CELL, Code, DESTINATION, DESTINATION_PORT, END, ETHERNET, FRAGMENT, ICMP_TYPE, IDENTIFIER, IP,
    IS_V6, LENGTH, ODD, PROTOCOL, QUOTED_DESTINATION, QUOTED_SOURCE, SHAPES, SOURCE, SOURCE_PORT,
    Side, TRANSPORT, fragment, half,
};
use crate::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use crate::gate::layout::Shape;
use crate::packet::{
    self, ANY_FRAGMENT, FRAGMENT_OFFSET, LATER_FRAGMENT, Walk, WalkEnds, WalksHeaders,
};
use exos_wire::ipv6::EXTENSION_HEADERS;
use exos_wire::protocol::{ICMP, ICMPV6, ROUTING, TCP, UDP};

/// Where the transport header begins, once the network header is read.
pub(in crate::gate) const OFFSET: Reg = Reg::R7;
/// The next header of IPv6, or a number found in a quoted packet.
const NEXT: Reg = Reg::R8;
/// Where IP begins.
const NETWORK: i32 = packet::NETWORK as i32;
/// Ethernet and the shortest IPv4 header: what is shorter is nobody's.
const SHORTEST: i32 = NETWORK + 20;
/// Of a transport header: ports, or what ICMP begins with.
const PORTS_LEN: i32 = 8;

/// Where contradictions lead.
#[derive(Clone, Copy)]
pub(in crate::gate) struct Faults {
    /// The network header, or the transport header of a whole packet.
    pub(in crate::gate) header: Label,
    /// A first fragment without its transport header.
    pub(in crate::gate) fragment: Label,
}

impl Code<'_> {
    /// Ethernet and the first bytes behind it. Of what arrives at the device, which is most, by one call with what stands behind the shortest IPv4
    /// header, if that is there; the verifier follows more ways for that.
    pub(in crate::gate) fn load_headers(&mut self, too_short: Label) {
        let [short, loaded] = [(); 2].map(|()| self.label());
        self.get(Reg::R1, LENGTH);
        self.jump_if(Reg::R1, Condition::Less, SHORTEST, too_short);
        if self.side != Side::In {
            return self.load_bytes(0, SHORTEST, ETHERNET, too_short);
        }
        // Of a number that was changed the verifier learns nothing about the one that it was: it follows what comes next once.
        self.alu(Alu::ShiftLeft, Reg::R1, 1);
        let with_ports = SHORTEST + PORTS_LEN;
        self.jump_if(Reg::R1, Condition::Less, with_ports << 1, short);
        self.load_bytes(0, with_ports, ETHERNET, too_short);
        self.jump(loaded);
        self.bind(short);
        for at in [20, 24] {
            self.store_imm(Size::Word, Reg::R10, IP + at, 0);
        }
        self.load_bytes(0, SHORTEST, ETHERNET, too_short);
        self.bind(loaded);
    }

    /// The first bytes of UDP's or TCP's header, which lie in the packet: where they were loaded, they are there.
    fn load_ports(&mut self, short: Label) {
        if self.side != Side::In {
            return self.load_bytes(OFFSET, PORTS_LEN, TRANSPORT, short);
        }
        let [elsewhere, loaded] = [(); 2].map(|()| self.label());
        self.jump_if(OFFSET, Condition::NotEqual, SHORTEST, elsewhere);
        for at in [0, 4] {
            self.read(Size::Word, Reg::R1, IP + 20 + at);
            self.write(Size::Word, TRANSPORT + at, Reg::R1);
        }
        self.jump(loaded);
        self.bind(elsewhere);
        self.load_bytes(OFFSET, PORTS_LEN, TRANSPORT, short);
        self.bind(loaded);
    }

    /// IPv4, its first 20 bytes loaded, and the transport header. Ends at `located`.
    pub(in crate::gate) fn parse_v4(&mut self, faults: Faults, located: Label) {
        let [options, whole, first] = [(); 3].map(|()| self.label());
        self.read(Size::Byte, OFFSET, IP);
        packet::ipv4_options(&mut self.asm, OFFSET, faults.header);
        self.jump_if(OFFSET, Condition::Equal, 0, options);
        self.put_imm(ODD, 1);
        self.bind(options);
        self.alu(Alu::Add, OFFSET, NETWORK + 20);
        self.read(Size::Half, Reg::R1, IP + 2);
        self.to_big_endian(Reg::R1, 16);
        self.end_of_packet(NETWORK, faults.header);
        self.jump_if(OFFSET, Condition::Greater, Reg::R1, faults.header);
        self.map_address(IP + 12, SOURCE);
        self.map_address(IP + 16, DESTINATION);
        self.read(Size::Byte, Reg::R1, IP + 9);
        self.put(PROTOCOL, Reg::R1);
        self.read(Size::Half, Reg::R1, IP + 4);
        self.to_big_endian(Reg::R1, 16);
        self.put(IDENTIFIER, Reg::R1);
        self.read(Size::Half, Reg::R1, IP + 6);
        self.alu(Alu::And, Reg::R1, half(ANY_FRAGMENT));
        self.jump_if(Reg::R1, Condition::Equal, 0, whole);
        self.alu(Alu::And, Reg::R1, half(FRAGMENT_OFFSET));
        self.jump_if(Reg::R1, Condition::Equal, 0, first);
        self.put_imm(FRAGMENT, fragment::LATER);
        self.jump(located);
        self.bind(first);
        self.put_imm(FRAGMENT, fragment::FIRST);
        if self.side.is_sending() {
            self.read(Size::Half, Reg::R1, IP + 6);
            self.jump_if(Reg::R1, Condition::Set, half(0x4000), faults.fragment);
        }
        self.header_sum(faults.fragment);
        self.bind(whole);
        self.parse_transport(ICMP, faults, located);
    }

    /// To `wrong` unless the sum of the loaded IPv4 header is right. With options it is not looked at.
    fn header_sum(&mut self, wrong: Label) {
        let options = self.label();
        self.get(Reg::R1, ODD);
        self.jump_if(Reg::R1, Condition::NotEqual, 0, options);
        self.set(Reg::R2, 0);
        for at in (0..20).step_by(2) {
            self.read(Size::Half, Reg::R1, IP + at);
            self.alu(Alu::Add, Reg::R2, Reg::R1);
        }
        // A right sum is a multiple of 0xffff, which is 0xffff once folded.
        self.set(Reg::R1, Reg::R2);
        self.alu(Alu::ShiftRight, Reg::R1, 16);
        self.alu(Alu::And, Reg::R2, 0xffff);
        self.alu(Alu::Add, Reg::R2, Reg::R1);
        self.jump_if(Reg::R2, Condition::NotEqual, 0xffff, wrong);
        self.bind(options);
    }

    /// r1 = [`END`] = `base` + r1, which must lie in the frame.
    fn end_of_packet(&mut self, base: i32, outside: Label) {
        self.alu(Alu::Add, Reg::R1, base);
        self.get(Reg::R2, LENGTH);
        self.jump_if(Reg::R1, Condition::Greater, Reg::R2, outside);
        self.put(END, Reg::R1);
    }

    /// To `outside` unless `len` bytes from `from` on lie in the IP packet.
    pub(in crate::gate) fn within(&mut self, from: Reg, len: i32, outside: Label) {
        self.set(Reg::R1, from);
        self.alu(Alu::Add, Reg::R1, len);
        self.get(Reg::R2, END);
        self.jump_if(Reg::R1, Condition::Greater, Reg::R2, outside);
    }

    /// IPv6, its headers, and the transport header. Ends at `located`.
    pub(in crate::gate) fn parse_v6(&mut self, faults: Faults, located: Label) {
        let transport = self.label();
        self.put_imm(IS_V6, 1);
        self.load_bytes(NETWORK, 40, IP, faults.header);
        self.read(Size::Byte, Reg::R1, IP);
        packet::expect_ipv6(&mut self.asm, Reg::R1, faults.header);
        self.read(Size::Half, Reg::R1, IP + 4);
        self.to_big_endian(Reg::R1, 16);
        self.end_of_packet(NETWORK + 40, faults.header);
        // In the tables they would be IPv4 addresses.
        self.refuse_mapped(IP + 8, faults.header);
        self.refuse_mapped(IP + 24, faults.header);
        self.copy_address(IP + 8, SOURCE);
        self.copy_address(IP + 24, DESTINATION);
        self.read(Size::Byte, NEXT, IP + 6);
        self.set(OFFSET, NETWORK + 40);
        let ends = WalkEnds {
            transport,
            later: transport,
            malformed: faults.header,
        };
        packet::walk_extension_headers(self, ends);
        self.put(PROTOCOL, NEXT);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::Equal, fragment::LATER, located);
        let whole = self.label();
        self.jump_if(Reg::R1, Condition::Equal, fragment::WHOLE, whole);
        if self.side.is_sending() {
            // Only the fragment header before it. By the offset itself the verifier would tell apart how many headers were walked over.
            self.write(Size::Half, CELL + 2, OFFSET);
            self.read(Size::Half, Reg::R1, CELL + 2);
            let only = NETWORK + 40 + 8;
            self.jump_if(Reg::R1, Condition::NotEqual, only, faults.fragment);
        }
        self.get(Reg::R1, END);
        self.alu(Alu::Sub, Reg::R1, OFFSET);
        self.jump_if(Reg::R1, Condition::Set, 7, faults.fragment);
        self.bind(whole);
        self.parse_transport(ICMPV6, faults, located);
    }

    /// Ports, or what stands for them. `icmp` is the version's.
    fn parse_transport(&mut self, icmp: u8, faults: Faults, located: Label) {
        let [tcp, udp, ports, control, short] = [(); 5].map(|()| self.label());
        self.get(Reg::R1, PROTOCOL);
        for (protocol, label) in [(TCP, tcp), (UDP, udp), (icmp, control)] {
            self.jump_if(Reg::R1, Condition::Equal, i32::from(protocol), label);
        }
        self.jump(located);
        self.bind(tcp);
        self.within(OFFSET, 20, short);
        self.jump(ports);
        self.bind(udp);
        self.within(OFFSET, 8, short);
        self.bind(ports);
        self.load_ports(short);
        for (at, field) in [(0, SOURCE_PORT), (2, DESTINATION_PORT)] {
            self.read(Size::Half, Reg::R1, TRANSPORT + at);
            self.put(field, Reg::R1);
        }
        self.jump(located);
        self.bind(control);
        self.within(OFFSET, 8, short);
        self.load_bytes(OFFSET, 8, TRANSPORT, short);
        // What is sent says which flow it is about, or goes nowhere.
        if self.side.is_sending() {
            self.parse_icmp(icmp == ICMPV6, faults.header, located);
        } else {
            let unreadable = self.label();
            self.parse_icmp(icmp == ICMPV6, unreadable, located);
            self.bind(unreadable);
            self.get(Reg::R1, SHAPES);
            self.alu(Alu::And, Reg::R1, Shape::Address as i32);
            self.put(SHAPES, Reg::R1);
            self.jump(located);
        }
        self.bind(short);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::Equal, fragment::FIRST, faults.fragment);
        self.jump(faults.header);
    }

    /// Type, identifier, or the quoted packet; ends at `located`, with an error that is not understood at `unreadable`.
    fn parse_icmp(&mut self, v6: bool, unreadable: Label, located: Label) {
        let [request, reply, quote] = [(); 3].map(|()| self.label());
        let (request_type, reply_type) = if v6 { (128, 129) } else { (8, 0) };
        let errors: &[i32] = if v6 { &[1, 2, 3, 4] } else { &[3, 4, 11, 12] };
        self.read(Size::Byte, Reg::R1, TRANSPORT);
        self.put(ICMP_TYPE, Reg::R1);
        self.jump_if(Reg::R1, Condition::Equal, request_type, request);
        self.jump_if(Reg::R1, Condition::Equal, reply_type, reply);
        for error in errors {
            self.jump_if(Reg::R1, Condition::Equal, *error, quote);
        }
        if v6 {
            // RFC 4443 §2.1: an error, if an unknown one.
            self.jump_if(Reg::R1, Condition::Less, 128, unreadable);
        }
        self.jump(located);
        for (label, field) in [(request, SOURCE_PORT), (reply, DESTINATION_PORT)] {
            self.bind(label);
            self.read(Size::Half, Reg::R1, TRANSPORT + 4);
            self.put(field, Reg::R1);
            self.jump(located);
        }
        self.bind(quote);
        self.get(Reg::R1, FRAGMENT);
        self.jump_if(Reg::R1, Condition::NotEqual, fragment::WHOLE, unreadable);
        self.alu(Alu::Add, OFFSET, 8);
        if v6 {
            self.quoted_v6(unreadable);
        } else {
            self.quoted_v4(unreadable);
        }
        self.quoted_transport(v6, unreadable, located);
    }

    fn quoted_v4(&mut self, unreadable: Label) {
        self.within(OFFSET, 28, unreadable);
        self.load_bytes(OFFSET, 20, IP, unreadable);
        self.read(Size::Byte, Reg::R1, IP);
        packet::ipv4_options(&mut self.asm, Reg::R1, unreadable);
        self.alu(Alu::Add, OFFSET, Reg::R1);
        self.alu(Alu::Add, OFFSET, 20);
        self.read(Size::Half, Reg::R1, IP + 6);
        self.jump_if(Reg::R1, Condition::Set, half(FRAGMENT_OFFSET), unreadable);
        self.map_address(IP + 12, QUOTED_SOURCE);
        self.map_address(IP + 16, QUOTED_DESTINATION);
        self.read(Size::Byte, NEXT, IP + 9);
    }

    fn quoted_v6(&mut self, unreadable: Label) {
        self.within(OFFSET, 48, unreadable);
        self.load_bytes(OFFSET, 40, IP, unreadable);
        self.read(Size::Byte, Reg::R1, IP);
        packet::expect_ipv6(&mut self.asm, Reg::R1, unreadable);
        self.alu(Alu::Add, OFFSET, 40);
        self.copy_address(IP + 8, QUOTED_SOURCE);
        self.copy_address(IP + 24, QUOTED_DESTINATION);
        self.read(Size::Byte, NEXT, IP + 6);
        for header in EXTENSION_HEADERS {
            self.jump_if(NEXT, Condition::Equal, i32::from(header), unreadable);
        }
    }

    /// The error counts as a packet of the flow that it is about, in the direction opposite to the quoted one.
    fn quoted_transport(&mut self, v6: bool, unreadable: Label, located: Label) {
        let [ports, control, request, reply] = [(); 4].map(|()| self.label());
        self.within(OFFSET, 8, unreadable);
        self.load_bytes(OFFSET, 8, TRANSPORT, unreadable);
        self.same_address(QUOTED_SOURCE, DESTINATION, unreadable);
        if self.side.is_sending() {
            self.same_address(QUOTED_DESTINATION, SOURCE, unreadable);
        }
        self.copy_address(QUOTED_DESTINATION, SOURCE);
        self.put(PROTOCOL, NEXT);
        let icmp = if v6 { ICMPV6 } else { ICMP };
        for (protocol, label) in [(TCP, ports), (UDP, ports), (icmp, control)] {
            self.jump_if(NEXT, Condition::Equal, i32::from(protocol), label);
        }
        self.jump(located);
        self.bind(ports);
        for (at, field) in [(0, DESTINATION_PORT), (2, SOURCE_PORT)] {
            self.read(Size::Half, Reg::R1, TRANSPORT + at);
            self.put(field, Reg::R1);
        }
        self.jump(located);
        self.bind(control);
        let (request_type, reply_type) = if v6 { (128, 129) } else { (8, 0) };
        self.read(Size::Byte, Reg::R1, TRANSPORT);
        self.jump_if(Reg::R1, Condition::Equal, request_type, request);
        self.jump_if(Reg::R1, Condition::Equal, reply_type, reply);
        self.jump(located);
        for (label, field) in [(request, DESTINATION_PORT), (reply, SOURCE_PORT)] {
            self.bind(label);
            self.read(Size::Half, Reg::R1, TRANSPORT + 4);
            self.put(field, Reg::R1);
            self.jump(located);
        }
    }
}

/// With the open header on the stack.
impl WalksHeaders for Code<'_> {
    const WALK: Walk = Walk {
        next: NEXT,
        offset: OFFSET,
        spare: Reg::R1,
    };

    fn open_header(&mut self, malformed: Label) {
        self.within(OFFSET, 8, malformed);
        self.load_bytes(OFFSET, 8, TRANSPORT, malformed);
    }

    fn read_header(&mut self, size: Size, dst: Reg, at: i16) {
        self.read(size, dst, TRANSPORT + at);
    }

    fn fragment_header(&mut self, later: Label) {
        let [not_later, atomic] = [(); 2].map(|()| self.label());
        self.read_header(Size::Word, Reg::R1, 4);
        self.to_big_endian(Reg::R1, 32);
        self.put(IDENTIFIER, Reg::R1);
        self.read_header(Size::Half, Reg::R1, 2);
        self.set(Reg::R2, Reg::R1);
        self.alu(Alu::And, Reg::R2, half(LATER_FRAGMENT));
        self.jump_if(Reg::R2, Condition::Equal, 0, not_later);
        self.put_imm(FRAGMENT, fragment::LATER);
        self.jump(later);
        self.bind(not_later);
        self.alu(Alu::And, Reg::R1, half(1));
        self.jump_if(Reg::R1, Condition::Equal, 0, atomic);
        self.put_imm(FRAGMENT, fragment::FIRST);
        self.bind(atomic);
    }

    fn generic_header(&mut self) {
        let unrouted = self.label();
        self.jump_if(NEXT, Condition::NotEqual, i32::from(ROUTING), unrouted);
        self.put_imm(ODD, 1);
        self.bind(unrouted);
    }

    fn expect_offset(&mut self, malformed: Label) {
        self.get(Reg::R2, END);
        self.jump_if(OFFSET, Condition::Greater, Reg::R2, malformed);
    }
}
