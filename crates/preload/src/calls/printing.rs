//! Printing calls (`exos run --trace`): those of network sockets, ours and the kernel's, and of waits for ours. A line goes to `exos run` by
//! a pipe, which prints it.

use std::fmt::{self, Write};

use crate::addresses::family_of;
use crate::epoll;
use crate::process::here;
use crate::sharing::find;
use crate::system::{self, AF_INET, AF_INET6, Iovec, call};
use crate::trace::number as n;
use crate::trace::{Answer, Call, Selected, pipe};

/// A call that has begun.
pub struct Begun {
    number: i64,
    args: [u64; 6],
    is_network: bool,
    selected: Selected,
}

/// Makes a call, and prints it if that is asked for.
macro_rules! traced {
    ($number:expr, [$($argument:expr),*], $made:expr) => {{
        let make = || $made;
        match $crate::trace::pipe::is_on() {
            false => make(),
            true => {
                let begun = $crate::calls::printing::Begun::new($number, &[$($argument as u64),*]);
                let result = make();
                if let Some(begun) = begun {
                    begun.end(result as i64);
                }
                result
            }
        }
    }};
}
pub(crate) use traced;

impl Begun {
    /// Looks at what it is given; `None` within another that is printed.
    #[cold]
    pub fn new(number: i64, given: &[u64]) -> Option<Self> {
        if pipe::enter() {
            return None;
        }
        let mut args = [0; 6];
        args[..given.len()].copy_from_slice(given);
        let mut begun = Self {
            number,
            args,
            is_network: false,
            selected: Selected::default(),
        };
        let before = system::errno();
        if matches!(number, n::SELECT | n::PSELECT6) {
            let words = (args[0] as i32).clamp(0, 1024).unsigned_abs().div_ceil(64) as usize;
            let Selected { sets, time } = &mut begun.selected;
            for (set, at) in sets.iter_mut().zip(&args[1..4]) {
                read_words(*at, &mut set[..words]);
            }
            if number == n::SELECT {
                read_words(args[4], time);
            }
        }
        begun.is_network = begun.is_of_network();
        system::set_errno(before);
        Some(begun)
    }

    /// Prints it, if it is of a network.
    #[cold]
    pub fn end(mut self, result: i64) {
        let before = system::errno();
        // One that has come to be ours, or a copy of one of ours.
        self.is_network |= self.is_of_network();
        if self.is_network {
            self.print(match result {
                0.. => Ok(result),
                _ => Err(before),
            });
        }
        system::set_errno(before);
        pipe::leave();
    }

    fn is_of_network(&self) -> bool {
        let fd = self.args[0] as i32;
        match self.number {
            n::SOCKET => [AF_INET, AF_INET6].contains(&fd),
            n::POLL | n::PPOLL => (0..self.args[1].min(1024)).any(|at| {
                let mut fd = [0; 4];
                memory(self.args[0].wrapping_add(8 * at), &mut fd) == 4
                    && find(i32::from_ne_bytes(fd)).is_some()
            }),
            n::SELECT | n::PSELECT6 => (0..fd.min(1024)).any(|fd| {
                let bit = |set: &[u64; 16]| set[fd as usize / 64] >> (fd % 64) & 1 != 0;
                self.selected.sets.iter().any(bit) && find(fd).is_some()
            }),
            n::EPOLL_WAIT | n::EPOLL_PWAIT | n::EPOLL_PWAIT2 => epoll::knows(fd),
            n::EPOLL_CTL => is_network(self.args[2] as i32),
            n::DUP2 | n::DUP3 => is_network(fd) || find(self.args[1] as i32).is_some(),
            n::BIND | n::CONNECT => is_network(fd) || self.is_named_network(),
            n::SPLICE => is_network(fd) || is_network(self.args[2] as i32),
            _ => is_network(fd),
        }
    }

    /// The address that it has is one of a network.
    fn is_named_network(&self) -> bool {
        let mut address = crate::memory::Address {
            bytes: [0; 28],
            len: 2,
        };
        memory(self.args[1], &mut address.bytes[..2]) == 2
            && [AF_INET, AF_INET6].contains(&family_of(address))
    }

    fn print(&self, result: Result<i64, i32>) {
        let call = Call {
            number: self.number,
            args: self.args,
            result,
            memory: &memory,
            selected: Some(&self.selected),
        };
        // SAFETY: always.
        let thread = unsafe { system::call(n::GETTID, [0; 6]) };
        // What has no room is left out: of the arguments, so that each line has its result.
        let mut end = Line::of(Line::SIZE / 2);
        let _ = write!(end, " = {}{}", Answer(result), call.found());
        let mut line = Line::of(Line::SIZE - end.len - Line::CUT.len());
        let is_whole = write!(line, "[{thread}] {call}").is_ok();
        line.append(if is_whole { b"" } else { Line::CUT });
        line.append(&end.bytes[..end.len]);
        line.send();
    }
}

/// Whether a descriptor is a shared socket, or one of the kernel's of a network.
fn is_network(fd: i32) -> bool {
    /// `struct stat`, and its kind of a socket.
    const STAT: usize = 256;
    const KIND: u32 = 0o170_000;
    const SOCKET: u32 = 0o140_000;
    if find(fd).is_some() {
        return true;
    }
    let mut stat = [0_u8; STAT];
    let at = system::MODE_AT;
    // SAFETY: there is room for what it writes.
    let is_socket = unsafe {
        let into = stat.as_mut_ptr().expose_provenance();
        call(n::FSTAT, [fd as usize, into, 0, 0, 0, 0]) >= 0
            && u32::from_ne_bytes([stat[at], stat[at + 1], stat[at + 2], stat[at + 3]]) & KIND
                == SOCKET
    };
    is_socket && system::is_of_ip(fd)
}

/// This process's memory, by a call that says where there is none.
pub(super) fn memory(at: u64, into: &mut [u8]) -> usize {
    let ours = Iovec {
        base: into.as_mut_ptr(),
        len: into.len(),
    };
    let theirs = Iovec {
        base: std::ptr::with_exposed_provenance_mut(at as usize),
        len: into.len(),
    };
    // SAFETY: the stretch that is written is this function's.
    unsafe {
        let process = system::getpid() as usize;
        let [ours, theirs] =
            [&raw const ours, &raw const theirs].map(|part| part.expose_provenance());
        let read = call(n::PROCESS_VM_READV, [process, ours, 1, theirs, 1, 0]);
        usize::try_from(read).unwrap_or(0)
    }
}

fn read_words(at: u64, into: &mut [u64]) {
    for (n, word) in into.iter_mut().enumerate() {
        let mut bytes = [0; 8];
        memory(at.wrapping_add(8 * n as u64), &mut bytes);
        *word = u64::from_ne_bytes(bytes);
    }
}

/// A line: written at once, and so not mixed with others'.
struct Line {
    bytes: [u8; Self::SIZE],
    len: usize,
    /// How long it may become by what is written, with its end.
    most: usize,
}

impl Line {
    /// Less than what a pipe takes as a whole (`PIPE_BUF`).
    const SIZE: usize = 2048;
    /// In place of arguments for which there is no room.
    const CUT: &[u8] = b"...)";

    fn of(most: usize) -> Self {
        Self {
            bytes: [0; Self::SIZE],
            len: 0,
            most,
        }
    }

    /// Puts bytes behind it, for which there is room.
    fn append(&mut self, other: &[u8]) {
        let end = self.len + other.len();
        self.bytes[self.len..end].copy_from_slice(other);
        self.len = end;
    }

    fn send(mut self) {
        // Without a part of the memory nothing keeps another file from having the pipe's number.
        if here().is_none_or(|here| here.part().is_none()) {
            return;
        }
        self.bytes[self.len] = b'\n';
        pipe::write(&self.bytes[..=self.len]);
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One place is for the line's end.
        let room = self.most - 1 - self.len;
        let count = text.len().min(room);
        self.bytes[self.len..self.len + count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        match count < text.len() {
            true => Err(fmt::Error),
            false => Ok(()),
        }
    }
}
