//! Printing calls as strace(1) has them: those that are answered here, and the lines of programs that have the library, which print
//! theirs themselves ([`exos_preload::trace`]).

use std::cell::RefCell;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use exos_host::intercept::{self, Call};
use exos_preload::memory::{ASK_LEVEL, MARKED, MARKED_DATAGRAMS};
use exos_preload::trace::{self, Answer};
use exos_program::message::{Level, text as message_text};
use rustix::pipe::{PipeFlags, pipe_with};

use self::lines::Lines;
use crate::answer::errno;
use crate::limits::{GOODBYE_TIME, TRACED_AT_ONCE};

mod lines;

/// The lines of the [trace](Trace), once there is one.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Tells the operator how it goes. Where calls are printed, behind these, and by their thread: standard error that has room may have none
/// any more where that thread writes at once.
pub(crate) fn say(message: Arguments<'_>) {
    match LINES.get() {
        Some(lines) => lines.add(message_text(Level::Info, message).as_bytes()),
        None => exos_program::info!("{message}"),
    }
}

/// What is printed, on standard error. Dropped, it waits for a reader that is slow, but not for one that has stopped.
pub(crate) struct Trace {
    /// What programs write their lines to, and where they are read.
    pipe: (OwnedFd, File),
    /// The beginning of a line of which the rest was not read yet.
    begun: RefCell<Vec<u8>>,
    lines: Lines,
}

impl Trace {
    /// # Errors
    ///
    /// The kernel gives no pipe, or no thread.
    pub fn new() -> io::Result<Self> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let lines = Lines::start(io::stderr().as_fd().try_clone_to_owned()?)?;
        Ok(Self {
            pipe: (theirs, ours.into()),
            begun: RefCell::default(),
            lines: LINES.get_or_init(|| lines).clone(),
        })
    }

    /// What programs write to.
    pub fn to_write(&self) -> BorrowedFd<'_> {
        self.pipe.0.as_fd()
    }

    /// Readable when there are lines.
    pub fn lines(&self) -> BorrowedFd<'_> {
        self.pipe.1.as_fd()
    }

    /// Prints the lines that there are, each of which was written at once: what the pipe holds, for programs may write on and on.
    pub fn pass_on(&self) {
        let mut bytes = [0; TRACED_AT_ONCE];
        let Ok(count @ 1..) = (&self.pipe.1).read(&mut bytes) else {
            return;
        };
        let mut begun = self.begun.borrow_mut();
        begun.extend_from_slice(&bytes[..count]);
        let whole = begun.iter().rposition(|byte| *byte == b'\n');
        // What has no end is no line of the library's.
        let whole = whole.map_or(begun.len() / TRACED_AT_ONCE * TRACED_AT_ONCE, |end| end + 1);
        self.lines.add(&begun[..whole]);
        begun.drain(..whole);
    }

    /// A call with its arguments; before it has its answer, for they lie in the caller's memory. None of one that the library prints.
    pub fn made(&self, call: &Call, has_failed: bool) -> Option<String> {
        let is_library = match call.number {
            libc::SYS_setsockopt => call.args[1] as i32 == ASK_LEVEL,
            libc::SYS_bind | libc::SYS_connect | libc::SYS_listen => {
                [MARKED, MARKED_DATAGRAMS].contains(&call.args[3])
            }
            _ => false,
        };
        (!is_library).then(|| text(call, has_failed))
    }

    /// Prints a line, behind what programs have written before.
    pub fn print(&self, call: &Call, made: &str, result: &io::Result<i64>) {
        self.pass_on();
        let answer = Answer(result.as_ref().map_err(errno).copied());
        let line = format!("[{}] {made} = {answer}\n", call.thread);
        self.lines.add(line.as_bytes());
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.pass_on();
        self.lines.finish(GOODBYE_TIME);
    }
}

/// A call and its arguments. What the program is given is known once it is written, where the call has not failed.
fn text(call: &Call, has_failed: bool) -> String {
    let memory = |at: u64, into: &mut [u8]| {
        intercept::read_memory(call.thread, at, into).unwrap_or_default()
    };
    let made = trace::Call {
        number: call.number,
        args: call.args,
        result: if has_failed { Err(0) } else { Ok(0) },
        memory: &memory,
        selected: None,
    };
    made.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::encode;
    use crate::unix::ready;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::net::AddressFamily;

    fn of(number: i64, args: [u64; 6]) -> Call {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        Call {
            id: 0,
            thread,
            number,
            args,
        }
    }

    fn at<T: ?Sized>(value: &T) -> u64 {
        (&raw const *value).cast::<u8>().expose_provenance() as u64
    }

    /// In a process of its own, whose standard error is a pipe that nobody reads yet, and that is full.
    #[test]
    fn role() {
        if exos_testing::role().is_none() {
            return;
        }
        let (mut reader, writer) = io::pipe().expect("a pipe");
        rustix::stdio::dup2_stderr(&writer).expect("both are open");
        drop(writer);
        let trace = Trace::new().expect("a trace");
        let called = "[1] close(3) = 0\n".repeat(1 << 13);
        trace.lines.add(called.as_bytes());
        while ready(io::stderr(), PollFlags::OUT).expect("told") != PollFlags::empty() {
            std::thread::yield_now();
        }
        say(format_args!("exos run: at last"));
        rustix::io::write(trace.to_write(), b"[2] close(4) = 0\n").expect("it has room");
        let expected = called + "exos run: at last\n[2] close(4) = 0\n";
        let len = expected.len();
        let reading = std::thread::spawn(move || {
            let (mut read, mut piece) = (Vec::new(), [0; 1 << 12]);
            let soon = Timespec::try_from(GOODBYE_TIME).expect("some seconds");
            while read.len() < len {
                let mut fds = [PollFd::new(&reader, PollFlags::IN)];
                assert_eq!(
                    poll(&mut fds, Some(&soon)),
                    Ok(1),
                    "after {} bytes",
                    read.len()
                );
                let count = reader.read(&mut piece).expect("there are some");
                read.extend_from_slice(&piece[..count]);
            }
            read
        });
        drop(trace);
        // All is written by then; what is read comes from the pipe.
        let read = reading.join().expect("all is read");
        assert!(read == expected.as_bytes());
        exos_testing::done();
    }

    #[test]
    fn what_is_said_waits_with_the_calls_and_all_are_written_at_the_end() {
        assert!(exos_testing::is_done(exos_testing::play(
            "trace::tests::role",
            "says"
        )));
    }

    #[test]
    fn calls_are_written_as_strace_has_them() {
        let v4 = encode("10.10.0.2:80".parse().unwrap(), AddressFamily::INET);
        let v6 = encode("[fd10::2]:80".parse().unwrap(), AddressFamily::INET6);
        let (one, len) = (1_i32.to_ne_bytes(), 16_i32.to_ne_bytes());
        let linger = [1_i32, 5].map(i32::to_ne_bytes).concat();
        let time = [2_i64, 500].map(i64::to_ne_bytes).concat();
        let (sol, tcp) = (libc::SOL_SOCKET as u64, libc::IPPROTO_TCP as u64);
        let cases = [
            (
                of(libc::SYS_connect, [5, at(&v4[..]), 16, 0, 0, 0]),
                false,
                "connect(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"10.10.0.2\")}, 16)",
            ),
            (
                of(libc::SYS_bind, [5, at(&v6[..]), 28, 0, 0, 0]),
                true,
                "bind(5, {sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, \"fd10::2\", &sin6_addr)}, 28)",
            ),
            (
                of(libc::SYS_bind, [5, 1, 16, 0, 0, 0]),
                true,
                "bind(5, 0x1, 16)",
            ),
            (
                of(libc::SYS_listen, [3, 128, 0, 0, 0, 0]),
                false,
                "listen(3, 128)",
            ),
            (
                of(libc::SYS_accept4, [3, 0, 0, 0o2004000, 0, 0]),
                false,
                "accept4(3, NULL, NULL, SOCK_CLOEXEC|SOCK_NONBLOCK)",
            ),
            (
                of(libc::SYS_accept, [3, 0x10, 0x20, 0, 0, 0]),
                true,
                "accept(3, 0x10, 0x20)",
            ),
            (
                of(libc::SYS_getpeername, [3, at(&v4[..]), at(&len), 0, 0, 0]),
                false,
                "getpeername(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"10.10.0.2\")}, [16])",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, tcp, libc::TCP_NODELAY as u64, at(&one), 4, 0],
                ),
                false,
                "setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4)",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, sol, libc::SO_LINGER as u64, at(&linger[..]), 8, 0],
                ),
                false,
                "setsockopt(3, SOL_SOCKET, SO_LINGER, {l_onoff=1, l_linger=5}, 8)",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, sol, libc::SO_RCVTIMEO as u64, at(&time[..]), 16, 0],
                ),
                false,
                "setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, {tv_sec=2, tv_usec=500}, 16)",
            ),
            (
                of(libc::SYS_getsockopt, [3, sol, 9999, at(&one), at(&len), 0]),
                false,
                "getsockopt(3, SOL_SOCKET, 9999, [1], [16])",
            ),
        ];
        for (made, has_failed, text) in cases {
            assert_eq!(super::text(&made, has_failed), text);
        }
    }

    #[test]
    fn results_have_the_errors_name() {
        assert_eq!(Answer(Ok(7)).to_string(), "7");
        for (number, text) in [
            (libc::ECONNREFUSED, "-1 ECONNREFUSED (Connection refused)"),
            (libc::EAGAIN, "-1 EAGAIN (Resource temporarily unavailable)"),
            (
                libc::EISCONN,
                "-1 EISCONN (Transport endpoint is already connected)",
            ),
            (9999, "-1 9999"),
        ] {
            assert_eq!(Answer(Err(number)).to_string(), text);
        }
    }
}
