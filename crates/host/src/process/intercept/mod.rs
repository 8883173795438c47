//! System calls of a child process, answered by this one (seccomp_unotify(2)).
//!
//! The child is started with a filter that tells us of some calls, of all its threads and descendants, and waits for the answer:
//! a result, a descriptor, or that the kernel is to do the call. No privilege is needed. What is intercepted is a service to the
//! program, not a fence around it: a thread can change the memory that a call refers to while we look at it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::error::{Error, Result};

mod caller;

pub use caller::{
    Registration, closes_on_exec, counter, descriptor, epoll_sets, is_epoll_set, network_namespace,
    option, parent_of, process, process_of, read_memories, read_memory, registrations, set_option,
    text_of, write_memory,
};

/// The architecture in a filter's data (linux/audit.h).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// A call that waits for its answer.
#[derive(Copy, Clone, Debug)]
pub struct Call {
    /// Names it in answers.
    pub id: u64,
    /// The thread that calls.
    pub thread: u32,
    /// Which call (`libc::SYS_*`).
    pub number: i64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// Where calls are told.
#[derive(Debug)]
pub struct Calls {
    fd: OwnedFd,
    /// Heard of before anybody asked.
    kept: Mutex<Vec<Call>>,
}

/// Starts a command that makes these calls by us. It, and what it starts, can gain no privilege by programs that have more
/// (no_new_privs).
///
/// # Errors
///
/// The command cannot be started, or the kernel has no such filters (before Linux 5.14).
pub fn spawn(command: &mut Command, told: &[libc::c_long]) -> Result<(Child, Calls)> {
    let ours = put_under(command, filter(told))
        .map_err(|e| Error::io("cannot make a pair of sockets", e))?;
    let name = command.get_program().to_string_lossy().into_owned();
    let (child, heard) =
        spawn_and_hear(command, ours).map_err(|e| Error::io("cannot make a pipe", e))?;
    let child = child.map_err(|e| {
        Error::io(format!("cannot run {name}"), e)
            .mend("check its name and whether it can be executed")
    })?;
    let calls = heard.map_err(|e| Error::io("cannot hear of the program's calls", e))?;
    Ok((child, calls))
}

/// Has a command put itself under the filter: where it sends the descriptor by which its calls are told.
fn put_under(command: &mut Command, filter: Vec<libc::sock_filter>) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let before_exec = move || Ok(send_listener(&theirs, &install(&filter)?)?);
    // SAFETY: between fork and exec the closure makes system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(before_exec) };
    Ok(ours)
}

/// Puts the calling process under the filter: where its calls are told. Between fork and exec: it neither allocates nor locks.
fn install(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the program's memory is there, and only read.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Hands the descriptor to the process that answers. Between fork and exec, as [`install`].
fn send_listener(to: &OwnedFd, listener: &OwnedFd) -> rustix::io::Result<()> {
    let fds = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let byte = [IoSlice::new(b"x")];
    sendmsg(to, &byte, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Starts the command, and takes from `ours` where its calls are told.
fn spawn_and_hear(
    command: &mut Command,
    ours: OwnedFd,
) -> io::Result<(io::Result<Child>, io::Result<Calls>)> {
    std::thread::scope(|scope| {
        let (stop, stopped) = std::io::pipe()?;
        let listening = scope.spawn(move || hear_first(&ours, &stop));
        // By this thread: the program is to end with it.
        let child = command.spawn();
        drop(stopped);
        let heard = listening.join();
        let heard = heard.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        Ok((child, heard))
    })
}

/// Takes the descriptor, and lets pass what the child does to become the program, until the other end of `stop` is closed: for that
/// the child's parent waits. What the program calls meanwhile is kept, and what those call that it starts: on a busy processor it may have
/// started some before its parent goes on.
fn hear_first(from: &OwnedFd, stop: &std::io::PipeReader) -> io::Result<Calls> {
    let readable = |fd: BorrowedFd<'_>| -> io::Result<bool> {
        let mut fds = [
            PollFd::from_borrowed_fd(fd, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        loop {
            match poll(&mut fds, None) {
                Ok(_) => return Ok(fds[0].revents().contains(PollFlags::IN)),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    };
    readable(from.as_fd())?;
    let mut calls = Calls {
        fd: received(from)?,
        kept: Mutex::default(),
    };
    let mut child = None;
    // Neither end nor call: the child's parent has it.
    while readable(calls.fd.as_fd())? {
        let Some(call) = calls.next()? else {
            continue;
        };
        // The child's is the first call, for it has done nothing else since it sent the descriptor.
        let is_of_child = *child.get_or_insert(call.thread) == call.thread;
        match call.number {
            libc::SYS_execve | libc::SYS_execveat if is_of_child => calls.let_pass(&call),
            _ => calls
                .kept
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .push(call),
        }
    }
    Ok(calls)
}

/// The descriptor that the child has sent before it became another program.
fn received(from: &OwnedFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    recvmsg(
        from,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        flags,
    )?;
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fd = fds.next().and_then(|mut fds| fds.next());
    fd.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// The filter, in classic BPF (linux/filter.h, linux/seccomp.h).
fn filter(told: &[libc::c_long]) -> Vec<libc::sock_filter> {
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    let load = |at| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    let give = |what| statement(libc::BPF_RET | libc::BPF_K, what);
    // Skips one when it is not so.
    let only = |value| jump(libc::BPF_JEQ, value, 0, 1);
    let mut filter = vec![
        load(ARCH),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        // Other kinds of programs of this machine's (32 bits) go by the kernel.
        give(libc::SECCOMP_RET_ALLOW),
        load(NUMBER),
    ];
    for number in told {
        filter.extend([only(*number as u32), give(libc::SECCOMP_RET_USER_NOTIF)]);
    }
    filter.push(give(libc::SECCOMP_RET_ALLOW));
    filter
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        jt,
        jf,
        ..statement(libc::BPF_JMP | test | libc::BPF_K, k)
    }
}

impl AsFd for Calls {
    /// Readable when a call waits; hung up when no process with the filter is left.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Calls {
    /// Calls that were made while the program was being started, to be answered before those that come.
    pub fn take_first(&self) -> Vec<Call> {
        std::mem::take(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next call; to be asked for when the descriptor is readable. `None` for one that was interrupted meanwhile.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn next(&self) -> io::Result<Option<Call>> {
        // SAFETY: all its fields may be zero, which the kernel asks for.
        let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut told) {
            Ok(_) => Ok(Some(Call {
                id: told.id,
                thread: told.pid,
                number: i64::from(told.data.nr),
                args: told.data.args,
            })),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether the call waits still: what was read of its thread's memory before is that thread's then.
    pub fn waits(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id)
            .is_ok()
    }

    /// The kernel does the call. One that waits no more is nobody's concern, and so below.
    pub fn let_pass(&self, call: &Call) {
        const CONTINUE: u32 = 1;
        self.respond(call, 0, 0, CONTINUE);
    }

    /// The call's result, or the number of its error.
    pub fn answer(&self, call: &Call, result: std::result::Result<i64, i32>) {
        match result {
            Ok(value) => self.respond(call, value, 0, 0),
            Err(number) => self.respond(call, 0, -number, 0),
        }
    }

    fn respond(&self, call: &Call, val: i64, error: i32, flags: u32) {
        let mut response = libc::seccomp_notif_resp {
            id: call.id,
            val,
            error,
            flags,
        };
        let _ = self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    /// Gives the caller a descriptor, whose number there is the call's result.
    ///
    /// # Errors
    ///
    /// `NotFound`: the call waits no more, and the descriptor was not given; or the caller has no room for it.
    pub fn give(&self, call: &Call, fd: BorrowedFd<'_>, close_on_exec: bool) -> io::Result<i32> {
        const SEND: u32 = 2;
        self.add(call, fd, SEND, 0, close_on_exec)
    }

    /// Puts a descriptor in the place of one of the caller's, which is closed there.
    ///
    /// # Errors
    ///
    /// As those of [`give`](Self::give).
    pub fn replace(
        &self,
        call: &Call,
        number: i32,
        fd: BorrowedFd<'_>,
        close_on_exec: bool,
    ) -> io::Result<()> {
        const SETFD: u32 = 1;
        self.add(call, fd, SETFD, number as u32, close_on_exec)
            .map(|_| ())
    }

    fn add(
        &self,
        call: &Call,
        fd: BorrowedFd<'_>,
        flags: u32,
        number: u32,
        close_on_exec: bool,
    ) -> io::Result<i32> {
        let mut wanted = libc::seccomp_notif_addfd {
            id: call.id,
            flags,
            srcfd: fd.as_raw_fd() as u32,
            newfd: number,
            newfd_flags: match close_on_exec {
                true => libc::O_CLOEXEC as u32,
                false => 0,
            },
        };
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut wanted)
    }

    fn ioctl<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<i32> {
        // SAFETY: each request is made with the structure that it is for, and which lives as long as the call.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument) } {
            -1 => Err(io::Error::last_os_error()),
            result => Ok(result),
        }
    }
}

const _: () = assert!(size_of::<libc::seccomp_notif_resp>() == 24);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    /// A shell's `getppid` is answered by us, its descendants' too.
    #[test]
    fn calls_of_a_child_are_answered() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $PPID; sh -c 'echo $PPID'"]);
        command.stdout(Stdio::piped());
        let told = [libc::SYS_getppid];
        let (mut child, calls) = spawn(&mut command, &told).expect("seccomp is everywhere");
        let mut answered = 0;
        // It may have made one while it was being started.
        let mut first = calls.take_first().into_iter();
        while let Some(call) = first
            .next()
            .or_else(|| calls.next_before_the_end().ok().flatten())
        {
            assert_eq!(call.number, libc::SYS_getppid);
            assert!(calls.waits(&call));
            calls.answer(&call, Ok(4321));
            answered += 1;
        }
        let mut out = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        stdout.read_to_string(&mut out).expect("text");
        assert!(child.wait().expect("it ends").success());
        assert_eq!((out.as_str(), answered), ("4321\n4321\n", 2));
    }

    /// A program may start others before its parent goes on.
    #[test]
    fn what_others_become_while_the_child_is_started_is_told() {
        let told = [libc::SYS_execve, libc::SYS_execveat];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "/bin/true; exit 3"]);
        let ours = put_under(&mut command, filter(&told)).expect("a pair of sockets");
        let (stop, stopped) = std::io::pipe().expect("a pipe");
        let listening = std::thread::spawn(move || hear_first(&ours, &stop));
        let mut child = command.spawn().expect("a shell");
        let shell = child.id();
        // Until the other one calls, and is not let pass, or all is over.
        let end = Instant::now() + Duration::from_secs(20);
        while child.try_wait().expect("ours").is_none() && !has_child_in(shell, &told) {
            assert!(Instant::now() < end, "the shell starts nothing");
            std::thread::yield_now();
        }
        drop(stopped);
        let heard = listening.join().expect("no panic");
        let calls = heard.expect("seccomp is everywhere");
        let first = calls.take_first();
        assert!(matches!(first[..], [call] if call.thread != shell));
        calls.let_pass(&first[0]);
        assert_eq!(child.wait().expect("it ends").code(), Some(3));
    }

    /// Whether a process has a child that is in one of these calls.
    fn has_child_in(process: u32, calls: &[i64]) -> bool {
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.unwrap_or_default();
        children.split_whitespace().any(|child| {
            let call = fs::read_to_string(format!("/proc/{child}/syscall")).unwrap_or_default();
            let number = call.split(' ').next().and_then(|word| word.parse().ok());
            number.is_some_and(|number: i64| calls.contains(&number))
        })
    }

    impl Calls {
        /// The next call, or none when nobody is left.
        fn next_before_the_end(&self) -> io::Result<Option<Call>> {
            loop {
                let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
                poll(&mut fds, None)?;
                if !fds[0].revents().contains(PollFlags::IN) {
                    return Ok(None);
                }
                if let Some(call) = self.next()? {
                    return Ok(Some(call));
                }
            }
        }
    }

    #[test]
    fn a_member_of_an_epoll_set_is_replaced_under_its_number() {
        use rustix::event::epoll;
        let here = std::process::id();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let (old, _its) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair");
        let number = old.as_raw_fd();
        let data = epoll::EventData::new_u64(0x1234_5678_9abc);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, &old, data, flags).expect("it is added");
        let inode = rustix::fs::fstat(&old).expect("open").st_ino;
        let sets = epoll_sets(here).expect("ours");
        assert!(sets.contains(&set.as_raw_fd()) && !sets.contains(&number));
        let places = registrations(here, &sets, number, inode).expect("ours");
        assert_eq!(places.len(), 1);
        let (new, its) = std::io::pipe().expect("a pipe");
        // The file at the number is another from here on, as a supervisor has it.
        let mut old = old;
        rustix::io::dup2(&new, &mut old).expect("replaced");
        // A child that another test starts has the old one, until it is another program.
        let places_of_old = || registrations(here, &sets, number, inode).expect("ours");
        let is_gone = || places_of_old().is_empty();
        let mut looks = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_gone()
        });
        assert!(looks.by_ref().take(4000).any(|gone| gone));
        places[0].renew(number, new.as_fd()).expect("it is added");
        rustix::io::write(&its, b"x").expect("room");
        let mut events = Vec::with_capacity(4);
        let spare = rustix::buffer::spare_capacity(&mut events);
        let told = epoll::wait(&set, spare, Some(&rustix::event::Timespec::default()));
        assert_eq!(told, Ok(1));
        let word = events[0].data;
        assert_eq!(word.u64(), 0x1234_5678_9abc);
        epoll::delete(&set, &old).expect("it is known by the number");
    }

    #[test]
    fn memory_and_descriptors_of_a_thread_are_seen() {
        let here = std::process::id();
        let mut bytes = *b"before";
        let address = bytes.as_mut_ptr().expose_provenance() as u64;
        assert_eq!(write_memory(here, address, b"behind").expect("ours"), 6);
        let mut read = [0; 6];
        assert_eq!(read_memory(here, address, &mut read).expect("ours"), 6);
        assert_eq!((read, bytes), (*b"behind", *b"behind"));
        assert!(read_memory(here, 8, &mut read).is_err());
        let file = fs::File::open("/dev/null").expect("it is there");
        let copy = descriptor(here, file.as_raw_fd()).expect("ours");
        assert_ne!(copy.as_raw_fd(), file.as_raw_fd());
        assert!(closes_on_exec(here, file.as_raw_fd()).expect("ours"));
        assert!(descriptor(here, 9999).is_err());
    }
}
