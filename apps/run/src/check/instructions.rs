//! Calls of sockets that a program makes by instructions of its own, not by the C library: as programs in Rust do that use `rustix`.
//! The library that is loaded into them does not see these.
//!
//! What is looked for is a number of such a call, put into the register of call numbers a few instructions before the one that calls
//! the kernel. What passes numbers on (`syscall(2)`, code that was not optimised) has none there, and is not known.

use std::io::{Read, Seek};

use elf::abi;

use super::elf::{Damage, Parts};
#[cfg(target_arch = "x86_64")]
use super::steps::reach_the_end;
use crate::limits::{CODE_BYTES, ELF_PART};

/// Calls that take a socket, or wait for one. Those of before are not there on every machine.
const CALLS: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Bytes of instructions before the one that calls the kernel in which its number is looked for.
const BEFORE: usize = 40;

/// Whether a program, or a library, makes calls of sockets by itself. Looked at are its first [`CODE_BYTES`] of instructions.
///
/// # Errors
///
/// It is no ELF file that the kernel takes.
pub(super) fn has_socket_calls(file: impl Read + Seek) -> Result<bool, Damage> {
    let mut parts = Parts::open(file)?;
    let head = parts.head()?;
    let mut left = CODE_BYTES;
    for segment in parts.segments(&head)? {
        if segment.p_type != abi::PT_LOAD || segment.p_flags & abi::PF_X == 0 {
            continue;
        }
        let (mut at, end) = (0, segment.p_filesz.min(left));
        left -= end;
        while at < end {
            // One that stands across the end of a part is in the next.
            let part = parts.part(
                segment.p_offset.saturating_add(at),
                (end - at).min(ELF_PART),
            )?;
            if calls_sockets(&part) {
                return Ok(true);
            }
            at += match end - at > ELF_PART {
                true => ELF_PART - 2 * BEFORE as u64,
                false => ELF_PART,
            };
        }
    }
    Ok(false)
}

/// Whether these instructions call the kernel by the number of a call of sockets.
fn calls_sockets(code: &[u8]) -> bool {
    let is_known = |number: u32| CALLS.contains(&libc::c_long::from(number));
    kernel_calls(code)
        .filter_map(|at| number_before(&code[at.saturating_sub(BEFORE)..at]))
        .any(is_known)
}

/// Where instructions that call the kernel may stand: `syscall`.
#[cfg(target_arch = "x86_64")]
fn kernel_calls(code: &[u8]) -> impl Iterator<Item = usize> {
    memchr::memmem::find_iter(code, &[0x0f, 0x05])
}

/// The number that was put into `eax` last: `mov eax, NUMBER`, `mov rax, NUMBER`, or `push NUMBER` and `pop rax`. Where an instruction begins
/// is not known: what cannot be a number of a call is passed over, and what is followed by other instructions than the one that calls the
/// kernel, of which these bytes are a part, or from which the program goes elsewhere.
#[cfg(target_arch = "x86_64")]
fn number_before(code: &[u8]) -> Option<u32> {
    const NUMBER_MAX: u32 = 600;
    let word = |at: usize| {
        let bytes = code.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let number = |at: usize| {
        let (number, size) = match &code[at..] {
            // Behind a REX prefix it is another register, or longer.
            [0xb8, ..] if at == 0 || code[at - 1] & 0xf0 != 0x40 => (word(at + 1)?, 5),
            [0x48, 0xc7, 0xc0, ..] => (word(at + 3)?, 7),
            [0x6a, number @ 0..0x80, 0x58, ..] => (u32::from(*number), 3),
            _ => return None,
        };
        (number < NUMBER_MAX && reach_the_end(&code[at + size..])).then_some(number)
    };
    (0..code.len()).rev().find_map(number)
}

/// Where instructions that call the kernel stand: `svc #0`.
#[cfg(target_arch = "aarch64")]
fn kernel_calls(code: &[u8]) -> impl Iterator<Item = usize> {
    let words = code.chunks_exact(4).enumerate();
    words
        .filter(|(_, word)| *word == 0xd400_0001_u32.to_le_bytes())
        .map(|(n, _)| 4 * n)
}

/// The number that was put into `x8` or `w8` last: `mov x8, #NUMBER`.
#[cfg(target_arch = "aarch64")]
fn number_before(code: &[u8]) -> Option<u32> {
    let number = |word: &[u8]| {
        let word = u32::from_le_bytes(word.try_into().ok()?);
        (word & 0x7fe0_001f == 0x5280_0008).then_some(word >> 5 & 0xffff)
    };
    code.chunks_exact(4).rev().find_map(number)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::fs::File;
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// A program of these instructions alone.
    fn program_of(code: &[u8]) -> Vec<u8> {
        let mut bytes = std::fs::read("/proc/self/exe").expect("this program")[..64].to_vec();
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes()); // e_phoff
        bytes[56..58].copy_from_slice(&1_u16.to_le_bytes()); // e_phnum
        bytes.extend(abi::PT_LOAD.to_le_bytes());
        bytes.extend(abi::PF_X.to_le_bytes());
        let (at, len) = (64 + 56, code.len() as u64);
        let words = [at, at, at, len, len, 0];
        bytes.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        bytes.extend(code);
        bytes
    }

    #[test]
    fn a_program_is_searched_wherever_its_parts_end() {
        let is_found = |bytes| has_socket_calls(Cursor::new(bytes)).expect("a program");
        let call = [0xb8, 41, 0, 0, 0, 0x0f, 0x05];
        for before in (0..10).map(|more| ELF_PART as usize - more) {
            let code = [&vec![0x90; before][..], &call, &[0x90; 100]].concat();
            assert!(is_found(program_of(&code)), "{before}");
        }
        assert!(!is_found(program_of(&[0x90; 100])));
        let shell = File::open("/bin/sh").expect("a shell");
        assert!(
            !has_socket_calls(shell).expect("a program"),
            "it uses the C library"
        );
    }

    #[test]
    fn a_call_is_known_by_the_number_that_was_loaded_last() {
        const CALL: [u8; 2] = [0x0f, 0x05];
        for (code, expected) in [
            (&[0xb8, 41, 0, 0, 0][..], true),                // mov eax, socket
            (&[0x48, 0xc7, 0xc0, 41, 0, 0, 0], true),        // mov rax, socket
            (&[0x6a, 41, 0x58], true),                       // push socket; pop rax
            (&[0xb8, 41, 0, 0, 0, 0xb8, 3, 0, 0, 0], false), // ... and then close
            (&[0xb8, 3, 0, 0, 0, 0xb8, 232, 0, 0, 0], true), // epoll_wait, after close
            (&[0x41, 0xb8, 41, 0, 0, 0], false),             // mov r8d, 41
            (&[0xb8, 41, 0, 0, 0, 0xb8, 0, 0, 0, 64], true), // no number of a call
            (&[0xb8, 41], false),
            // mov eax, poll, and then the call's bytes in the displacement of lea rdi, [rip + ...]
            (&[0xb8, 7, 0, 0, 0, 0x48, 0x8d, 0x3d], false),
            (&[0xb8, 7, 0, 0, 0, 0xeb, 3, 0x90], false), // jmp
            (&[0xb8, 7, 0, 0, 0, 0xe8, 1, 0, 0, 0], false), // call
            (&[0xb8, 7, 0, 0, 0, 0xc3], false),          // ret
            (&[0xb8, 7, 0, 0, 0, 0x48, 0x89, 0xc3], true), // mov rbx, rax
            (&[0xb8, 7, 0, 0, 0, 0xbe, 1, 0, 0, 0], true), // mov esi, 1
        ] {
            let code = [code, &CALL].concat();
            assert_eq!(calls_sockets(&code), expected, "{code:x?}");
        }
        let far = [&[0xb8, 41, 0, 0, 0][..], &[0x90; BEFORE], &CALL].concat();
        assert!(!calls_sockets(&far));
    }

    proptest! {
        /// Whatever stands in a file, it is read to an end.
        #[test]
        fn any_bytes_will_do(code in prop::collection::vec(any::<u8>(), 0..4096)) {
            calls_sockets(&code);
            let mut bytes = code;
            for (place, byte) in bytes.iter_mut().zip(*b"\x7fELF\x02\x01\x01") {
                *place = byte;
            }
            let _ = has_socket_calls(Cursor::new(bytes));
        }
    }
}
