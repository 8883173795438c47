//! The program that slots' holders run to send many frames with one system call, as live frames.
//!
//! What [`super::batch()`] does on socket buffers, this does on frames of XDP, which the kernel makes in pages that it has at hand,
//! and hands on many at a time: a call costs more by itself, and each frame of it much less. The kernel runs the program for each
//! frame (`BPF_PROG_RUN` in live frame mode), on the sender's time:
//!
//! ```text
//! secret ── whose? ── next descriptor ── copied into the kernel's frame ── the checks of `outgoing` ── where to ── redirected
//! ```
//!
//! **One program for all.** A program that is attached nowhere has the kernel patch its text for each call, so it is attached
//! where it receives nothing, and a holder must not be able to have that end: the daemon keeps it, and all have the
//! same one. Whose frames they are says a secret in the metadata before the frame, which the daemon gives each holder. Before the
//! frame leaves the program blots it out.
//!
//! **Attached to an interface** the program would drop what arrives there, and who holds an XDP program's descriptor can attach it
//! in the own network namespace. So it is lent only where the kernel asks a guard about that ([`crate::guard`]), or where the
//! administrator trusts the programs. Where it is attached all the same, for instance in a namespace of the holder's own, it sends
//! nothing: frames that arrive come without a secret. Nor does it in a test run whose verdicts nobody carries out, so that nothing
//! is charged that does not leave ([`Origin`]).
//!
//! Beside what a batch gives back, this gives back
//!
//! - all, as long as the device does not take redirected frames (`wire` is empty);
//! - what is for this machine: to the host's stack nothing can be redirected, and what another slot's interface has no room for
//!   would be counted nowhere that the sender looks.
//!
//! What the device has no room for is counted by its driver alone.

use super::super::code::{CELL, Code, HOLDER, KEY, LENGTH, RESULT, SENDER, SHAPES, SLOT, Side};
use super::super::counter::Counter;
use super::super::layout::SlotKind;
use super::super::limits::SLOTS;
use super::super::maps::{FRAMES, MapFds, SECRET_LEN};
use super::super::outgoing::Ends;
use super::batch::Others;
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::program::{Program, xdp};
use crate::transmit::{BEGINNING_LEN, Memory, Take};

/// Bytes of metadata before a frame: the secret, the slot's number in four bytes, and as many of zeros.
pub const METADATA_LEN: usize = SECRET_LEN + 8;

/// Frames of one call: as many as the kernel makes pages for together (`PP_ALLOC_CACHE_REFILL`). More would be in pages of the first
/// ones, which have no secret any more.
pub const CALL_LEN: u32 = 64;

/// Where the kernel's own structure of a frame says what kind of memory it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The kernel's number of `bpf_cast_to_kern_ctx`.
    cast_function: i32,
    /// Offset of `rxq` in `struct xdp_buff`.
    queue: i16,
    /// Offset of `mem` in `struct xdp_rxq_info`; it begins with the kind.
    memory: i16,
}

/// `MEM_TYPE_PAGE_POOL` (include/net/xdp.h): as live frames are, and no frame of generic XDP or of a plain test run.
const PAGE_POOL: i32 = 2;

impl Origin {
    /// By the number of the function `bpf_cast_to_kern_ctx`, and the offset in bits of a member of a structure. None when one
    /// is missing.
    pub fn from_layout(
        cast_function: i32,
        member: impl Fn(&str, &str) -> Option<u32>,
    ) -> Option<Self> {
        let offset = |structure, name| i16::try_from(member(structure, name)? / 8).ok();
        Some(Self {
            cast_function,
            queue: offset("xdp_buff", "rxq")?,
            memory: offset("xdp_rxq_info", "mem")?,
        })
    }
}

/// What stands before each frame that the holder of a slot sends.
pub fn metadata(slot: u32, secret: [u8; SECRET_LEN]) -> [u8; METADATA_LEN] {
    let mut bytes = [0; METADATA_LEN];
    bytes[..SECRET_LEN].copy_from_slice(&secret);
    bytes[SECRET_LEN..][..4].copy_from_slice(&slot.to_ne_bytes());
    bytes
}

/// The XDP program, for all slots.
pub fn live(maps: &MapFds, origin: &Origin) -> Program {
    let mut code = Code::new(maps, Side::Live);
    let others = Others::new(&mut code);
    let ends = Ends::to_wire_alone(&mut code, others.give_back);
    code.put_imm(RESULT, xdp::DROP);
    code.holder(others.done);
    code.is_live(origin, others.done);
    code.take_live(others);
    code.clear();
    code.measure();
    code.slot_of_holder();
    code.load_frame();
    code.checks(ends, others);
    code.get(Reg::R0, RESULT);
    code.exit();
    code.bind(others.done);
    code.set(Reg::R0, xdp::DROP);
    code.exit();
    Program::new(code.asm.finish().expect("the programs are short"))
}

impl Code<'_> {
    /// Who knows the secret that stands before the frame, which is blotted out; else to `nobody`.
    fn holder(&mut self, nobody: Label) {
        // struct xdp_md: data_meta, data.
        self.load(Size::Word, Reg::R1, Reg::R6, 8);
        self.load(Size::Word, Reg::R2, Reg::R6, 0);
        self.set(Reg::R3, Reg::R1);
        self.alu(Alu::Add, Reg::R3, METADATA_LEN as i32);
        self.jump_if(Reg::R3, Condition::Greater, Reg::R2, nobody);
        // No more than that: what were left of it would go with the frame.
        self.set(Reg::R4, Reg::R2);
        self.alu(Alu::Sub, Reg::R4, Reg::R1);
        self.jump_if(Reg::R4, Condition::NotEqual, METADATA_LEN as i32, nobody);
        self.load(Size::Word, Reg::R3, Reg::R1, SECRET_LEN as i16);
        self.clamp(Reg::R3, Reg::R4, SLOTS);
        self.write(Size::Word, HOLDER, Reg::R3);
        for at in [0, 8] {
            self.load(Size::Double, Reg::R3, Reg::R1, at);
            self.put(KEY + at, Reg::R3);
            self.store_imm(Size::Double, Reg::R1, at, 0);
        }
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, METADATA_LEN as i32);
        self.call(Helper::XdpAdjustMeta);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, nobody);
        self.lookup(self.maps.secrets, HOLDER, nobody);
        // Bytes of the longest frame, behind the secret; the first word of that is not 0.
        self.load(Size::Double, Reg::R1, Reg::R0, SECRET_LEN as i16);
        self.put(LENGTH, Reg::R1);
        self.load(Size::Double, Reg::R1, Reg::R0, 0);
        self.jump_if(Reg::R1, Condition::Equal, 0, nobody);
        self.expect_secret(nobody);
    }

    /// The secret at r0 is the one that stood before the frame; else to `nobody`, and whatever a processor takes the comparison to
    /// come out as, the slot is none whose frames it could read meanwhile.
    fn expect_secret(&mut self, nobody: Label) {
        let (differs, mask) = (Reg::R1, Reg::R2);
        self.set(differs, 0);
        for at in [0, 8] {
            self.load(Size::Double, Reg::R2, Reg::R0, at);
            self.get(Reg::R3, KEY + at);
            self.alu(Alu::Xor, Reg::R2, Reg::R3);
            self.alu(Alu::Or, differs, Reg::R2);
        }
        // Slot 0, which has no frames, unless nothing differs.
        self.set(mask, 0);
        self.alu(Alu::Sub, mask, differs);
        self.alu(Alu::Or, mask, differs);
        self.alu(Alu::SignedShiftRight, mask, 63);
        self.alu(Alu::Xor, mask, -1);
        self.read(Size::Word, Reg::R3, HOLDER);
        self.alu(Alu::And, Reg::R3, mask);
        self.write(Size::Word, HOLDER, Reg::R3);
        self.jump_if(differs, Condition::NotEqual, 0, nobody);
    }

    /// The kernel carries the verdict out, on a frame of its own that begins as all do, in one piece; else to `elsewhere`.
    fn is_live(&mut self, origin: &Origin, elsewhere: Label) {
        self.set(Reg::R1, Reg::R6);
        self.call(Helper::XdpGetBuffLen);
        self.jump_if(
            Reg::R0,
            Condition::NotEqual,
            BEGINNING_LEN as i32,
            elsewhere,
        );
        // struct xdp_md: data_end, data.
        self.load(Size::Word, Reg::R1, Reg::R6, 4);
        self.load(Size::Word, Reg::R2, Reg::R6, 0);
        self.alu(Alu::Sub, Reg::R1, Reg::R2);
        self.jump_if(
            Reg::R1,
            Condition::NotEqual,
            BEGINNING_LEN as i32,
            elsewhere,
        );
        self.set(Reg::R1, Reg::R6);
        self.push(Insn::call_kernel_function(origin.cast_function));
        self.load(Size::Double, Reg::R0, Reg::R0, origin.queue);
        self.load(Size::Word, Reg::R1, Reg::R0, origin.memory);
        self.jump_if(Reg::R1, Condition::NotEqual, PAGE_POOL, elsewhere);
        // struct xdp_mem_info: type, id. Only a pool that is known to the kernel has a number.
        self.load(Size::Word, Reg::R1, Reg::R0, origin.memory + 4);
        self.jump_if(Reg::R1, Condition::Equal, 0, elsewhere);
    }

    /// The next frame, copied into the kernel's.
    fn take_live(&mut self, ends: Others) {
        let sized = self.label();
        let take = Take {
            queue: Memory::OfSlot(self.maps.queues, HOLDER),
            frames: Memory::OfSlot(self.maps.frames, HOLDER),
            chunks: FRAMES.entries,
            chunk_size: FRAMES.value_size as u32,
            key: CELL,
        };
        self.next(&take, ends);
        self.lookup_index(self.maps.wire, 0, ends.give_back);
        self.get(Reg::R1, LENGTH);
        self.jump_if(Reg::R7, Condition::Greater, Reg::R1, ends.refuse);
        self.jump_if(Reg::R7, Condition::Equal, BEGINNING_LEN as i32, sized);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, Reg::R7);
        self.alu(Alu::Sub, Reg::R2, BEGINNING_LEN as i32);
        self.call(Helper::XdpAdjustTail);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, ends.refuse);
        self.bind(sized);
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, 0);
        self.set(Reg::R3, Reg::R8);
        self.set(Reg::R4, Reg::R7);
        self.call(Helper::XdpStoreBytes);
        self.jump_if(Reg::R0, Condition::NotEqual, 0, ends.refuse);
    }

    /// The holder's slot, if it is one with an interface; leaves it in r7.
    fn slot_of_holder(&mut self) {
        let no_ring = self.refuse(Counter::NoRing);
        self.lookup_index(self.maps.config, 0, no_ring);
        self.load(Size::Word, Reg::R1, Reg::R0, 0);
        self.put(SHAPES, Reg::R1);
        self.read(Size::Word, Reg::R1, HOLDER);
        self.put(SLOT, Reg::R1);
        self.put(SENDER, Reg::R1);
        self.lookup(self.maps.slots, HOLDER, no_ring);
        self.set(Reg::R7, Reg::R0);
        self.load(Size::Word, Reg::R1, Reg::R7, 0);
        self.jump_if(Reg::R1, Condition::NotEqual, SlotKind::Veth as i32, no_ring);
    }

    /// To the device, unless it has gone since it was looked for.
    pub(in crate::gate) fn send_live(&mut self) {
        let lost = self.refuse(Counter::TxLost);
        self.set(Reg::R2, 0);
        self.redirect(self.maps.wire, xdp::DROP);
        self.jump_if(Reg::R0, Condition::Equal, xdp::DROP, lost);
        self.put(RESULT, Reg::R0);
        self.finish();
    }
}
