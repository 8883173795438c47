//! The caller of an intercepted call: its process, descriptors and memory.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// A copy of a descriptor of a thread's process.
///
/// # Errors
///
/// There is none of that number; the process has gone; or it may not be looked into (a program that is not dumpable).
pub fn descriptor(thread: u32, number: i32) -> io::Result<OwnedFd> {
    let pidfd = of_thread(thread)?;
    // SAFETY: the call touches no memory.
    let copied = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0) };
    owned(copied)
}

/// A descriptor of a thread (Linux 6.9), or of its process.
fn of_thread(thread: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, thread, libc::PIDFD_THREAD) };
    match owned(opened) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => process(process_of(thread)?),
        opened => opened,
    }
}

/// A descriptor of a process, which is readable when that has ended.
///
/// # Errors
///
/// There is none.
pub fn process(number: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) })
}

fn owned(made: libc::c_long) -> io::Result<OwnedFd> {
    match made {
        // SAFETY: the kernel has just made it for us.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(made as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process that a thread is of.
///
/// # Errors
///
/// The thread has gone.
pub fn process_of(thread: u32) -> io::Result<u32> {
    // The thread that a process began with has the process's number; of no other thread there is such a descriptor.
    match process(thread) {
        Ok(_) => Ok(thread),
        Err(_) => status(thread, "Tgid:"),
    }
}

/// The parent of a process.
///
/// # Errors
///
/// The process has gone.
pub fn parent_of(process: u32) -> io::Result<u32> {
    status(process, "PPid:")
}

fn status(thread: u32, name: &str) -> io::Result<u32> {
    let status = text_of(&format!("/proc/{thread}/status"))?;
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let value = value.and_then(|value| value.trim().parse().ok());
    value.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The text of a file of `/proc`, which has no length: by two calls, where reading without knowing one makes ten.
pub fn text_of(path: &str) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            count => text.extend_from_slice(&piece[..count]),
        }
    }
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Whether a descriptor of a thread's is closed when it becomes another program.
///
/// # Errors
///
/// There is none of that number, or the process has gone.
pub fn closes_on_exec(thread: u32, number: i32) -> io::Result<bool> {
    let info = text_of(&format!("/proc/{thread}/fdinfo/{number}"))?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    let flags = flags.ok_or(io::ErrorKind::InvalidData)?;
    Ok(flags & libc::O_CLOEXEC as u32 != 0)
}

/// What a descriptor of a thread's process counts, if it is a counter (eventfd(2)), and whether it is closed on exec.
///
/// # Errors
///
/// There is none of that number, or the process has gone.
pub fn counter(thread: u32, number: i32) -> io::Result<Option<(u64, bool)>> {
    let info = text_of(&format!("/proc/{thread}/fdinfo/{number}"))?;
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let count = value("eventfd-count:").and_then(|n| u64::from_str_radix(n.trim(), 16).ok());
    let flags = value("flags:").and_then(|n| u32::from_str_radix(n.trim(), 8).ok());
    let closes = |flags| flags & libc::O_CLOEXEC as u32 != 0;
    Ok(count.zip(flags.map(closes)))
}

/// The value of a socket's option that is a whole number (getsockopt(2)).
///
/// # Errors
///
/// It is no socket, or has no such option.
pub fn option(socket: &OwnedFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value: i32 = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: there is room for as many bytes as it says.
    match unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, at, &raw mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Which network namespace a socket is in (`SO_NETNS_COOKIE`, Linux 5.14): a number that no other has.
///
/// # Errors
///
/// The kernel's, where it does not tell.
pub fn network_namespace(socket: &OwnedFd) -> io::Result<u64> {
    const NETNS_COOKIE: i32 = 71;
    let mut cookie: u64 = 0;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    let at = (&raw mut cookie).cast();
    let (fd, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
    // SAFETY: there is room for as many bytes as it says.
    match unsafe { libc::getsockopt(fd, level, NETNS_COOKIE, at, &raw mut len) } {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets an option of a socket that is a number (setsockopt(2)).
///
/// # Errors
///
/// The kernel's.
pub fn set_option(socket: &OwnedFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    let at = (&raw const value).cast();
    // SAFETY: there are as many bytes as it says.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor's place in an epoll set of its process.
#[derive(Debug)]
pub struct Registration {
    /// The set, a copy of the process's.
    set: OwnedFd,
    events: u32,
    data: u64,
}

/// The epoll sets among the descriptors of a thread's process. Looks at all of these.
///
/// # Errors
///
/// The process has gone.
pub fn epoll_sets(thread: u32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{thread}/fd"))? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        found.extend(number.filter(|number| is_epoll_set(thread, *number)));
    }
    Ok(found)
}

/// Whether a descriptor of a thread's process is an epoll set.
pub fn is_epoll_set(thread: u32, number: i32) -> bool {
    let link = fs::read_link(format!("/proc/{thread}/fd/{number}"));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
}

/// Where a descriptor of a thread's process, which is of that inode, stands in these epoll sets of the process.
///
/// # Errors
///
/// The process has gone.
pub fn registrations(
    thread: u32,
    sets: &[i32],
    number: i32,
    inode: u64,
) -> io::Result<Vec<Registration>> {
    let mut found = Vec::new();
    for set in sets.iter().filter(|set| may_have(thread, **set, number)) {
        let info = text_of(&format!("/proc/{thread}/fdinfo/{set}")).unwrap_or_default();
        for (events, data) in info.lines().filter_map(|line| member(line, number, inode)) {
            let set = descriptor(thread, *set)?;
            found.push(Registration { set, events, data });
        }
    }
    Ok(found)
}

/// Whether an epoll set of a thread's process may have a member of that number: what fdinfo says of it is long. Where the kernel does not
/// tell (kcmp(2)), it may.
fn may_have(thread: u32, set: i32, number: i32) -> bool {
    const EPOLL_TFD: libc::c_int = 7;
    // The set, the member's number, and how many of that number are left out.
    let slot = [set, number, 0];
    let at = (&raw const slot).expose_provenance();
    // SAFETY: the kernel reads the three numbers, which live as long as the call.
    let compared =
        unsafe { libc::syscall(libc::SYS_kcmp, thread, thread, EPOLL_TFD, number as u64, at) };
    compared >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOENT)
}

/// The events and the word of a member, if the line of an epoll set's fdinfo (proc(5)) is of that descriptor.
fn member(line: &str, number: i32, inode: u64) -> Option<(u32, u64)> {
    let mut words = line.split_ascii_whitespace();
    let mut value = |name: &str| {
        let word = words.find_map(|word| word.strip_prefix(name))?;
        match word {
            "" => words.next(),
            word => Some(word),
        }
    };
    let is_it = value("tfd:")?.parse() == Ok(number);
    let events = u32::from_str_radix(value("events:")?, 16).ok()?;
    let data = u64::from_str_radix(value("data:")?, 16).ok()?;
    let of = u64::from_str_radix(value("ino:")?, 16).ok()?;
    (is_it && of == inode).then_some((events, data))
}

impl Registration {
    /// Has another file, which is at that number in the process, stand in the set in place of the one that was there before.
    ///
    /// # Errors
    ///
    /// The set does not take it.
    pub fn renew(&self, number: i32, fd: BorrowedFd<'_>) -> io::Result<()> {
        let (set, file) = (self.set.as_raw_fd(), fd.as_raw_fd());
        let (events, data) = (self.events, self.data);
        // A set knows a file by the number that it is added by: it is added by a thread whose descriptors are its own.
        let add = move || {
            let mut event = libc::epoll_event { events, u64: data };
            // SAFETY: the thread's descriptors are a copy from here on; the numbers are of files that live as long as it does, for
            // the caller waits for its end.
            let (own, added) = unsafe {
                let own = libc::unshare(libc::CLONE_FILES);
                let set = match set == number {
                    true => libc::fcntl(set, libc::F_DUPFD_CLOEXEC, number + 1),
                    false => set,
                };
                if own < 0 || set < 0 || libc::dup2(file, number) < 0 {
                    (own, -1)
                } else {
                    let added = libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, number, &mut event);
                    (own, added)
                }
            };
            let result = match added {
                0 => Ok(()),
                _ => match io::Error::last_os_error() {
                    // By another descriptor of the same set.
                    error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
                    error => Err(error),
                },
            };
            if own == 0 {
                // A thread that has been waited for may still have its descriptors, and with them a file that is to leave its sets.
                // SAFETY: the descriptors are the thread's copies, and it uses none after this.
                unsafe { libc::close_range(0, libc::c_uint::MAX, 0) };
            }
            result
        };
        let added = std::thread::scope(|scope| scope.spawn(add).join());
        added.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

/// Reads memory of a thread; gives how many bytes there are, at most as many as fit.
///
/// # Errors
///
/// There is no memory at the address, or it may not be looked into.
pub fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let ours = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: the kernel writes to `into` alone, and not more than it holds.
    copied(unsafe {
        libc::process_vm_readv(thread as i32, &ours, 1, &theirs(address, into.len()), 1, 0)
    })
}

/// Reads `each` bytes at each of some addresses of a thread's memory, by one call. Gives how many of these have been read whole: the
/// next one has fewer, or there is no memory at all.
///
/// # Errors
///
/// As those of [`read_memory`].
pub fn read_memories(
    thread: u32,
    addresses: &[u64],
    each: usize,
    into: &mut [u8],
) -> io::Result<usize> {
    let count = addresses.len().min(into.len() / each).min(READS_AT_ONCE);
    let ours = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: count * each,
    };
    let theirs: Vec<_> = addresses[..count]
        .iter()
        .map(|at| theirs(*at, each))
        .collect();
    // SAFETY: the kernel writes to `into` alone, and not more than it holds.
    let read = copied(unsafe {
        libc::process_vm_readv(thread as i32, &ours, 1, theirs.as_ptr(), count as u64, 0)
    });
    Ok(read? / each)
}

/// Addresses that are read at by one call (`UIO_MAXIOV`).
const READS_AT_ONCE: usize = 1024;

/// Writes memory of a thread.
///
/// # Errors
///
/// As those of [`read_memory`].
pub fn write_memory(thread: u32, address: u64, bytes: &[u8]) -> io::Result<usize> {
    let ours = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: of our memory the kernel only reads, and not more than `bytes`.
    copied(unsafe {
        libc::process_vm_writev(thread as i32, &ours, 1, &theirs(address, bytes.len()), 1, 0)
    })
}

fn theirs(address: u64, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address as usize),
        iov_len: len,
    }
}

fn copied(count: isize) -> io::Result<usize> {
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_at_several_addresses_as_far_as_there_is_some() {
        let texts = [b"first-one", b"secondone", b"third-one"];
        let address = |text: &[u8; 9]| text.as_ptr().expose_provenance() as u64;
        let thread = std::process::id();
        let mut into = [0; 3 * 5];
        let all = texts.map(address);
        assert_eq!(read_memories(thread, &all, 5, &mut into).ok(), Some(3));
        assert_eq!(&into, b"firstseconthird");
        // No program has that page.
        let few = [all[0], 8, all[2]];
        assert_eq!(read_memories(thread, &few, 5, &mut into).ok(), Some(1));
        assert!(read_memories(thread, &few[1..], 5, &mut into).is_err());
        assert_eq!(read_memories(thread, &all, 5, &mut into[..9]).ok(), Some(1));
    }

    #[test]
    fn files_of_proc_are_read_whole() {
        for file in ["status", "maps", "fdinfo/0"] {
            let path = format!("/proc/self/{file}");
            let lines = |text: String| text.lines().count();
            let whole = fs::read_to_string(&path).map(lines).expect("it is ours");
            assert!(
                text_of(&path)
                    .map(lines)
                    .is_ok_and(|count| count.abs_diff(whole) < 3)
            );
        }
        assert_eq!(
            process_of(std::process::id()).ok(),
            Some(std::process::id())
        );
        let of_another =
            std::thread::spawn(|| process_of(rustix::thread::gettid().as_raw_pid() as u32));
        let of_another = of_another.join().expect("no panic");
        assert_eq!(of_another.ok(), Some(std::process::id()));
    }
}
