//! Programs that copy packets for a dump client: one for each direction, in the same place of `taps_in` and `taps_out`.
//!
//! ```text
//! may the client see it? ── filter ── room in its ring buffer? ── header, bytes ── the next tap, or return
//! ```
//!
//! The packet is decided already: result and verdict wait in `scratch`, and the last of the taps returns the result.

use super::code::splice::splice;
use super::code::{Code, Side, scratch};
use super::limits::{SLOTS, SNAP_LEN_MAX, TAPS_MAX};
use super::maps::MapFds;
use super::tap::{Direction, TapRecord};
use crate::ebpf::{Alu, Condition, Emit, Helper, Insn, Label, Reg, Size};
use crate::filter::Filter;
use crate::program::{CompileError, Program};

/// Bytes captured for which there is a record of its own size: what is reserved in a ring buffer must be a constant.
/// Acknowledgements, DNS, full frames, jumbo frames, super-packets.
const CAPTURE_LENS: [u32; 5] = [66, 192, 1518, 9216, SNAP_LEN_MAX];

/// Bytes at the front of a socket buffer that are made readable for the filter: all headers that one looks at.
const FILTERED_LEN: i32 = 256;

/// Slots, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSet([u64; SLOTS as usize / 64]);

const _: () = assert!(SLOTS.is_multiple_of(64));

impl SlotSet {
    /// Whether it has this slot.
    pub const fn has(&self, slot: u32) -> bool {
        slot < SLOTS && self.0[slot as usize / 64] >> (slot % 64) & 1 == 1
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<T: IntoIterator<Item = u32>>(slots: T) -> Self {
        let mut set = Self::default();
        for slot in slots {
            set.0[slot as usize / 64] |= 1 << (slot % 64);
        }
        set
    }
}

/// What a tap copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Its place, below [`TAPS_MAX`].
    pub index: u32,
    /// Which packets.
    pub filter: Filter,
    /// Whose packets: the slots that receive or send them. None: everybody's, the host's too.
    pub slots: Option<SlotSet>,
    /// Bytes of each packet, at most [`SNAP_LEN_MAX`].
    pub snap_len: u32,
    /// The client's ring buffer.
    pub ring_fd: i32,
}

/// The two programs of a tap: for `taps_in` (XDP) and for `taps_out` (traffic control).
pub fn tap(maps: &MapFds, tap: &Tap) -> Result<[Program; 2], CompileError> {
    assert!(tap.index < TAPS_MAX, "tap {}", tap.index);
    assert!(
        (1..=SNAP_LEN_MAX).contains(&tap.snap_len),
        "snap length {}",
        tap.snap_len
    );
    Ok([one(maps, tap, Side::In)?, one(maps, tap, Side::Out)?])
}

fn one(maps: &MapFds, tap: &Tap, side: Side) -> Result<Program, CompileError> {
    let mut code = Code::new(maps, side);
    let [matched, next, lost] = [(); 3].map(|()| code.label());
    code.decision(lost);
    if let Some(slots) = &tap.slots {
        code.visible(slots, next);
    }
    if side == Side::Out {
        code.make_readable();
    }
    splice(&mut code, &tap.filter, matched)?;
    code.jump(next);
    code.bind(matched);
    code.decision(lost);
    code.copy(tap, next);
    code.bind(next);
    let others = match side {
        Side::In => maps.taps_in,
        _ => maps.taps_out,
    };
    code.call_any(others, tap.index + 1..TAPS_MAX);
    code.decision(lost);
    code.load(Size::Word, Reg::R0, DECISION, scratch::RESULT);
    code.exit();
    code.bind(lost);
    code.set(Reg::R0, side.drop());
    code.exit();
    let insns = code.asm.finish().map_err(|_| CompileError)?;
    Ok(Program::new(insns))
}

/// The entry of `scratch`.
const DECISION: Reg = Reg::R7;
const RECORD: Reg = Reg::R8;
const CAPTURED: Reg = Reg::R9;

impl Code<'_> {
    /// r7 = what was decided.
    fn decision(&mut self, lost: Label) {
        self.lookup_index(self.maps.scratch, self.side.scratch_index(), lost);
        self.set(DECISION, Reg::R0);
    }

    /// To `hidden` unless the slot or its peer is in the set.
    fn visible(&mut self, slots: &SlotSet, hidden: Label) {
        let shown = self.label();
        for (at, last) in [(scratch::SLOT, false), (scratch::PEER, true)] {
            let other = if last { hidden } else { self.label() };
            self.member(at, slots, other);
            self.jump(shown);
            if !last {
                self.bind(other);
            }
        }
        self.bind(shown);
    }

    /// On if the slot in the word at `at` is in the set.
    fn member(&mut self, at: i16, slots: &SlotSet, no: Label) {
        let found = self.label();
        self.load(Size::Word, Reg::R1, DECISION, at);
        self.set(Reg::R2, Reg::R1);
        self.alu(Alu::ShiftRight, Reg::R2, 6);
        self.alu(Alu::And, Reg::R1, 63);
        // A user has few programs: most words have no bit. One is looked at always: the kernel takes no code that nothing leads to.
        let words = slots.0.iter().enumerate();
        for (index, word) in words.filter(|(index, word)| *index == 0 || **word != 0) {
            let next = self.label();
            self.jump_if(Reg::R2, Condition::NotEqual, index as i32, next);
            for insn in Insn::load_imm64(Reg::R3, *word) {
                self.push(insn);
            }
            self.alu(Alu::ShiftRight, Reg::R3, Reg::R1);
            self.alu(Alu::And, Reg::R3, 1);
            self.jump_if(Reg::R3, Condition::Equal, 0, no);
            self.jump(found);
            self.bind(next);
        }
        self.jump(no);
        self.bind(found);
    }

    /// The front of the packet into one piece; when that fails the filter sees less of it.
    pub(super) fn make_readable(&mut self) {
        let short = self.label();
        self.load(Size::Word, Reg::R2, Reg::R6, 0);
        self.jump_if(Reg::R2, Condition::LessOrEqual, FILTERED_LEN, short);
        self.set(Reg::R2, FILTERED_LEN);
        self.bind(short);
        self.set(Reg::R1, Reg::R6);
        self.call(Helper::SkbPullData);
    }

    /// A record, if there is room; counted either way. r7 is what was decided.
    fn copy(&mut self, tap: &Tap, next: Label) {
        let [lost, discard, fits] = [(); 3].map(|()| self.label());
        self.load(Size::Word, CAPTURED, DECISION, scratch::LENGTH);
        self.jump_if(CAPTURED, Condition::LessOrEqual, tap.snap_len as i32, fits);
        self.set(CAPTURED, tap.snap_len as i32);
        self.bind(fits);
        let shorter = CAPTURE_LENS.into_iter().filter(|len| *len < tap.snap_len);
        let written = self.label();
        for len in shorter.chain([tap.snap_len]) {
            let longer = self.label();
            self.jump_if(CAPTURED, Condition::Greater, len as i32, longer);
            // Not `Equal 0`, from which Linux 6.1 does not conclude that something is left to be read.
            self.jump_if(CAPTURED, Condition::Less, 1, longer);
            self.load_map(Reg::R1, tap.ring_fd);
            self.set(Reg::R2, len as i32 + TapRecord::LEN as i32);
            self.set(Reg::R3, 0);
            self.call(Helper::RingbufReserve);
            self.jump_if(Reg::R0, Condition::Equal, 0, lost);
            self.set(RECORD, Reg::R0);
            self.header();
            self.load_record(discard);
            self.jump(written);
            self.bind(longer);
        }
        self.jump(lost);
        self.bind(discard);
        self.end_record(Helper::RingbufDiscard);
        self.bind(lost);
        self.count_copy(tap.index, 8, next);
        self.jump(next);
        self.bind(written);
        self.end_record(Helper::RingbufSubmit);
        self.count_copy(tap.index, 0, next);
    }

    /// [`TapRecord`], little-endian: the machine's own order wherever AF_XDP runs today; others swap.
    fn header(&mut self) {
        self.call(Helper::KtimeGetNs);
        self.store_little(Size::Double, 0, Reg::R0);
        for (from, to) in [(scratch::LENGTH, 8), (scratch::IFINDEX, 20)] {
            self.load(Size::Word, Reg::R1, DECISION, from);
            self.store_little(Size::Word, to, Reg::R1);
        }
        self.set(Reg::R1, CAPTURED);
        self.store_little(Size::Word, 12, Reg::R1);
        self.load(Size::Word, Reg::R1, DECISION, scratch::SLOT);
        self.store_little(Size::Half, 16, Reg::R1);
        for (from, to) in [(scratch::DIRECTION, 18), (scratch::VERDICT, 19)] {
            self.load(Size::Word, Reg::R1, DECISION, from);
            self.store_little(Size::Byte, to, Reg::R1);
        }
    }

    fn store_little(&mut self, size: Size, at: i16, reg: Reg) {
        let bits = match size {
            Size::Byte => None,
            Size::Half => Some(16),
            Size::Word => Some(32),
            Size::Double => Some(64),
        };
        if let Some(bits) = bits {
            self.push(Insn::to_little_endian(reg, bits));
        }
        self.store(size, RECORD, at, reg);
    }

    /// The packet's bytes behind the header.
    fn load_record(&mut self, missing: Label) {
        self.set(Reg::R1, Reg::R6);
        self.set(Reg::R2, 0);
        self.set(Reg::R3, RECORD);
        self.alu(Alu::Add, Reg::R3, TapRecord::LEN as i32);
        self.set(Reg::R4, CAPTURED);
        self.call(match self.side {
            Side::In => Helper::XdpLoadBytes,
            _ => Helper::SkbLoadBytes,
        });
        self.jump_if(Reg::R0, Condition::NotEqual, 0, missing);
    }

    fn end_record(&mut self, helper: Helper) {
        self.set(Reg::R1, RECORD);
        self.set(Reg::R2, 0);
        self.call(helper);
    }

    fn count_copy(&mut self, index: u32, offset: i16, missing: Label) {
        self.lookup_index(self.maps.tap_counts, index as i32, missing);
        self.add_to(Reg::R0, offset, 1);
    }
}

const _: () = assert!(Direction::In as u8 == 0 && Direction::Out as u8 == 1);
