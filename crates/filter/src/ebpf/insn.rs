//! Instructions as values, and their encoding.
//!
//! ```text
//! byte 0    byte 1            bytes 2-3   bytes 4-7
//! opcode    dst:4 | src:4     offset      immediate        (little-endian machines: dst in the low half)
//! ```
//!
//! The opcode's low 3 bits are the class; see RFC 9669 §3.

/// A register. `R10` is the read-only frame pointer; `R1`–`R5` hold a helper's arguments and are lost in a call,
/// which gives its result in `R0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "named as in every description of eBPF")]
pub enum Reg {
    R0 = 0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Bytes of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Size {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// The second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant; sign-extended in 64-bit operations.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// Arithmetic (RFC 9669 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say most")]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Remainder = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    /// The sign comes after: all ones of a number that is negative, where it is shifted by 63.
    SignedShiftRight = 0xc0,
}

/// Conditions of a jump; comparisons are unsigned unless the name says otherwise (RFC 9669 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    /// `dst & operand` is not zero.
    Set = 0x40,
    NotEqual = 0x50,
    SignedGreater = 0x60,
    Less = 0xa0,
    LessOrEqual = 0xb0,
    SignedLess = 0xc0,
    SignedLessOrEqual = 0xd0,
}

/// Changes of a word of memory in one step, which give what was there before (RFC 9669 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Fetch {
    Add = 0x01,
    Or = 0x41,
    And = 0x51,
    Xor = 0xa1,
    Swap = 0xe1,
}

/// Functions of the kernel that programs here call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `void *bpf_map_lookup_elem(map, key)`
    MapLookupElem = 1,
    /// `long bpf_map_update_elem(map, key, value, flags)`
    MapUpdateElem = 2,
    /// Delete an entry of a map.
    MapDeleteElem = 3,
    /// `u64 bpf_ktime_get_ns(void)`: the monotonic clock.
    KtimeGetNs = 5,
    /// `long bpf_skb_store_bytes(skb, offset, from, len, flags)`: negative when there is no such place.
    SkbStoreBytes = 9,
    /// `long bpf_l4_csum_replace(skb, offset, from, to, flags)`: has a checksum follow, as the buffer says that it is to be.
    L4CsumReplace = 11,
    /// `long bpf_tail_call(ctx, prog_array, index)`: comes back only on failure.
    TailCall = 12,
    /// `long bpf_clone_redirect(skb, ifindex, flags)`: sends a copy at once; not zero when it was not sent.
    CloneRedirect = 13,
    /// `long bpf_redirect(ifindex, flags)`: the verdict to return.
    Redirect = 23,
    /// `long bpf_skb_load_bytes(skb, offset, to, len)`: from wherever the bytes lie; negative when they are not there.
    SkbLoadBytes = 26,
    /// `s64 bpf_csum_diff(from, from_size, to, to_size, seed)`: the sum of `to` without `from`; sizes are multiples of 4.
    CsumDiff = 28,
    /// `long bpf_skb_change_type(skb, type)`: for whom the packet is, of `PACKET_HOST` to `PACKET_OTHERHOST`.
    SkbChangeType = 32,
    /// `long bpf_skb_change_tail(skb, len, flags)`: a longer or shorter packet.
    SkbChangeTail = 38,
    /// `long bpf_skb_pull_data(skb, len)`: make the first bytes readable by pointer; packet pointers become invalid.
    SkbPullData = 39,
    /// `s64 bpf_csum_update(skb, csum)`: adds to the buffer's sum; negative when it has none.
    CsumUpdate = 40,
    /// `long bpf_xdp_adjust_head(ctx, delta)`: the packet begins later, or earlier; all packet pointers become invalid.
    XdpAdjustHead = 44,
    /// `long bpf_redirect_map(map, key, flags)`: the low bits of flags are the verdict when there is no entry.
    RedirectMap = 51,
    /// `long bpf_xdp_adjust_meta(ctx, delta)`: room before the packet; all packet pointers become invalid.
    XdpAdjustMeta = 54,
    /// `long bpf_xdp_adjust_tail(ctx, delta)`: a longer or shorter packet; all packet pointers become invalid.
    XdpAdjustTail = 65,
    /// `void *bpf_ringbuf_reserve(ringbuf, size, flags)`
    RingbufReserve = 131,
    /// `void bpf_ringbuf_submit(data, flags)`
    RingbufSubmit = 132,
    /// `void bpf_ringbuf_discard(data, flags)`
    RingbufDiscard = 133,
    /// `struct task_struct *bpf_get_current_task_btf(void)`: the caller.
    GetCurrentTask = 158,
    /// `u64 bpf_ktime_get_coarse_ns(void)`: the monotonic clock as of the last tick, some milliseconds ago.
    KtimeGetCoarseNs = 160,
    /// `long bpf_check_mtu(ctx, ifindex, u32 *mtu, diff, flags)`: 0 when the packet fits; `mtu` goes in as 0 (Linux 5.12).
    CheckMtu = 163,
    /// `u64 bpf_xdp_get_buff_len(xdp_md)`: of all buffers of the packet.
    XdpGetBuffLen = 188,
    /// `long bpf_xdp_load_bytes(xdp_md, offset, buf, len)`: across buffers; negative when the bytes are not there.
    XdpLoadBytes = 189,
    /// `long bpf_xdp_store_bytes(xdp_md, offset, buf, len)`: across buffers; negative when there is no such place.
    XdpStoreBytes = 190,
}

/// One instruction; the second half of a 64-bit load counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Operation and class.
    pub code: u8,
    /// Destination register.
    pub dst: u8,
    /// Source register, or the kind of a 64-bit immediate.
    pub src: u8,
    /// Jump distance, or memory offset.
    pub offset: i16,
    /// Constant.
    pub imm: i32,
}

pub(super) const CLASS_LDX: u8 = 0x01;
pub(super) const CLASS_ST: u8 = 0x02;
pub(super) const CLASS_STX: u8 = 0x03;
pub(super) const CLASS_ALU32: u8 = 0x04;
pub(super) const CLASS_JMP: u8 = 0x05;
pub(super) const CLASS_JMP32: u8 = 0x06;
pub(super) const CLASS_ALU64: u8 = 0x07;
/// The second operand is a register.
pub(super) const SOURCE_REG: u8 = 0x08;
/// Loads and stores of plain memory.
pub(super) const MODE_MEM: u8 = 0x60;
/// Atomic operations on memory (RFC 9669 §5.3): the immediate says which.
pub(super) const MODE_ATOMIC: u8 = 0xc0;
pub(super) const ATOMIC_ADD: i32 = 0x00;
pub(super) const ATOMIC_COMPARE_EXCHANGE: i32 = 0xf1;
pub(super) const LOAD_IMM64: u8 = 0x18;
pub(super) const TO_BIG_ENDIAN: u8 = 0xdc;
pub(super) const TO_LITTLE_ENDIAN: u8 = 0xd4;
pub(super) const JUMP: u8 = 0x05;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;
/// The immediate of a 64-bit load is a map's descriptor, which the kernel replaces by the map.
pub(super) const PSEUDO_MAP_FD: u8 = 1;
/// The immediate of a 64-bit load is an array's descriptor, and a place in its value.
pub(super) const PSEUDO_MAP_VALUE: u8 = 2;
/// The function called is one of the kernel's own, named by its number in the kernel's type information.
pub(super) const PSEUDO_KFUNC_CALL: u8 = 2;

/// A half word of a packet as it is loaded on this machine.
pub const fn half(value: u16) -> i32 {
    u16::from_ne_bytes(value.to_be_bytes()) as i32
}

impl Insn {
    const fn new(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> Self {
        Self {
            code,
            dst,
            src,
            offset,
            imm,
        }
    }

    /// An operation with a second operand, in class `class`.
    const fn binary(code: u8, dst: Reg, operand: Operand) -> Self {
        match operand {
            Operand::Reg(src) => Self::new(code | SOURCE_REG, dst as u8, src as u8, 0, 0),
            Operand::Imm(imm) => Self::new(code, dst as u8, 0, 0, imm),
        }
    }

    /// `dst op= operand`, 64 bits.
    pub const fn alu64(op: Alu, dst: Reg, operand: Operand) -> Self {
        Self::binary(op as u8 | CLASS_ALU64, dst, operand)
    }

    /// `dst op= operand`, low 32 bits; the high ones become zero.
    pub const fn alu32(op: Alu, dst: Reg, operand: Operand) -> Self {
        Self::binary(op as u8 | CLASS_ALU32, dst, operand)
    }

    /// Swap the low `bits` (16, 32 or 64) of `dst` if the machine is little-endian; clear those above.
    pub const fn to_big_endian(dst: Reg, bits: i32) -> Self {
        Self::new(TO_BIG_ENDIAN, dst as u8, 0, 0, bits)
    }

    /// Swap the low `bits` (16, 32 or 64) of `dst` if the machine is big-endian; clear those above.
    pub const fn to_little_endian(dst: Reg, bits: i32) -> Self {
        Self::new(TO_LITTLE_ENDIAN, dst as u8, 0, 0, bits)
    }

    /// `dst = *(size *)(src + offset)`, zero-extended.
    pub const fn load(size: Size, dst: Reg, src: Reg, offset: i16) -> Self {
        let code = CLASS_LDX | MODE_MEM | size as u8;
        Self::new(code, dst as u8, src as u8, offset, 0)
    }

    /// `*(size *)(dst + offset) = src`.
    pub const fn store(size: Size, dst: Reg, offset: i16, src: Reg) -> Self {
        let code = CLASS_STX | MODE_MEM | size as u8;
        Self::new(code, dst as u8, src as u8, offset, 0)
    }

    /// `*(size *)(dst + offset) = imm`.
    pub const fn store_imm(size: Size, dst: Reg, offset: i16, imm: i32) -> Self {
        Self::new(CLASS_ST | MODE_MEM | size as u8, dst as u8, 0, offset, imm)
    }

    /// An operation on eight bytes of memory, as one step.
    const fn atomic(operation: i32, dst: Reg, offset: i16, src: Reg) -> Self {
        let code = CLASS_STX | MODE_ATOMIC | Size::Double as u8;
        Self::new(code, dst as u8, src as u8, offset, operation)
    }

    /// `*(u64 *)(dst + offset) += src`, as one step.
    pub const fn atomic_add(dst: Reg, offset: i16, src: Reg) -> Self {
        Self::atomic(ATOMIC_ADD, dst, offset, src)
    }

    /// `src = *(u64 *)(dst + offset)`, which becomes what the change makes of it and `src`, as one step. A full barrier
    /// (Linux 5.12).
    pub const fn fetch(change: Fetch, dst: Reg, offset: i16, src: Reg) -> Self {
        Self::atomic(change as i32, dst, offset, src)
    }

    /// If `*(u64 *)(dst + offset) == r0` then it becomes `src`; `r0` is what was there. One step.
    pub const fn compare_exchange(dst: Reg, offset: i16, src: Reg) -> Self {
        Self::atomic(ATOMIC_COMPARE_EXCHANGE, dst, offset, src)
    }

    /// `dst = value`: two instructions.
    pub const fn load_imm64(dst: Reg, value: u64) -> [Self; 2] {
        [
            Self::new(LOAD_IMM64, dst as u8, 0, 0, value as i32),
            Self::new(0, 0, 0, 0, (value >> 32) as i32),
        ]
    }

    /// Call a function of the kernel that is not a helper, by its number in the kernel's type information.
    pub const fn call_kernel_function(number: i32) -> Self {
        Self::new(CALL, 0, PSEUDO_KFUNC_CALL, 0, number)
    }

    /// `dst = &value[offset]`, of the only value of an array: two instructions.
    pub const fn load_map_value(dst: Reg, fd: i32, offset: u32) -> [Self; 2] {
        [
            Self::new(LOAD_IMM64, dst as u8, PSEUDO_MAP_VALUE, 0, fd),
            Self::new(0, 0, 0, 0, offset as i32),
        ]
    }

    /// `dst = map`: two instructions.
    pub const fn load_map(dst: Reg, fd: i32) -> [Self; 2] {
        [
            Self::new(LOAD_IMM64, dst as u8, PSEUDO_MAP_FD, 0, fd),
            Self::new(0, 0, 0, 0, 0),
        ]
    }

    /// Jump if `dst condition operand` in 64 bits.
    pub const fn jump_if(condition: Condition, dst: Reg, operand: Operand) -> Self {
        Self::binary(condition as u8 | CLASS_JMP, dst, operand)
    }

    /// Jump if `dst condition operand` in the low 32 bits.
    pub const fn jump_if32(condition: Condition, dst: Reg, operand: Operand) -> Self {
        Self::binary(condition as u8 | CLASS_JMP32, dst, operand)
    }

    /// Jump always.
    pub const fn jump() -> Self {
        Self::new(JUMP, 0, 0, 0, 0)
    }

    /// Call a function of the kernel.
    pub const fn call(helper: Helper) -> Self {
        Self::new(CALL, 0, 0, 0, helper as i32)
    }

    /// Return `R0`.
    pub const fn exit() -> Self {
        Self::new(EXIT, 0, 0, 0, 0)
    }

    /// The instruction as bpf(2) takes it: its 8 bytes in memory order, as a native integer.
    pub const fn to_word(self) -> u64 {
        let [o0, o1] = self.offset.to_ne_bytes();
        let [i0, i1, i2, i3] = self.imm.to_ne_bytes();
        let registers = if cfg!(target_endian = "little") {
            self.dst | self.src << 4
        } else {
            self.dst << 4 | self.src
        };
        u64::from_ne_bytes([self.code, registers, o0, o1, i0, i1, i2, i3])
    }

    /// The instruction in a word of a program.
    pub const fn from_word(word: u64) -> Self {
        let [code, registers, o0, o1, i0, i1, i2, i3] = word.to_ne_bytes();
        let (low, high) = (registers & 15, registers >> 4);
        let (dst, src) = if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        };
        Self {
            code,
            dst,
            src,
            offset: i16::from_ne_bytes([o0, o1]),
            imm: i32::from_ne_bytes([i0, i1, i2, i3]),
        }
    }
}
