//! The program that is run for each frame that a program sends in live frame mode (`BPF_PROG_RUN`): it takes the next
//! descriptor from an array that user space writes, copies that frame out of the memory of frames, and redirects it to the
//! interface.
//!
//! ```text
//! queue:  taken | refused | end | returned | descriptor 0 | descriptor 1 | ... | lost     words of 64 bits
//! frames: chunk 0 | chunk 1 | ...                                                   values of one size
//! ```
//!
//! The program advances `taken` by one for each frame, so that its value before and after a run says how many there
//! were. A descriptor that is no frame of the memory is dropped and counted in `refused`. `end`, `returned` and `lost` are for the
//! checked program of a shared interface ([`crate::gate::batch`]), which takes its frames by the same code.

use crate::ebpf::{Alu, Assembler, Condition, Emit, Helper, Label, Reg, Size};
use crate::program::{Program, xdp};

/// Descriptors of the queue, a power of two; they are taken round and round.
pub const QUEUE_LEN: u32 = 512;

/// The word of the first descriptor.
pub const DESCRIPTORS: usize = 4;

/// Words of the queue's value.
pub const QUEUE_WORDS: usize = LOST + 1;

/// The word that counts the frames taken, modulo 2^64.
pub const TAKEN: usize = 0;

/// The word that counts the descriptors refused.
pub const REFUSED: usize = 1;

/// The word that says where the checked program stops: before it takes as many, modulo 2^64.
pub const END: usize = 2;

/// The word that counts the frames which the checked program has given back, see [`GIVEN_BACK`].
pub const RETURNED: usize = 3;

/// The word that counts the frames which were allowed and which the interface that they were to leave by did not take.
pub const LOST: usize = DESCRIPTORS + QUEUE_LEN as usize;

/// The bit that the checked program sets in the descriptor of a frame which it neither sent nor refused.
pub const GIVEN_BACK: u64 = 1 << 63;

/// Bytes that each frame begins with: the shortest that Ethernet knows, without its check sequence.
pub const BEGINNING_LEN: usize = 60;

/// Where in a chunk a frame may begin: at its start, or behind the room that the kernel leaves before what it received.
const OFFSET_MAX: u32 = 256;

/// The longest frame, in bytes: what is left of a page of 4,096 beside what the kernel keeps there of the frame, the room
/// before it, and that behind it.
const FRAME_LEN_MAX: u32 = 3_300;

/// Shortest frame: an Ethernet header.
const FRAME_LEN_MIN: u32 = 14;

/// Where the key of the map that is asked lies on the stack.
const KEY: i16 = -4;

/// Descriptors of the maps that the program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitMaps {
    /// An array of one value of [`QUEUE_WORDS`] words.
    pub queue_fd: i32,
    /// An array of chunks.
    pub frames_fd: i32,
    /// How many.
    pub chunks: u32,
    /// A map of interfaces; the first one is taken.
    pub interfaces_fd: i32,
}

/// The longest frame that leaves this way from chunks of this many bytes.
pub const fn frame_len_max(chunk_size: u32) -> u32 {
    let whole = chunk_size - OFFSET_MAX;
    if whole < FRAME_LEN_MAX {
        whole
    } else {
        FRAME_LEN_MAX
    }
}

/// The word of the frame that lies at `offset` of a chunk; `None` where the program would refuse it.
#[inline]
pub const fn descriptor(chunk_size: u32, chunk: u32, offset: u32, len: u32) -> Option<u64> {
    let sound = offset <= OFFSET_MAX && FRAME_LEN_MIN <= len && len <= frame_len_max(chunk_size);
    if sound {
        Some((len as u64) << 48 | (offset as u64) << 32 | chunk as u64)
    } else {
        None
    }
}

/// The program, for chunks of this many bytes.
pub fn transmit(maps: &TransmitMaps, chunk_size: u32) -> Program {
    let mut asm = Assembler::new();
    let [drop, refuse, sized] = [(); 3].map(|()| asm.label());
    asm.set(Reg::R6, Reg::R1);
    let take = Take {
        queue: Memory::Own(maps.queue_fd),
        frames: Memory::Own(maps.frames_fd),
        chunks: maps.chunks,
        chunk_size,
        key: KEY,
    };
    take.open(&mut asm, drop);
    take.advance(&mut asm);
    take.frame(&mut asm, refuse);
    asm.jump_if(Reg::R7, Condition::Equal, BEGINNING_LEN as i32, sized);
    asm.set(Reg::R1, Reg::R6);
    asm.set(Reg::R2, Reg::R7);
    asm.alu(Alu::Sub, Reg::R2, BEGINNING_LEN as i32);
    asm.call(Helper::XdpAdjustTail);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, refuse);
    asm.bind(sized);
    asm.set(Reg::R1, Reg::R6);
    asm.set(Reg::R2, 0);
    asm.set(Reg::R3, Reg::R8);
    asm.set(Reg::R4, Reg::R7);
    asm.call(Helper::XdpStoreBytes);
    asm.jump_if(Reg::R0, Condition::NotEqual, 0, refuse);
    asm.set(Reg::R2, 0);
    asm.redirect(maps.interfaces_fd, xdp::DROP);
    asm.exit();
    asm.bind(refuse);
    asm.add_to(Reg::R9, 8 * REFUSED as i16, 1);
    asm.bind(drop);
    asm.set(Reg::R0, xdp::DROP);
    asm.exit();
    Program::new(asm.finish().expect("it is short"))
}

/// An array that frames are taken from.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// The program's own.
    Own(i32),
    /// That of a slot: an array of arrays, and where on the stack the slot's number is, in four bytes.
    OfSlot(i32, i16),
}

impl Memory {
    /// `r0 = &array[key]`, the key on the stack; to `missing` when there is none.
    fn look_up(self, asm: &mut Assembler, key: i16, missing: Label) {
        match self {
            Self::Own(fd) => asm.look_up(fd, key, missing),
            Self::OfSlot(fd, slot) => {
                asm.look_up(fd, slot, missing);
                asm.set(Reg::R1, Reg::R0);
                asm.look_up_in_r1(key, missing);
            }
        }
    }
}

/// Code that takes the next frame, in three steps. r0 to r5 are lost in each.
pub(crate) struct Take {
    pub(crate) queue: Memory,
    pub(crate) frames: Memory,
    /// How many it has.
    pub(crate) chunks: u32,
    pub(crate) chunk_size: u32,
    /// Where the key of the map that is asked lies on the stack: four bytes.
    pub(crate) key: i16,
}

impl Take {
    /// r9 points to the queue; else to `missing`.
    pub(crate) fn open(&self, asm: &mut Assembler, missing: Label) {
        asm.store_imm(Size::Word, Reg::R10, self.key, 0);
        self.queue.look_up(asm, self.key, missing);
        asm.set(Reg::R9, Reg::R0);
    }

    /// r2 points to the word of the next descriptor, less [`DESCRIPTORS`] words; it counts as taken.
    pub(crate) fn advance(&self, asm: &mut Assembler) {
        asm.load(Size::Double, Reg::R1, Reg::R9, 8 * TAKEN);
        asm.set(Reg::R2, Reg::R1);
        asm.alu(Alu::Add, Reg::R2, 1);
        asm.store(Size::Double, Reg::R9, 8 * TAKEN, Reg::R2);
        asm.alu(Alu::And, Reg::R1, QUEUE_LEN as i32 - 1);
        asm.alu(Alu::ShiftLeft, Reg::R1, 3);
        asm.set(Reg::R2, Reg::R9);
        asm.alu(Alu::Add, Reg::R2, Reg::R1);
    }

    /// By r2: the frame's length in r7, and r8 points to its first byte; to `refuse` when it is no frame of the memory. User space chooses
    /// all three numbers, and the frame is looked at: so they are clamped for ways by mistaken comparisons, too. Nor does the kernel clamp the
    /// number of a value for the programs of who is privileged.
    pub(crate) fn frame(&self, asm: &mut Assembler, refuse: Label) {
        // Read once: user space may write it meanwhile.
        asm.load(Size::Double, Reg::R1, Reg::R2, 8 * DESCRIPTORS);
        asm.set(Reg::R7, Reg::R1);
        asm.alu(Alu::ShiftRight, Reg::R7, 48);
        asm.set(Reg::R8, Reg::R1);
        asm.alu(Alu::ShiftRight, Reg::R8, 32);
        asm.alu(Alu::And, Reg::R8, 0xffff);
        let len_max = frame_len_max(self.chunk_size) as i32;
        // What is too long is too short then; that it is not too long the verifier does not see.
        asm.clamp(Reg::R7, Reg::R2, len_max as u32 + 1);
        asm.jump_if(Reg::R7, Condition::Less, FRAME_LEN_MIN as i32, refuse);
        asm.jump_if(Reg::R7, Condition::Greater, len_max, refuse);
        asm.jump_if(Reg::R8, Condition::Greater, OFFSET_MAX as i32, refuse);
        asm.clamp(Reg::R8, Reg::R2, OFFSET_MAX + 1);
        asm.alu32(Alu::Move, Reg::R1, Reg::R1);
        let chunks = self.chunks as i32;
        asm.jump_if(Reg::R1, Condition::GreaterOrEqual, chunks, refuse);
        asm.clamp(Reg::R1, Reg::R2, self.chunks);
        asm.store(Size::Word, Reg::R10, self.key, Reg::R1);
        self.frames.look_up(asm, self.key, refuse);
        asm.alu(Alu::Add, Reg::R8, Reg::R0);
    }
}
