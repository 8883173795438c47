//! What of a packet has to hold before it is a message: UDP to our port and address, in one piece, with the checksum right.

use std::net::IpAddr;

use exos_filter::ebpf::{Alu, Condition, Emit, Label, Reg, Size};
use exos_filter::handler::arithmetic::{expect_half, expect_right, expect_word, fold, half};
use exos_wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use exos_wire::protocol;

use super::sum::HEADER;
use super::{CONTEXT, Generator, KEPT, LENGTH, MESSAGE, START_MAX, START_MIN, stack};
use crate::limits::MESSAGE_MAX;

/// The packet, until the message has been found.
const FRAME: Reg = Reg::R2;
const END: Reg = Reg::R3;
/// Where things lie in a frame.
const TYPE: usize = 12;
const IP: usize = 14;

/// The headers of one version of IP.
#[derive(Clone, Copy)]
struct Version {
    /// Where its addresses lie, and how many words they are.
    addresses: usize,
    words: usize,
    /// Where the message begins.
    start: usize,
    /// Where the half word is that tells IP's length, and how much of it stands before UDP's header.
    length: usize,
    before_udp: i32,
}

const IPV4: Version = Version {
    addresses: IP + 12,
    words: 2,
    start: START_MIN as usize,
    length: IP + 2,
    before_udp: 20,
};
const IPV6: Version = Version {
    addresses: IP + 8,
    words: 8,
    start: START_MAX as usize,
    length: IP + 4,
    before_udp: 0,
};

impl Generator<'_> {
    /// From the program's first instruction to the message in its registers.
    pub(super) fn arrive(&mut self) {
        self.set(CONTEXT, Reg::R1);
        self.load(Size::Word, FRAME, CONTEXT, 0);
        self.end_of_packet(END);
        self.expect_room(IPV4);
        let [m0, m1, m2, m3, m4, m5] = self.of.mac.0;
        let other = self.labels.filter;
        let first = u32::from_be_bytes([m0, m1, m2, m3]);
        expect_word(&mut self.asm, FRAME, 0, first, other);
        expect_half(&mut self.asm, FRAME, 4, u16::from_be_bytes([m4, m5]), other);
        // From a group no frame comes.
        self.load(Size::Byte, Reg::R1, FRAME, 6);
        self.jump_if(Reg::R1, Condition::Set, 1, other);
        self.load(Size::Half, Reg::R1, FRAME, TYPE);
        self.expect_ip();
        self.find();
        self.expect_checksum();
        if self.of.handler.longest_reply().is_some() {
            self.make_room();
        } else {
            self.forget_length();
            self.clamp_length();
        }
    }

    /// Only of the versions that we have addresses of: the kernel takes no instructions that nothing leads to.
    fn expect_ip(&mut self) {
        let [v6, found] = [self.label(), self.label()];
        let other = self.labels.filter;
        let [has_v4, has_v6] = self.of.versions();
        if has_v4 {
            let next = if has_v6 { v6 } else { other };
            self.expect_type(ETHERTYPE_IPV4, next);
            self.expect_ipv4();
            self.expect_udp(IPV4);
        }
        if has_v4 && has_v6 {
            self.jump(found);
        }
        if has_v6 {
            self.bind(v6);
            self.expect_type(ETHERTYPE_IPV6, other);
            self.expect_room(IPV6);
            self.expect_ipv6();
            self.expect_udp(IPV6);
        }
        self.bind(found);
    }

    fn expect_type(&mut self, ethertype: u16, other: Label) {
        self.jump_if(Reg::R1, Condition::NotEqual, half(ethertype), other);
    }

    fn expect_room(&mut self, version: Version) {
        self.set(Reg::R1, FRAME);
        self.alu(Alu::Add, Reg::R1, version.start as i32);
        self.jump_if(Reg::R1, Condition::Greater, END, self.labels.filter);
    }

    /// No options, no fragment, its checksum right, UDP, from someone who can be answered, to one of our addresses.
    fn expect_ipv4(&mut self) {
        let other = self.labels.filter;
        self.load(Size::Byte, Reg::R1, FRAME, IP);
        self.jump_if(Reg::R1, Condition::NotEqual, 0x45, other);
        self.add_addresses(IPV4);
        let sum = Reg::R4;
        self.set(sum, KEPT);
        for at in [IP, IP + 4, IP + 8] {
            self.load(Size::Word, Reg::R1, FRAME, at);
            self.alu(Alu::Add, sum, Reg::R1);
        }
        expect_right(&mut self.asm, sum, Reg::R1, other);
        self.load(Size::Half, Reg::R1, FRAME, IP + 6);
        // More fragments, or not the first.
        self.jump_if(Reg::R1, Condition::Set, half(0x3fff), other);
        self.load(Size::Byte, Reg::R1, FRAME, IP + 9);
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            i32::from(protocol::UDP),
            other,
        );
        self.load(Size::Byte, Reg::R1, FRAME, IP + 12);
        for from in [0, 127] {
            self.jump_if(Reg::R1, Condition::Equal, from, other);
        }
        self.jump_if(Reg::R1, Condition::GreaterOrEqual, 224, other);
        for broadcast in self.of.not_from.clone() {
            let another = self.label();
            self.expect_address(&[IP + 12], broadcast.into(), another);
            self.jump(other);
            self.bind(another);
        }
        self.expect_ours(&[IP + 12], &[IP + 16], IpAddr::is_ipv4);
    }

    /// UDP at once, from someone who can be answered, to one of our addresses.
    fn expect_ipv6(&mut self) {
        let other = self.labels.filter;
        self.load(Size::Byte, Reg::R1, FRAME, IP);
        self.alu(Alu::ShiftRight, Reg::R1, 4);
        self.jump_if(Reg::R1, Condition::NotEqual, 6, other);
        self.load(Size::Byte, Reg::R1, FRAME, IP + 6);
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            i32::from(protocol::UDP),
            other,
        );
        // Multicast, and what begins with 64 zeros: loopback, no address, one of IPv4.
        self.load(Size::Byte, Reg::R1, FRAME, IP + 8);
        self.jump_if(Reg::R1, Condition::Equal, 0xff, other);
        self.load(Size::Double, Reg::R1, FRAME, IP + 8);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        self.add_addresses(IPV6);
        // There has to be a checksum (RFC 8200 §8.1).
        self.load(Size::Half, Reg::R1, FRAME, IPV6.start - 2);
        self.jump_if(Reg::R1, Condition::Equal, 0, other);
        let words = |at: usize| [at, at + 4, at + 8, at + 12];
        self.expect_ours(&words(IP + 8), &words(IP + 24), IpAddr::is_ipv6);
    }

    /// To one of our addresses, and from none of them; unless a gate has looked at them.
    fn expect_ours(&mut self, source: &[usize], destination: &[usize], is: fn(&IpAddr) -> bool) {
        let ours: Vec<_> = self.of.addresses.iter().copied().filter(is).collect();
        if ours.is_empty() {
            return;
        }
        let (to_us, last) = (self.label(), ours.len() - 1);
        for address in &ours[..last] {
            let another = self.label();
            self.expect_address(destination, *address, another);
            self.jump(to_us);
            self.bind(another);
        }
        self.expect_address(destination, ours[last], self.labels.filter);
        self.bind(to_us);
        for address in &ours {
            let another = self.label();
            self.expect_address(source, *address, another);
            self.jump(self.labels.filter);
            self.bind(another);
        }
    }

    /// Goes to `other` where the words in the frame are not the address.
    fn expect_address(&mut self, at: &[usize], address: IpAddr, other: Label) {
        let octets = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        for (at, value) in at.iter().zip(octets.chunks_exact(4)) {
            let value = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
            expect_word(&mut self.asm, FRAME, *at, value, other);
        }
    }

    /// r9 = the sum of the addresses, which waits on the stack, too.
    fn add_addresses(&mut self, version: Version) {
        self.load(Size::Word, KEPT, FRAME, version.addresses);
        for word in 1..version.words {
            self.load(Size::Word, Reg::R1, FRAME, version.addresses + 4 * word);
            self.alu(Alu::Add, KEPT, Reg::R1);
        }
        self.keep(stack::ADDRESSES, KEPT);
    }

    /// Ports, and lengths that fit each other.
    fn expect_udp(&mut self, version: Version) {
        let other = self.labels.filter;
        let udp = version.start - HEADER as usize;
        expect_half(&mut self.asm, FRAME, udp + 2, self.of.port, other);
        // One that comes from such a port may be another handler's reply: two would answer each other for ever.
        self.load(Size::Half, Reg::R1, FRAME, udp);
        for from in [0, half(self.of.port)] {
            self.jump_if(Reg::R1, Condition::Equal, from, other);
        }
        self.load(Size::Half, LENGTH, FRAME, udp + 4);
        self.to_big_endian(LENGTH, 16);
        self.load(Size::Half, Reg::R1, FRAME, version.length);
        self.to_big_endian(Reg::R1, 16);
        self.alu(Alu::Sub, Reg::R1, version.before_udp);
        self.jump_if(Reg::R1, Condition::NotEqual, LENGTH, other);
    }

    /// The message is in its registers. Where it begins is computed of the packet if there are two versions, so that the verifier does not
    /// know it, and follows what comes next once.
    fn find(&mut self) {
        let other = self.labels.filter;
        self.alu(Alu::Sub, LENGTH, HEADER);
        // One that says less than a header has becomes very long.
        self.jump_if(LENGTH, Condition::Greater, i32::from(MESSAGE_MAX), other);
        self.set(MESSAGE, FRAME);
        match self.of.start() {
            None => {
                let start = Reg::R4;
                self.load(Size::Byte, start, FRAME, IP);
                // A bit that version 6 has, and version 4 has not.
                self.alu(Alu::ShiftRight, start, 5);
                self.alu(Alu::And, start, 1);
                self.alu(Alu::Mul, start, START_MAX - START_MIN);
                self.alu(Alu::Add, MESSAGE, START_MIN);
                self.alu(Alu::Add, MESSAGE, start);
                self.alu(Alu::Add, start, START_MIN);
                self.keep(stack::START, start);
                // For the verifier.
                self.jump_if(MESSAGE, Condition::Greater, END, other);
            }
            Some(start) => self.alu(Alu::Add, MESSAGE, start),
        }
        self.set(Reg::R1, MESSAGE);
        self.alu(Alu::Add, Reg::R1, LENGTH);
        self.jump_if(Reg::R1, Condition::Greater, END, other);
    }

    /// IPv4 may have none. What a checksum says that is right is kept; of one that is still to be made, nothing.
    fn expect_checksum(&mut self) {
        let [right, partial, other] = [self.label(), self.label(), self.labels.filter];
        let field = Reg::R5;
        self.load(Size::Half, field, MESSAGE, -2);
        self.keep(stack::SUM, field);
        self.jump_if(field, Condition::Equal, 0, right);
        self.add_pseudo_header();
        if self.of.may_be_partial {
            let sum = Reg::R3;
            self.set(sum, KEPT);
            fold(&mut self.asm, sum, Reg::R1);
            self.jump_if(field, Condition::Equal, sum, partial);
        }
        self.add_datagram();
        expect_right(&mut self.asm, KEPT, Reg::R1, other);
        if self.of.may_be_partial {
            self.jump(right);
            self.bind(partial);
            self.store_imm(Size::Double, Reg::R10, stack::SUM, 0);
        }
        self.bind(right);
    }
}
