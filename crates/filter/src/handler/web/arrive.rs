//! A segment as it arrives: what the cases are told by, read and kept on the stack.

use super::layout::{REQUEST_MAX, slot};
use super::reduce::{REQUEST_AT, STEPS, STEPS_OF_64};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Helper, Label, Reg, Size, half};
use crate::handler::arithmetic::{add_words, expect_header_sum, expect_word, fold, get};
use crate::handler::forward::Shape as Headers;
use crate::packet::NETWORK as IP;
use exos_wire::{ipv4, protocol, tcp};

/// No-operation twice, timestamps: as nearly all send them (RFC 7323, appendix A).
pub(super) const TIMESTAMPS: u32 = 0x0101_080a;

/// Where the number of the queue is in the context (`struct xdp_md`).
const QUEUE: i16 = 16;

/// Bytes that the kernel sums at once (`bpf_csum_diff`).
const SUM_MAX: i32 = 512;

/// Bytes of TCP's header, as they are found out.
const HEADER_LEN: Reg = Reg::R3;

impl Generator<'_> {
    /// To the SYNs' code with SYNs; to `pass` with what is not of the port, or damaged.
    pub(super) fn arrive(&mut self, of: &WebHandler) {
        let (pass, arrived) = (self.labels.pass, self.asm.label());
        let families = of.syn.families(self.asm);
        of.syn.expect_frame(self.asm, &families, pass);
        for (headers, family) in families {
            self.asm.bind(family);
            let unusual = self.asm.label();
            of.syn.expect_segment(self.asm, headers, [unusual, pass]);
            self.note_core(of);
            if !headers.ipv6 {
                expect_header_sum(self.asm, FRAME, IP, pass);
            }
            let begins = self.asm.label();
            self.note(headers, begins);
            self.shape(of, headers);
            let at = (FRAME, headers.upper());
            of.syn.look(self.asm, headers, at);
            self.asm.jump(arrived);
            self.asm.bind(begins);
            of.syn.look(self.asm, headers, at);
            self.expect_open_slot(of);
            self.asm.jump(self.labels.syn);
            self.asm.bind(unusual);
            self.arrive_unusual(of, headers);
        }
        self.asm.bind(arrived);
    }

    /// Keeps which core the queue belongs to, where there are several.
    pub(super) fn note_core(&mut self, of: &WebHandler) {
        let (asm, own) = (&mut *self.asm, of.rings.own());
        if of.rings.cores() > 1 {
            asm.load(Size::Word, Reg::R1, CONTEXT, QUEUE);
            asm.alu(Alu::Remainder, Reg::R1, (own.end - own.start) as i32);
            asm.alu(Alu::Add, Reg::R1, own.start as i32);
            keep(asm, CORE, Reg::R1);
        }
    }

    /// Keeps what stands in fields of TCP's header, and who sent it; to `begins` with a SYN.
    fn note(&mut self, headers: Headers, begins: Label) {
        let (asm, tcp) = (&mut *self.asm, headers.upper());
        asm.load(Size::Byte, Reg::R1, FRAME, tcp + 13);
        asm.jump_if(Reg::R1, Condition::Set, 0x02, begins);
        keep(asm, FLAGS, Reg::R1);
        for (to, at) in [(SEQ, tcp + 4), (ACK, tcp + 8)] {
            get(asm, Reg::R1, FRAME, at);
            keep(asm, to, Reg::R1);
        }
        asm.load(Size::Half, Reg::R1, FRAME, tcp + 14);
        asm.to_big_endian(Reg::R1, 16);
        keep(asm, WINDOW, Reg::R1);
        asm.load(Size::Word, Reg::R1, FRAME, 6);
        asm.store(Size::Word, Reg::R10, PEER_MAC, Reg::R1);
        asm.load(Size::Half, Reg::R1, FRAME, 10);
        asm.store(Size::Half, Reg::R10, PEER_MAC + 4, Reg::R1);
        for at in [
            STAMPS,
            HIT,
            HEADER,
            HEADERS,
            CLOCK,
            UP_SENT,
            UP_BEGUN,
            LOGGED_BYTES,
        ] {
            asm.store_imm(Size::Double, Reg::R10, at, 0);
        }
        asm.store_imm(Size::Double, Reg::R10, LEN, TOO_LONG);
        asm.set(Reg::R1, CONTEXT);
        asm.call(Helper::XdpGetBuffLen);
        keep(asm, FRAME_LEN, Reg::R0);
    }

    /// Finds out the header's length, and so that of what it carries; and what its checksum is to be compared with.
    fn shape(&mut self, of: &WebHandler, headers: Headers) {
        let odd = self.asm.label();
        self.expect_usual(headers, odd);
        self.measure(of, headers, odd);
        self.asm.bind(odd);
    }

    /// To `odd` unless flags and options are usual. Leaves the header's length in r3; keeps its sum.
    fn expect_usual(&mut self, headers: Headers, odd: Label) {
        let [usual, stamped, known] = [(); 3].map(|()| self.asm.label());
        let (tcp, options) = (headers.upper(), headers.upper() + tcp::LEN);
        let (header, sum) = (HEADER_LEN, Reg::R4);
        let asm = &mut *self.asm;
        asm.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        asm.alu(Alu::And, Reg::R1, !(FIN | PSH) & 0xff);
        asm.jump_if(Reg::R1, Condition::Equal, ACK_FLAG, usual);
        asm.alu(Alu::And, Reg::R1, !ACK_FLAG & 0xff);
        asm.jump_if(Reg::R1, Condition::NotEqual, RST, odd);
        asm.bind(usual);
        asm.set(sum, 0);
        asm.load(Size::Byte, Reg::R1, FRAME, tcp + 12);
        asm.jump_if(Reg::R1, Condition::Equal, 0x80, stamped);
        asm.jump_if(Reg::R1, Condition::NotEqual, 0x50, odd);
        add_words(asm, sum, FRAME, tcp, 5);
        asm.set(header, 20);
        asm.jump(known);
        asm.bind(stamped);
        PACKET.expect(asm, options + 12, Reg::R1, odd);
        expect_word(asm, FRAME, options, TIMESTAMPS, odd);
        get(asm, Reg::R1, FRAME, options + 4);
        asm.store(Size::Word, Reg::R10, STAMPS, Reg::R1);
        get(asm, Reg::R1, FRAME, options + 8);
        asm.store(Size::Word, Reg::R10, STAMPS + 4, Reg::R1);
        add_words(asm, sum, FRAME, tcp, 8);
        asm.set(header, 32);
        asm.bind(known);
        keep(asm, CAME_SUM, sum);
    }

    /// To `odd` unless all of the packet is there, and the lengths fit each other; keeps them.
    fn measure(&mut self, of: &WebHandler, headers: Headers, odd: Label) {
        let (length, spare, header) = (Reg::R1, Reg::R2, HEADER_LEN);
        let tcp = headers.upper();
        // What of IP's header is counted in the length that it tells.
        let (length_at, counted) = match headers.ipv6 {
            true => (IP + 4, 0),
            false => (IP + 2, ipv4::LEN),
        };
        let asm = &mut *self.asm;
        asm.load(Size::Half, length, FRAME, length_at);
        asm.to_big_endian(length, 16);
        kept(asm, spare, FRAME_LEN);
        asm.alu(Alu::Sub, spare, (tcp - counted) as i32);
        asm.jump_if(length, Condition::Greater, spare, odd);
        asm.set(spare, header);
        asm.alu(Alu::Add, spare, counted as i32);
        asm.jump_if(length, Condition::Less, spare, odd);
        asm.alu(Alu::Sub, length, spare);
        keep(asm, LEN, length);
        keep(asm, HEADER, header);
        asm.alu(Alu::Add, length, header);
        asm.to_big_endian(length, 16);
        asm.alu(Alu::Add, length, half(u16::from(protocol::TCP)));
        let (addresses, words) = (headers.addresses(), headers.address_words());
        add_words(asm, length, FRAME, addresses, words);
        keep(asm, CAME_PSEUDO, length);
        asm.alu(Alu::Add, header, tcp as i32);
        keep(asm, HEADERS, header);
        if of.syn.may_be_partial {
            asm.load(Size::Half, Reg::R1, FRAME, headers.checksum());
            keep(asm, CAME_CHECKSUM, Reg::R1);
        }
    }

    /// Reads what the segment carries, if it may be a request, and goes to `pass` unless the checksum is right. A
    /// segment that is not read is never answered, and says nothing that is kept.
    pub(super) fn read(&mut self, of: &WebHandler) {
        let [done, bare, right] = [(); 3].map(|()| self.asm.label());
        let (pass, wrong) = (self.labels.pass, self.labels.drop_unlocked);
        let (sum, pseudo) = (Reg::R9, Reg::R4);
        let asm = &mut *self.asm;
        kept(asm, Reg::R1, HEADER);
        asm.jump_if(Reg::R1, Condition::Equal, 0, done);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, done);
        // Also where that is mistaken.
        asm.clamp(Reg::R4, Reg::R1, REQUEST_MAX as u32 + 1);
        keep(asm, LEN, Reg::R4);
        // Here, so that no mistaken way takes what is on the stack for where that is.
        asm.store_imm(Size::Word, Reg::R10, COUNTER, 0);
        asm.look_up(of.scratch_fd, COUNTER, wrong);
        asm.alu(Alu::Add, Reg::R0, i32::from(REQUEST_AT));
        keep(asm, SCRATCH, Reg::R0);
        asm.set(sum, 0);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Less, 1, bare);
        self.copy_request();
        let asm = &mut *self.asm;
        asm.bind(bare);
        kept(asm, pseudo, CAME_PSEUDO);
        asm.alu(Alu::Add, sum, pseudo);
        kept(asm, Reg::R1, CAME_SUM);
        asm.alu(Alu::Add, sum, Reg::R1);
        fold(asm, sum, Reg::R2);
        asm.jump_if(sum, Condition::Equal, 0xffff, right);
        if of.syn.may_be_partial {
            fold(asm, pseudo, Reg::R2);
            kept(asm, Reg::R1, CAME_CHECKSUM);
            asm.jump_if(Reg::R1, Condition::Equal, pseudo, right);
        }
        asm.jump(pass);
        asm.bind(right);
        self.find(of, super::find::WHOLE);
        if of.http {
            kept(self.asm, Reg::R1, HIT);
            self.asm.jump_if(Reg::R1, Condition::NotEqual, 0, done);
            self.expect_handshake(of, done);
            self.take_steps_of_noise(done);
            self.find_reduced(of);
        }
        self.asm.bind(done);
    }

    /// To `other` unless the segment goes on with what the slot has, or brings a cookie back: else a sender without a handshake would have
    /// noise looked for, which costs several times what its segment does. The slot is not locked, and all of this is looked at again.
    fn expect_handshake(&mut self, of: &WebHandler, other: Label) {
        let [fresh, known] = [(); 2].map(|()| self.asm.label());
        self.find_slot(of);
        self.expect_known(fresh);
        let asm = &mut *self.asm;
        for (ours, its) in [(SEQ, slot::RCV), (ACK, slot::NXT)] {
            kept(asm, Reg::R1, ours);
            asm.load(Size::Word, Reg::R2, SLOT, its as i16);
            asm.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, fresh);
        }
        asm.jump(known);
        asm.bind(fresh);
        self.expect_cookie(of, other);
        self.asm.bind(known);
    }

    /// Where the segment's steps are counted takes those of what comes next; to `other` where there are none left: the request goes up then,
    /// as one that has no entry does.
    fn take_steps_of_noise(&mut self, other: Label) {
        if let Some(steps) = self.behind.steps() {
            let asm = &mut *self.asm;
            kept(asm, Reg::R1, LEN);
            asm.alu(Alu::Mul, Reg::R1, STEPS_OF_64);
            asm.alu(Alu::ShiftRight, Reg::R1, 6);
            asm.alu(Alu::Add, Reg::R1, STEPS);
            keep(asm, SPARE, Reg::R1);
            steps.take(asm, (COUNTER, SPARE), other);
        }
    }

    /// What the segment carries to the scratch memory, its sum to r9.
    fn copy_request(&mut self) {
        let (pass, wrong) = (self.labels.pass, self.labels.drop_unlocked);
        let asm = &mut *self.asm;
        asm.set(Reg::R1, CONTEXT);
        kept(asm, Reg::R2, HEADERS);
        kept(asm, Reg::R3, SCRATCH);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Less, 1, wrong);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        asm.call(Helper::XdpLoadBytes);
        asm.jump_if(Reg::R0, Condition::NotEqual, 0, pass);
        // Zeros behind it, to a whole word.
        kept(asm, Reg::R1, SCRATCH);
        kept(asm, Reg::R4, LEN);
        asm.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        asm.alu(Alu::Add, Reg::R1, Reg::R4);
        for at in 0..8 {
            asm.store_imm(Size::Byte, Reg::R1, at, 0);
        }
        self.sum_request();
    }

    /// The sum of what is in the scratch memory, of whose bytes r4 tells, to r9: in two parts, because the kernel sums 512 bytes at a time.
    fn sum_request(&mut self) {
        const { assert!(REQUEST_MAX == 2 * SUM_MAX as usize) };
        let (sum, short) = (Reg::R9, self.asm.label());
        let (from, from_len, to, len, seed) = (Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5);
        let asm = &mut *self.asm;
        asm.set(sum, 0);
        asm.alu(Alu::Add, len, 3);
        asm.alu(Alu::And, len, 0x7fc);
        asm.jump_if(len, Condition::LessOrEqual, SUM_MAX, short);
        asm.alu(Alu::Sub, len, SUM_MAX);
        asm.clamp(len, from, SUM_MAX as u32 + 1);
        keep(asm, SPARE, len);
        kept(asm, to, SCRATCH);
        asm.set(len, SUM_MAX);
        for zero in [from, from_len, seed] {
            asm.set(zero, 0);
        }
        asm.call(Helper::CsumDiff);
        asm.alu32(Alu::Move, sum, Reg::R0);
        kept(asm, len, SPARE);
        kept(asm, to, SCRATCH);
        asm.alu(Alu::Add, to, SUM_MAX);
        let last = asm.label();
        asm.jump(last);
        asm.bind(short);
        kept(asm, to, SCRATCH);
        asm.bind(last);
        for zero in [from, from_len] {
            asm.set(zero, 0);
        }
        asm.set(seed, sum);
        asm.call(Helper::CsumDiff);
        asm.alu32(Alu::Move, sum, Reg::R0);
    }
}
