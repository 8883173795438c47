//! How instructions of x86-64 follow each other, as far as it is to be known whether one comes to be executed behind another: the usual
//! ones of programs, not those of vectors beyond SSE2.

/// What an instruction does.
enum Step {
    /// How many bytes it has: the next one stands behind them.
    Next(usize),
    /// The next one is elsewhere, or the number of a call is used up.
    Leaves,
    /// It is none of those known here.
    Unknown,
}

/// Whether what begins here comes to the end of the code, and does not pass it or go elsewhere. What is not known may.
pub(super) fn reach_the_end(code: &[u8]) -> bool {
    let mut rest = code;
    while !rest.is_empty() {
        match step(rest) {
            Some(Step::Next(size)) if size <= rest.len() => rest = &rest[size..],
            Some(Step::Unknown) => return true,
            // One that is not whole stands across the end.
            Some(Step::Next(_) | Step::Leaves) | None => return false,
        }
    }
    true
}

/// The instruction that the code begins with; none of one that is not whole.
fn step(code: &[u8]) -> Option<Step> {
    let is_prefix = |byte: &&u8| matches!(byte, 0x66 | 0xf2 | 0xf3 | 0x40..=0x4f);
    let prefixes = code.iter().take_while(is_prefix).count();
    let (short, wide) = (
        code[..prefixes].contains(&0x66),
        code[..prefixes].iter().any(|byte| byte & 0xf8 == 0x48),
    );
    let rest = code.get(prefixes + 1..)?;
    let number = if short { 2 } else { 4 };
    // Behind the first byte: an operand, and a number.
    let operand = |number| Some(operand(rest)? + number);
    let group = || Some(rest.first()? >> 3 & 7);
    let size = match code[prefixes] {
        0x0f => return step_of_two(rest, prefixes + 1),
        0xc2 | 0xc3 | 0xcc | 0xe8 | 0xe9 | 0xeb | 0xf4 => return Some(Step::Leaves),
        0xff if (2..6).contains(&group()?) => return Some(Step::Leaves),
        0x50..=0x5f | 0x90 | 0x98 | 0x99 => 0,
        0x04 | 0x0c | 0x14 | 0x1c | 0x24 | 0x2c | 0x34 | 0x3c => 1,
        0x05 | 0x0d | 0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x68 | 0xa9 => number,
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 => 1,
        0xb8..=0xbf if wide => 8,
        0xb8..=0xbf => number,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => operand(1)?,
        0x69 | 0x81 | 0xc7 => operand(number)?,
        0xf6 if group()? < 2 => operand(1)?,
        0xf7 if group()? < 2 => operand(number)?,
        byte @ 0..0x40 if byte & 7 < 4 => operand(0)?,
        0x63 | 0x84..=0x8b | 0x8d | 0x8f | 0xd0..=0xd3 | 0xf6 | 0xf7 | 0xfe | 0xff => operand(0)?,
        _ => return Some(Step::Unknown),
    };
    Some(Step::Next(prefixes + 1 + size))
}

/// An instruction with a code of two bytes: `code` begins at the second, `before` bytes into it.
fn step_of_two(code: &[u8], before: usize) -> Option<Step> {
    let operand = |number| Some(operand(&code[1..])? + number);
    let size = match code.first()? {
        0x05 | 0x0b | 0x34 => return Some(Step::Leaves),
        0x80..=0x8f => 4,
        0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc6 => operand(1)?,
        0x10..=0x1f | 0x28..=0x2f | 0x40..=0x6f | 0x74..=0x76 | 0x7e | 0x7f => operand(0)?,
        0x90..=0x9f | 0xa3 | 0xab | 0xae | 0xaf | 0xb0..=0xb7 | 0xbb..=0xc1 => operand(0)?,
        0xa2 | 0xc8..=0xcf => 0,
        0xd0..=0xfe => operand(0)?,
        _ => return Some(Step::Unknown),
    };
    Some(Step::Next(before + 1 + size))
}

/// How many bytes say where an operand is (ModRM, SIB, displacement).
fn operand(code: &[u8]) -> Option<usize> {
    let first = code.first()?;
    let (mode, register) = (first >> 6, first & 7);
    if mode == 3 {
        return Some(1);
    }
    let index = usize::from(register == 4);
    let base = if register == 4 {
        code.get(1)? & 7
    } else {
        register
    };
    let displacement = match mode {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + index + displacement)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn instructions_that_follow_each_other_reach_the_end() {
        for (code, expected) in [
            (&[][..], true),
            (&[0x90], true),
            (&[0x48, 0x89, 0xc3], true),                   // mov rbx, rax
            (&[0x48, 0x8d, 0x3d], false),                  // lea rdi, [rip + ...
            (&[0x48, 0x8d, 0x3d, 1, 2, 3, 4], true),       // ... 0x04030201]
            (&[0x48, 0x8b, 0x44, 0x24, 8], true),          // mov rax, [rsp + 8]
            (&[0x8b, 0x04, 0x25, 1, 2, 3, 4], true),       // mov eax, [0x04030201]
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], true), // movabs
            (&[0x66, 0xc7, 0x07, 1, 2], true),             // mov word [rdi], 0x0201
            (&[0xf7, 0xc7, 1, 0, 0, 0], true),             // test edi, 1
            (&[0xf7, 0xdf], true),                         // neg edi
            (&[0x74, 5], true),                            // je
            (&[0x0f, 0x84, 1, 0, 0, 0], true),             // je
            (&[0x0f, 0x1f, 0x44, 0, 0], true),             // nop
            (&[0xeb, 5], false),                           // jmp
            (&[0xe9, 1, 0, 0, 0], false),                  // jmp
            (&[0xff, 0xe0], false),                        // jmp rax
            (&[0xff, 0x15, 1, 0, 0, 0], false),            // call [rip + 1]
            (&[0xe8, 1, 0, 0, 0], false),                  // call
            (&[0xc3], false),                              // ret
            (&[0x0f, 0x05], false),                        // syscall
            (&[0xff, 0xc0, 0xc3], false),                  // inc eax; ret
            (&[0xc5, 0xf8, 0x77], true),                   // vzeroupper: not known
        ] {
            assert_eq!(reach_the_end(code), expected, "{code:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_end(code in prop::collection::vec(any::<u8>(), 0..64)) {
            reach_the_end(&code);
        }
    }
}
