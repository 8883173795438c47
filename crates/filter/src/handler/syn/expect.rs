//! What a SYN that is answered looks like: everything else goes on to the filter.

use super::settings::SynHandler;
use super::shape::{
    CONTEXT, FRAME, MSS_OPTION, Offers, PACKET, SACK_AND_TIMESTAMPS, SCALE_MAX, SCALE_OPTION, Shape,
};
use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size};
use crate::handler::arithmetic::{
    add_words, expect_half, expect_header_sum, expect_word, fold, half, word,
};
use crate::handler::forward::Shape as Headers;
use crate::packet::{ETHERTYPE, NETWORK as IP, expect_ipv6, expect_station};
use exos_wire::{ipv4, protocol, tcp};
use std::net::IpAddr;

impl SynHandler {
    /// A frame to us from one host, with the family's type. The context is in r1; leaves the end of the frame in r9.
    pub(in crate::handler) fn expect_frame(
        &self,
        asm: &mut Assembler,
        families: &[(Headers, Label)],
        other: Label,
    ) {
        asm.set(CONTEXT, Reg::R1);
        PACKET.open(asm, CONTEXT);
        PACKET.expect(asm, IP + ipv4::LEN + tcp::LEN, Reg::R1, other);
        expect_station(asm, FRAME, self.mac, other);
        // Not a group.
        asm.load(Size::Byte, Reg::R1, FRAME, 6);
        asm.jump_if(Reg::R1, Condition::Set, 1, other);
        asm.load(Size::Half, Reg::R1, FRAME, ETHERTYPE);
        for (headers, family) in families {
            let ethertype = half(headers.ethertype());
            asm.jump_if(Reg::R1, Condition::Equal, ethertype, *family);
        }
        asm.jump(other);
    }

    /// A segment to the port, in headers without anything unusual before TCP's; to `unusual` with a fragment, and where there may be options or
    /// extension headers.
    pub(in crate::handler) fn expect_segment(
        &self,
        asm: &mut Assembler,
        headers: Headers,
        [unusual, other]: [Label; 2],
    ) {
        let upper = headers.upper();
        if headers.ipv6 {
            PACKET.expect(asm, upper + tcp::LEN, Reg::R1, other);
            asm.load(Size::Byte, Reg::R1, FRAME, IP);
            expect_ipv6(asm, Reg::R1, other);
        } else {
            asm.load(Size::Byte, Reg::R1, FRAME, IP);
            asm.jump_if(Reg::R1, Condition::NotEqual, 0x45, unusual);
            // No fragment.
            asm.load(Size::Half, Reg::R1, FRAME, IP + 6);
            asm.jump_if(Reg::R1, Condition::Set, half(0xbfff), unusual);
        }
        asm.load(Size::Byte, Reg::R1, FRAME, headers.protocol_field());
        let wanted = i32::from(protocol::TCP);
        let is_another = if headers.ipv6 { unusual } else { other };
        asm.jump_if(Reg::R1, Condition::NotEqual, wanted, is_another);
        self.expect_addresses(asm, headers, other);
        asm.load(Size::Half, Reg::R1, FRAME, upper);
        asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        expect_half(asm, FRAME, upper + 2, self.recipe.port, other);
    }

    /// To an address of ours, from one that a host may have.
    pub(in crate::handler) fn expect_addresses(
        &self,
        asm: &mut Assembler,
        headers: Headers,
        other: Label,
    ) {
        let ours = asm.label();
        let source = headers.addresses();
        find_address(asm, headers, headers.receiver(), &self.addresses, ours);
        asm.jump(other);
        asm.bind(ours);
        if headers.ipv6 {
            // Groups; and unspecified, loopback, mapped addresses: all that begin with eight zeros.
            asm.load(Size::Byte, Reg::R1, FRAME, source);
            asm.jump_if(Reg::R1, Condition::Equal, 0xff, other);
            asm.load(Size::Word, Reg::R1, FRAME, source);
            asm.load(Size::Word, Reg::R2, FRAME, source + 4);
            asm.alu(Alu::Or, Reg::R1, Reg::R2);
            asm.jump_if(Reg::R1, Condition::Equal, 0, other);
        } else {
            asm.load(Size::Byte, Reg::R1, FRAME, source);
            for network in [0, 127] {
                asm.jump_if(Reg::R1, Condition::Equal, network, other);
            }
            asm.jump_if(Reg::R1, Condition::GreaterOrEqual, 224, other);
        }
        find_address(asm, headers, source, &self.not_from, other);
    }

    /// Lengths that fit each other, and right checksums, of IPv4 and TCP.
    pub(super) fn expect_sums(&self, asm: &mut Assembler, shape: Shape, other: Label) {
        let sum = Reg::R3;
        let headers = shape.headers;
        let length = (4 * shape.words()) as u16;
        if headers.ipv6 {
            expect_half(asm, FRAME, IP + 4, length, other);
        } else {
            expect_half(asm, FRAME, IP + 2, ipv4::LEN as u16 + length, other);
            expect_header_sum(asm, FRAME, IP, other);
        }
        let pseudo = half(u16::from(protocol::TCP)) + half(length);
        asm.set(sum, pseudo);
        add_words(
            asm,
            sum,
            FRAME,
            headers.addresses(),
            headers.address_words(),
        );
        asm.set(Reg::R4, sum);
        add_words(asm, sum, FRAME, shape.tcp(), shape.words());
        self.expect_checksum(asm, headers, other);
    }

    /// The sum of the segment with its pseudo header is in r3, that of the pseudo header in r4. Loses r1 to r4.
    pub(super) fn expect_checksum(&self, asm: &mut Assembler, headers: Headers, other: Label) {
        let (sum, spare, right) = (Reg::R3, Reg::R2, asm.label());
        fold(asm, sum, spare);
        if self.may_be_partial {
            asm.jump_if(sum, Condition::Equal, 0xffff, right);
            fold(asm, Reg::R4, spare);
            asm.load(Size::Half, Reg::R1, FRAME, headers.checksum());
            asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R4, other);
        } else {
            asm.jump_if(sum, Condition::NotEqual, 0xffff, other);
        }
        asm.bind(right);
    }
}

/// To `found` if the packet's address at `at` is one of these.
fn find_address(
    asm: &mut Assembler,
    headers: Headers,
    at: usize,
    addresses: &[IpAddr],
    found: Label,
) {
    for address in addresses.iter().filter(|a| a.is_ipv6() == headers.ipv6) {
        let next = asm.label();
        let words = match address {
            IpAddr::V4(address) => vec![address.to_bits()],
            IpAddr::V6(address) => (0..4)
                .map(|n| (address.to_bits() >> (96 - 32 * n)) as u32)
                .collect(),
        };
        for (n, value) in words.into_iter().enumerate() {
            asm.load(Size::Word, Reg::R1, FRAME, at + 4 * n);
            asm.jump_if32(Reg::R1, Condition::NotEqual, word(value), next);
        }
        asm.jump(found);
        asm.bind(next);
    }
}

/// SYN alone, and a header of one of the two lengths: goes on with the shorter, to `full` with the longer, to `odd` with others.
pub(super) fn expect_flags(asm: &mut Assembler, headers: Headers, [full, odd, other]: [Label; 3]) {
    let shape = |offers| Shape { headers, offers };
    expect_room(asm, shape(Offers::Mss), other);
    asm.load(Size::Half, Reg::R1, FRAME, headers.upper() + 12);
    let flags = |shape: Shape| half((shape.words() as u16) << 12 | 0x02);
    asm.jump_if(Reg::R1, Condition::Equal, flags(shape(Offers::All)), full);
    asm.jump_if(Reg::R1, Condition::NotEqual, flags(shape(Offers::Mss)), odd);
}

/// The frame, whose end is in r9, is long enough.
pub(super) fn expect_room(asm: &mut Assembler, shape: Shape, other: Label) {
    PACKET.expect(asm, shape.frame_len(), Reg::R1, other);
}

pub(super) fn expect_options(asm: &mut Assembler, shape: Shape, other: Label) {
    let options = shape.options();
    expect_half(asm, FRAME, options, (MSS_OPTION >> 16) as u16, other);
    if shape.offers == Offers::All {
        expect_word(asm, FRAME, options + 4, SACK_AND_TIMESTAMPS, other);
        expect_half(asm, FRAME, options + 16, (SCALE_OPTION >> 16) as u16, other);
        asm.load(Size::Byte, Reg::R1, FRAME, options + 18);
        asm.jump_if(
            Reg::R1,
            Condition::NotEqual,
            (SCALE_OPTION >> 8 & 0xff) as i32,
            other,
        );
        // More than that is a mistake (RFC 7323 §2.3), which the stack mends.
        asm.load(Size::Byte, Reg::R1, FRAME, options + 19);
        asm.jump_if(Reg::R1, Condition::Greater, SCALE_MAX, other);
    }
}
