//! A segment as it arrives: what the cases are told by, read and kept on the stack.

use super::layout::{REQUEST_MAX, slot};
use super::reduce::{REQUEST_AT, STEPS, STEPS_OF_64};
use super::shape::*;
use super::{Generator, WebHandler};
use crate::ebpf::{Alu, Condition, Emit, Helper, Label, Reg, Size, half};
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
        let (pass, arrived) = (self.labels.pass, self.label());
        let families = of.syn.families(self.asm);
        of.syn.expect_frame(self.asm, &families, pass);
        for (headers, family) in families {
            self.bind(family);
            let unusual = self.label();
            of.syn.expect_segment(self.asm, headers, [unusual, pass]);
            self.note_core(of);
            if !headers.ipv6 {
                expect_header_sum(self.asm, FRAME, IP, pass);
            }
            let begins = self.label();
            self.note(headers, begins);
            self.shape(of, headers);
            let at = (FRAME, headers.upper());
            of.syn.look(self.asm, headers, at);
            self.jump(arrived);
            self.bind(begins);
            of.syn.look(self.asm, headers, at);
            self.expect_open_slot(of);
            self.jump(self.labels.syn);
            self.bind(unusual);
            self.arrive_unusual(of, headers);
        }
        self.bind(arrived);
    }

    /// Keeps which core the queue belongs to, where there are several.
    pub(super) fn note_core(&mut self, of: &WebHandler) {
        let own = of.rings.own();
        if of.rings.cores() > 1 {
            self.load(Size::Word, Reg::R1, CONTEXT, QUEUE);
            self.alu(Alu::Remainder, Reg::R1, (own.end - own.start) as i32);
            self.alu(Alu::Add, Reg::R1, own.start as i32);
            self.keep(CORE, Reg::R1);
        }
    }

    /// Keeps what stands in fields of TCP's header, and who sent it; to `begins` with a SYN.
    fn note(&mut self, headers: Headers, begins: Label) {
        let tcp = headers.upper();
        self.load(Size::Byte, Reg::R1, FRAME, tcp + 13);
        self.jump_if(Reg::R1, Condition::Set, 0x02, begins);
        self.keep(FLAGS, Reg::R1);
        for (to, at) in [(SEQ, tcp + 4), (ACK, tcp + 8)] {
            get(self.asm, Reg::R1, FRAME, at);
            self.keep(to, Reg::R1);
        }
        self.load(Size::Half, Reg::R1, FRAME, tcp + 14);
        self.to_big_endian(Reg::R1, 16);
        self.keep(WINDOW, Reg::R1);
        self.load(Size::Word, Reg::R1, FRAME, 6);
        self.store(Size::Word, Reg::R10, PEER_MAC, Reg::R1);
        self.load(Size::Half, Reg::R1, FRAME, 10);
        self.store(Size::Half, Reg::R10, PEER_MAC + 4, Reg::R1);
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
            self.store_imm(Size::Double, Reg::R10, at, 0);
        }
        self.store_imm(Size::Double, Reg::R10, LEN, TOO_LONG);
        self.set(Reg::R1, CONTEXT);
        self.call(Helper::XdpGetBuffLen);
        self.keep(FRAME_LEN, Reg::R0);
    }

    /// Finds out the header's length, and so that of what it carries; and what its checksum is to be compared with.
    fn shape(&mut self, of: &WebHandler, headers: Headers) {
        let odd = self.label();
        self.expect_usual(headers, odd);
        self.measure(of, headers, odd);
        self.bind(odd);
    }

    /// To `odd` unless flags and options are usual. Leaves the header's length in r3; keeps its sum.
    fn expect_usual(&mut self, headers: Headers, odd: Label) {
        let [usual, stamped, known] = [(); 3].map(|()| self.label());
        let (tcp, options) = (headers.upper(), headers.upper() + tcp::LEN);
        let (header, sum) = (HEADER_LEN, Reg::R4);
        self.load(Size::Byte, Reg::R1, Reg::R10, FLAGS);
        self.alu(Alu::And, Reg::R1, !(FIN | PSH) & 0xff);
        self.jump_if(Reg::R1, Condition::Equal, ACK_FLAG, usual);
        self.alu(Alu::And, Reg::R1, !ACK_FLAG & 0xff);
        self.jump_if(Reg::R1, Condition::NotEqual, RST, odd);
        self.bind(usual);
        self.set(sum, 0);
        self.load(Size::Byte, Reg::R1, FRAME, tcp + 12);
        self.jump_if(Reg::R1, Condition::Equal, 0x80, stamped);
        self.jump_if(Reg::R1, Condition::NotEqual, 0x50, odd);
        add_words(self.asm, sum, FRAME, tcp, 5);
        self.set(header, 20);
        self.jump(known);
        self.bind(stamped);
        PACKET.expect(self.asm, options + 12, Reg::R1, odd);
        expect_word(self.asm, FRAME, options, TIMESTAMPS, odd);
        get(self.asm, Reg::R1, FRAME, options + 4);
        self.store(Size::Word, Reg::R10, STAMPS, Reg::R1);
        get(self.asm, Reg::R1, FRAME, options + 8);
        self.store(Size::Word, Reg::R10, STAMPS + 4, Reg::R1);
        add_words(self.asm, sum, FRAME, tcp, 8);
        self.set(header, 32);
        self.bind(known);
        self.keep(CAME_SUM, sum);
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
        self.load(Size::Half, length, FRAME, length_at);
        self.to_big_endian(length, 16);
        self.kept(spare, FRAME_LEN);
        self.alu(Alu::Sub, spare, (tcp - counted) as i32);
        self.jump_if(length, Condition::Greater, spare, odd);
        self.set(spare, header);
        self.alu(Alu::Add, spare, counted as i32);
        self.jump_if(length, Condition::Less, spare, odd);
        self.alu(Alu::Sub, length, spare);
        self.keep(LEN, length);
        self.keep(HEADER, header);
        self.alu(Alu::Add, length, header);
        self.to_big_endian(length, 16);
        self.alu(Alu::Add, length, half(u16::from(protocol::TCP)));
        let (addresses, words) = (headers.addresses(), headers.address_words());
        add_words(self.asm, length, FRAME, addresses, words);
        self.keep(CAME_PSEUDO, length);
        self.alu(Alu::Add, header, tcp as i32);
        self.keep(HEADERS, header);
        if of.syn.may_be_partial {
            self.load(Size::Half, Reg::R1, FRAME, headers.checksum());
            self.keep(CAME_CHECKSUM, Reg::R1);
        }
    }

    /// Reads what the segment carries, if it may be a request, and goes to `pass` unless the checksum is right. A
    /// segment that is not read is never answered, and says nothing that is kept.
    pub(super) fn read(&mut self, of: &WebHandler) {
        let [done, bare, right] = [(); 3].map(|()| self.label());
        let (pass, wrong) = (self.labels.pass, self.labels.drop_unlocked);
        let (sum, pseudo) = (Reg::R9, Reg::R4);
        self.kept(Reg::R1, HEADER);
        self.jump_if(Reg::R1, Condition::Equal, 0, done);
        self.kept(Reg::R4, LEN);
        self.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, done);
        // Also where that is mistaken.
        self.clamp(Reg::R4, Reg::R1, REQUEST_MAX as u32 + 1);
        self.keep(LEN, Reg::R4);
        // Here, so that no mistaken way takes what is on the stack for where that is.
        self.store_imm(Size::Word, Reg::R10, COUNTER, 0);
        self.look_up(of.scratch_fd, COUNTER, wrong);
        self.alu(Alu::Add, Reg::R0, i32::from(REQUEST_AT));
        self.keep(SCRATCH, Reg::R0);
        self.set(sum, 0);
        self.kept(Reg::R4, LEN);
        self.jump_if(Reg::R4, Condition::Less, 1, bare);
        self.copy_request();
        self.bind(bare);
        self.kept(pseudo, CAME_PSEUDO);
        self.alu(Alu::Add, sum, pseudo);
        self.kept(Reg::R1, CAME_SUM);
        self.alu(Alu::Add, sum, Reg::R1);
        fold(self.asm, sum, Reg::R2);
        self.jump_if(sum, Condition::Equal, 0xffff, right);
        if of.syn.may_be_partial {
            fold(self.asm, pseudo, Reg::R2);
            self.kept(Reg::R1, CAME_CHECKSUM);
            self.jump_if(Reg::R1, Condition::Equal, pseudo, right);
        }
        self.jump(pass);
        self.bind(right);
        self.find(of, super::find::WHOLE);
        if of.http {
            self.kept(Reg::R1, HIT);
            self.jump_if(Reg::R1, Condition::NotEqual, 0, done);
            self.expect_handshake(of, done);
            self.take_steps_of_noise(done);
            self.find_reduced(of);
        }
        self.bind(done);
    }

    /// To `other` unless the segment goes on with what the slot has, or brings a cookie back: else a sender without a handshake would have
    /// noise looked for, which costs several times what its segment does. The slot is not locked, and all of this is looked at again.
    fn expect_handshake(&mut self, of: &WebHandler, other: Label) {
        let [fresh, known] = [(); 2].map(|()| self.label());
        self.find_slot(of);
        self.expect_known(fresh);
        for (ours, its) in [(SEQ, slot::RCV), (ACK, slot::NXT)] {
            self.kept(Reg::R1, ours);
            self.load(Size::Word, Reg::R2, SLOT, its);
            self.jump_if(Reg::R1, Condition::NotEqual, Reg::R2, fresh);
        }
        self.jump(known);
        self.bind(fresh);
        self.expect_cookie(of, other);
        self.bind(known);
    }

    /// Where the segment's steps are counted takes those of what comes next; to `other` where there are none left: the request goes up then,
    /// as one that has no entry does.
    fn take_steps_of_noise(&mut self, other: Label) {
        if let Some(steps) = self.behind.steps() {
            self.kept(Reg::R1, LEN);
            self.alu(Alu::Mul, Reg::R1, STEPS_OF_64);
            self.alu(Alu::ShiftRight, Reg::R1, 6);
            self.alu(Alu::Add, Reg::R1, STEPS);
            self.keep(SPARE, Reg::R1);
            steps.take(self.asm, (COUNTER, SPARE), other);
        }
    }

    /// What the segment carries to the scratch memory, its sum to r9.
    fn copy_request(&mut self) {
        let (pass, wrong) = (self.labels.pass, self.labels.drop_unlocked);
        self.set(Reg::R1, CONTEXT);
        self.kept(Reg::R2, HEADERS);
        self.kept(Reg::R3, SCRATCH);
        self.kept(Reg::R4, LEN);
        self.jump_if(Reg::R4, Condition::Less, 1, wrong);
        self.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        self.call(Helper::XdpLoadBytes);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, pass);
        // Zeros behind it, to a whole word.
        self.kept(Reg::R1, SCRATCH);
        self.kept(Reg::R4, LEN);
        self.jump_if(Reg::R4, Condition::Greater, REQUEST_MAX as i32, wrong);
        self.alu(Alu::Add, Reg::R1, Reg::R4);
        for at in 0..8 {
            self.store_imm(Size::Byte, Reg::R1, at, 0);
        }
        self.sum_request();
    }

    /// The sum of what is in the scratch memory, of whose bytes r4 tells, to r9: in two parts, because the kernel sums 512 bytes at a time.
    fn sum_request(&mut self) {
        const { assert!(REQUEST_MAX == 2 * SUM_MAX as usize) };
        let (sum, short) = (Reg::R9, self.label());
        let (from, from_len, to, len, seed) = (Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5);
        self.set(sum, 0);
        self.alu(Alu::Add, len, 3);
        self.alu(Alu::And, len, 0x7fc);
        self.jump_if(len, Condition::LessOrEqual, SUM_MAX, short);
        self.alu(Alu::Sub, len, SUM_MAX);
        self.clamp(len, from, SUM_MAX as u32 + 1);
        self.keep(SPARE, len);
        self.kept(to, SCRATCH);
        self.set(len, SUM_MAX);
        for zero in [from, from_len, seed] {
            self.set(zero, 0);
        }
        self.call(Helper::CsumDiff);
        self.alu32(Alu::Move, sum, Reg::R0);
        self.kept(len, SPARE);
        self.kept(to, SCRATCH);
        self.alu(Alu::Add, to, SUM_MAX);
        let last = self.label();
        self.jump(last);
        self.bind(short);
        self.kept(to, SCRATCH);
        self.bind(last);
        for zero in [from, from_len] {
            self.set(zero, 0);
        }
        self.set(seed, sum);
        self.call(Helper::CsumDiff);
        self.alu32(Alu::Move, sum, Reg::R0);
    }
}
