//! Packets as generated programs read them: what filter programs, the gate and handlers have in common.
//!
//! A program reads a packet in one of two ways. By pointer, where it runs in XDP: the shortest, and each read needs a
//! comparison with the packet's end before it ([`Bytes`]). Or by copies to the stack (`gate::code`), which work alike in
//! XDP and in traffic control, and for packets in several pieces. So the steps here say what is read and where it leads, and
//! leave the reading to their callers where both ways need them.

use crate::ebpf::{Alu, Assembler, Condition, Emit, Label, Reg, Size, half};
use crate::limits::EXTENSION_HEADERS_MAX;
use exos_wire::Mac;
use exos_wire::ipv6::EXTENSION_HEADERS;
use exos_wire::protocol::{AUTHENTICATION, FRAGMENT};

/// Where the Ethertype lies in a frame without a tag.
pub(crate) const ETHERTYPE: usize = 12;
/// Where the network header begins in a frame without a tag.
pub(crate) const NETWORK: usize = 14;

/// Of an IPv4 header's flags and fragment offset (RFC 791 §3.1) the offset: not zero behind the first fragment.
pub(crate) const FRAGMENT_OFFSET: u16 = 0x1fff;
/// The offset and "more fragments": zero in whole packets.
pub(crate) const ANY_FRAGMENT: u16 = 0x3fff;
/// Of an IPv6 fragment header (RFC 8200 §4.5) the offset, at 2: not zero behind the first fragment.
pub(crate) const LATER_FRAGMENT: u16 = 0xfff8;

/// The registers that have a packet's first byte and its end.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) start: Reg,
    pub(crate) end: Reg,
}

impl Bytes {
    /// Loads both from the context of XDP.
    pub(crate) fn open(self, asm: &mut Assembler, context: Reg) {
        // struct xdp_md: data, data_end. The context may be in one of the two registers, but not in that of the end.
        asm.load(Size::Word, self.end, context, 4);
        asm.load(Size::Word, self.start, context, 0);
    }

    /// Loads both from the context of traffic control: what is in the buffer's first piece.
    pub(crate) fn open_buffer(self, asm: &mut Assembler, context: Reg) {
        // struct __sk_buff: data, data_end.
        asm.load(Size::Word, self.end, context, 80);
        asm.load(Size::Word, self.start, context, 76);
    }

    /// To `short` unless there are this many bytes; `scratch` is lost.
    pub(crate) fn expect(self, asm: &mut Assembler, len: usize, scratch: Reg, short: Label) {
        asm.set(scratch, self.start);
        asm.alu(Alu::Add, scratch, len as i32);
        asm.jump_if(scratch, Condition::Greater, self.end, short);
    }
}

/// To `other` unless the frame is for this station; r1 is lost.
pub(crate) fn expect_station(asm: &mut Assembler, frame: Reg, mac: Mac, other: Label) {
    let [m0, m1, m2, m3, m4, m5] = mac.0;
    let first = i32::from_ne_bytes([m0, m1, m2, m3]);
    asm.load(Size::Word, Reg::R1, frame, 0);
    asm.jump_if32(Reg::R1, Condition::NotEqual, first, other);
    asm.load(Size::Half, Reg::R1, frame, 4);
    let last = half(u16::from_be_bytes([m4, m5]));
    asm.jump_if(Reg::R1, Condition::NotEqual, last, other);
}

/// RFC 791 §3.1: `first` is an IPv4 header's first byte, and becomes the length of its options. To `malformed` when it is no
/// such byte: 0x45 to 0x4f, of which what is above 0x45 are words of options.
pub(crate) fn ipv4_options(asm: &mut Assembler, first: Reg, malformed: Label) {
    asm.alu(Alu::Sub, first, 0x45);
    asm.jump_if(first, Condition::Greater, 10, malformed);
    asm.alu(Alu::ShiftLeft, first, 2);
}

/// RFC 8200 §3: to `malformed` unless `first` is an IPv6 header's first byte; it is lost.
pub(crate) fn expect_ipv6(asm: &mut Assembler, first: Reg, malformed: Label) {
    asm.alu32(Alu::And, first, 0xf0);
    asm.jump_if32(first, Condition::NotEqual, 0x60, malformed);
}

/// What a walk over IPv6 extension headers works in.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    /// The number of the header that is next; in the end the transport protocol's.
    pub(crate) next: Reg,
    /// Where that begins.
    pub(crate) offset: Reg,
    /// Lost.
    pub(crate) spare: Reg,
}

/// Where a walk ends.
#[derive(Clone, Copy)]
pub(crate) struct WalkEnds {
    /// At the transport header: the next instruction.
    pub(crate) transport: Label,
    /// At the header of a later fragment.
    pub(crate) later: Label,
    /// A header is not all there, or there are too many.
    pub(crate) malformed: Label,
}

/// A program that walks over IPv6 extension headers: how it reads them, and what it does on the way.
pub(crate) trait WalksHeaders: Emit {
    const WALK: Walk;

    /// Makes the first 8 bytes of the header at the offset readable.
    fn open_header(&mut self, malformed: Label);

    /// Reads of these.
    fn read_header(&mut self, size: Size, dst: Reg, at: i16);

    /// RFC 8200 §4.5: the open header is a fragment's. To `later` when there are fragments before it.
    fn fragment_header(&mut self, later: Label);

    /// The open header has a length in words of 8 bytes. It is not to touch the spare register.
    fn generic_header(&mut self) {}

    /// The offset lies in the packet.
    fn expect_offset(&mut self, malformed: Label);

    /// A header has been walked over.
    fn header_walked(&mut self) {}
}

/// RFC 8200 §4: over all extension headers, of which there are [`EXTENSION_HEADERS_MAX`] at most, unrolled.
pub(crate) fn walk_extension_headers<W: WalksHeaders>(code: &mut W, ends: WalkEnds) {
    for count in 0..EXTENSION_HEADERS_MAX {
        extension_header(code, count == 0, ends);
    }
    for kind in &EXTENSION_HEADERS[1..] {
        if_next(code, *kind, ends.malformed);
    }
    code.bind(ends.transport);
}

/// On to the next header, or to the transport when this is none.
fn extension_header<W: WalksHeaders>(code: &mut W, first: bool, ends: WalkEnds) {
    let Walk {
        next,
        offset,
        spare,
    } = W::WALK;
    let [read, generic, authentication, advance, walked] = [(); 5].map(|()| code.label());
    // RFC 8200 §4.1: hop-by-hop options only directly behind the fixed header.
    for kind in &EXTENSION_HEADERS[usize::from(!first)..] {
        if_next(code, *kind, read);
    }
    code.jump(ends.transport);
    code.bind(read);
    code.open_header(ends.malformed);
    code.read_header(Size::Byte, spare, 1);
    if_next(code, AUTHENTICATION, authentication);
    let fragment = i32::from(FRAGMENT);
    code.jump_if32(next, Condition::NotEqual, fragment, generic);
    code.read_header(Size::Byte, next, 0);
    code.fragment_header(ends.later);
    code.alu(Alu::Add, offset, 8);
    code.jump(walked);

    code.bind(generic);
    code.generic_header();
    code.alu(Alu::Add, spare, 1);
    code.alu(Alu::ShiftLeft, spare, 3);
    code.jump(advance);
    code.bind(authentication);
    // RFC 4302 §2.2: in words of 4 bytes, less 2.
    code.alu(Alu::Add, spare, 2);
    code.alu(Alu::ShiftLeft, spare, 2);
    code.bind(advance);
    code.read_header(Size::Byte, next, 0);
    code.alu(Alu::Add, offset, spare);
    code.expect_offset(ends.malformed);
    code.bind(walked);
    code.header_walked();
}

fn if_next<W: WalksHeaders>(code: &mut W, kind: u8, to: Label) {
    code.jump_if32(W::WALK.next, Condition::Equal, i32::from(kind), to);
}
