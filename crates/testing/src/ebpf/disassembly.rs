//! Programs as text, in the notation of the kernel's verifier log, with absolute jump targets.

use std::fmt::Write as _;

use super::insn::{Access, Insn, Wide, class, source};

/// One line for each instruction: its number, then what it does. Words that are no instruction known here are shown in
/// hexadecimal.
#[must_use]
pub fn disassemble(words: &[u64]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let insn = Insn::of_word(*word);
        let upper = words.get(at + 1).map(|word| Insn::of_word(*word));
        let wide = upper.and_then(|upper| insn.wide(upper));
        let (line, len) = match wide {
            Some(Wide::Map(fd)) => (format!("r{} = map[fd {fd}]", insn.dst), 2),
            Some(Wide::Value(fd, at)) => (format!("r{} = map[fd {fd}] value + {at}", insn.dst), 2),
            Some(Wide::Constant(value)) => (format!("r{} = {value:#x} ll", insn.dst), 2),
            None => (
                one(insn, at).unwrap_or_else(|| format!("?? {word:016x}")),
                1,
            ),
        };
        writeln!(text, "{at:4}: {line}").expect("writing to a string");
        at += len;
    }
    text
}

fn one(insn: Insn, at: usize) -> Option<String> {
    const KERNEL_FUNCTION: u8 = 2;
    Some(match insn {
        _ if insn.is_exit() => "exit".to_owned(),
        _ if insn.is_jump_always() => format!("goto {}", target(insn, at)),
        _ if insn.is_call() && insn.src == KERNEL_FUNCTION => format!("call kernel#{}", insn.imm),
        _ if insn.is_call() => format!("call {}", helper(insn.imm)),
        Insn { code: 0xdc, .. } => format!("r{0} = be{1} r{0}", insn.dst, insn.imm),
        Insn { code: 0xd4, .. } => format!("r{0} = le{1} r{0}", insn.dst, insn.imm),
        _ => match insn.code & class::MASK {
            class::ALU64 | class::ALU32 => arithmetic(insn)?,
            class::JMP | class::JMP32 => conditional(insn, at)?,
            class::LDX | class::ST | class::STX => memory(insn)?,
            _ => return None,
        },
    })
}

fn arithmetic(insn: Insn) -> Option<String> {
    let op = match insn.operation() {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x90 => "%=",
        0xa0 => "^=",
        0xb0 => "=",
        0xc0 => "s>>=",
        _ => return None,
    };
    Some(with_operand(insn, op))
}

fn conditional(insn: Insn, at: usize) -> Option<String> {
    let op = match insn.operation() {
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
    let test = with_operand(insn, op);
    Some(format!("if {test} goto {}", target(insn, at)))
}

fn memory(insn: Insn) -> Option<String> {
    let Insn {
        dst, src, offset, ..
    } = insn;
    let size = match insn.len() {
        1 => "u8",
        2 => "u16",
        4 => "u32",
        _ => "u64",
    };
    Some(match (insn.access()?, insn.code & class::MASK) {
        (Access::Add, _) => format!("lock *({size} *)(r{dst} {offset:+}) += r{src}"),
        (Access::FetchAdd, _) => {
            format!("r{src} = atomic64_fetch_add((u64 *)(r{dst} {offset:+}), r{src})")
        }
        (Access::CompareExchange, _) => {
            format!("r0 = atomic64_cmpxchg((u64 *)(r{dst} {offset:+}), r0, r{src})")
        }
        (Access::Plain, class::ST) => format!("*({size} *)(r{dst} {offset:+}) = {}", insn.imm),
        (Access::Plain, class::LDX) => format!("r{dst} = *({size} *)(r{src} {offset:+})"),
        (Access::Plain, _) => format!("*({size} *)(r{dst} {offset:+}) = r{src}"),
    })
}

/// Both operands of arithmetic or a comparison, all of their bits (`r`) or the low 32 (`w`).
fn with_operand(insn: Insn, op: &str) -> String {
    let register = match insn.code & class::MASK {
        class::ALU32 | class::JMP32 => 'w',
        _ => 'r',
    };
    let operand = match insn.imm {
        _ if insn.code & source::REGISTER != 0 => format!("{register}{}", insn.src),
        small @ -255..=255 => small.to_string(),
        large => format!("{large:#x}"),
    };
    format!("{register}{} {op} {operand}", insn.dst)
}

fn target(insn: Insn, at: usize) -> isize {
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
        188 => "xdp_get_buff_len",
        189 => "xdp_load_bytes",
        190 => "xdp_store_bytes",
        other => return format!("helper {other}"),
    };
    format!("bpf_{name}")
}
