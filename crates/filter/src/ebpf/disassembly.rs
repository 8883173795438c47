//! Programs as text, in the notation of the kernel's verifier log, with absolute jump targets.

use super::insn::{
    ATOMIC_ADD, ATOMIC_COMPARE_EXCHANGE, ATOMIC_FETCH_ADD, CALL, CLASS_ALU32, CLASS_ALU64,
    CLASS_JMP, CLASS_JMP32, CLASS_LDX, CLASS_ST, CLASS_STX, EXIT, Insn, JUMP, LOAD_IMM64,
    MODE_ATOMIC, MODE_MEM, PSEUDO_KFUNC_CALL, PSEUDO_MAP_FD, SOURCE_REG, TO_BIG_ENDIAN,
    TO_LITTLE_ENDIAN,
};
use std::fmt::Write;

/// One line for each instruction: its number, then what it does. Words that are no instruction that this crate
/// generates are shown in hexadecimal.
pub fn disassemble(insns: &[Insn]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(insn) = insns.get(at) {
        let (line, length) = match (insn.code, insns.get(at + 1)) {
            (LOAD_IMM64, Some(upper)) => (load_imm64(insn, upper), 2),
            _ => (one(insn, at), 1),
        };
        writeln!(text, "{at:4}: {line}").expect("writing to a string");
        at += length;
    }
    text
}

fn load_imm64(insn: &Insn, upper: &Insn) -> String {
    if insn.src == PSEUDO_MAP_FD {
        return format!("r{} = map[fd {}]", insn.dst, insn.imm);
    }
    let value = u64::from(upper.imm as u32) << 32 | u64::from(insn.imm as u32);
    format!("r{} = {value:#x} ll", insn.dst)
}

fn one(insn: &Insn, at: usize) -> String {
    let text = match insn.code {
        EXIT => Some("exit".to_owned()),
        JUMP => Some(format!("goto {}", target(insn, at))),
        CALL if insn.src == PSEUDO_KFUNC_CALL => Some(format!("call kernel#{}", insn.imm)),
        CALL => Some(format!("call {}", helper(insn.imm))),
        TO_BIG_ENDIAN => Some(format!("r{0} = be{1} r{0}", insn.dst, insn.imm)),
        TO_LITTLE_ENDIAN => Some(format!("r{0} = le{1} r{0}", insn.dst, insn.imm)),
        code => match code & 7 {
            CLASS_ALU64 | CLASS_ALU32 => arithmetic(insn),
            CLASS_JMP | CLASS_JMP32 => conditional(insn, at),
            CLASS_LDX | CLASS_ST | CLASS_STX => memory(insn),
            _ => None,
        },
    };
    text.unwrap_or_else(|| format!("?? {:016x}", insn.to_word()))
}

fn arithmetic(insn: &Insn) -> Option<String> {
    let op = match insn.code & 0xf0 {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0xa0 => "^=",
        0xb0 => "=",
        _ => return None,
    };
    let register = if insn.code & 7 == CLASS_ALU32 {
        'w'
    } else {
        'r'
    };
    Some(format!(
        "{register}{} {op} {}",
        insn.dst,
        operand(insn, register)
    ))
}

fn conditional(insn: &Insn, at: usize) -> Option<String> {
    let op = match insn.code & 0xf0 {
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        0xd0 => "s<=",
        _ => return None,
    };
    let register = if insn.code & 7 == CLASS_JMP32 {
        'w'
    } else {
        'r'
    };
    Some(format!(
        "if {register}{} {op} {} goto {}",
        insn.dst,
        operand(insn, register),
        target(insn, at)
    ))
}

fn memory(insn: &Insn) -> Option<String> {
    let size = match insn.code & 0x18 {
        0x10 => "u8",
        0x08 => "u16",
        0x00 => "u32",
        _ => "u64",
    };
    if insn.code & 0xe0 == MODE_ATOMIC && insn.code & 7 == CLASS_STX {
        let (dst, offset, src) = (insn.dst, insn.offset, insn.src);
        return match insn.imm {
            ATOMIC_ADD => Some(format!("lock *({size} *)(r{dst} {offset:+}) += r{src}")),
            ATOMIC_FETCH_ADD => Some(format!(
                "r{src} = atomic64_fetch_add((u64 *)(r{dst} {offset:+}), r{src})"
            )),
            ATOMIC_COMPARE_EXCHANGE => Some(format!(
                "r0 = atomic64_cmpxchg((u64 *)(r{dst} {offset:+}), r0, r{src})"
            )),
            _ => None,
        };
    }
    if insn.code & 0xe0 != MODE_MEM {
        return None;
    }
    Some(match insn.code & 7 {
        CLASS_ST => format!(
            "*({size} *)(r{} {:+}) = {}",
            insn.dst, insn.offset, insn.imm
        ),
        CLASS_LDX => format!(
            "r{} = *({size} *)(r{} {:+})",
            insn.dst, insn.src, insn.offset
        ),
        _ => format!(
            "*({size} *)(r{} {:+}) = r{}",
            insn.dst, insn.offset, insn.src
        ),
    })
}

fn operand(insn: &Insn, register: char) -> String {
    if insn.code & SOURCE_REG != 0 {
        format!("{register}{}", insn.src)
    } else if insn.imm.unsigned_abs() < 256 {
        format!("{}", insn.imm)
    } else {
        format!("{:#x}", insn.imm)
    }
}

fn target(insn: &Insn, at: usize) -> isize {
    at as isize + 1 + insn.offset as isize
}

fn helper(number: i32) -> String {
    let name = match number {
        1 => "map_lookup_elem",
        2 => "map_update_elem",
        5 => "ktime_get_ns",
        9 => "skb_store_bytes",
        12 => "tail_call",
        13 => "clone_redirect",
        23 => "redirect",
        26 => "skb_load_bytes",
        28 => "csum_diff",
        38 => "skb_change_tail",
        39 => "skb_pull_data",
        40 => "csum_update",
        51 => "redirect_map",
        54 => "xdp_adjust_meta",
        65 => "xdp_adjust_tail",
        131 => "ringbuf_reserve",
        132 => "ringbuf_submit",
        133 => "ringbuf_discard",
        160 => "ktime_get_coarse_ns",
        163 => "check_mtu",
        188 => "xdp_get_buff_len",
        189 => "xdp_load_bytes",
        190 => "xdp_store_bytes",
        other => return format!("helper {other}"),
    };
    format!("bpf_{name}")
}
