//! What a hostile program does with descriptors: the kernel's calls on those that it was given, and on those that it
//! would like to have. Everything here is refused or does nothing; the error is the answer.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::io::Errno;

fn done(result: i64) -> Result<i64, Errno> {
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).expect("the kernel's"));
    }
    Ok(result)
}

/// bind(2) of an AF_XDP socket.
pub fn bind_xdp(
    socket: &OwnedFd,
    interface: u32,
    queue: u32,
    shared: Option<&OwnedFd>,
) -> Result<i64, Errno> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if shared.is_some() {
            libc::XDP_SHARED_UMEM
        } else {
            0
        },
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    let len = size_of_val(&address) as u32;
    // SAFETY: the address is a valid structure of the length given.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }.into())
}

/// bind(2) of a packet socket, to hear everything on that interface, or on all (0).
pub fn bind_packets(socket: &OwnedFd, interface: u32) -> Result<i64, Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as u32;
    // SAFETY: the address is a valid structure of the length given.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) }.into())
}

/// setsockopt(2) with a structure of integers.
pub fn set_option<T: Copy>(
    socket: &OwnedFd,
    level: i32,
    option: i32,
    value: &T,
) -> Result<i64, Errno> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<T>() as u32);
    // SAFETY: a pointer to a value of the length given.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const *value).cast(), len) };
    done(result.into())
}

/// socket(2).
pub fn socket(family: i32, kind: i32, protocol: i32) -> Result<i64, Errno> {
    // SAFETY: no pointers; the descriptor stays open to the end of the process.
    done(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }.into())
}

/// bpf(2) with attributes of words.
pub fn bpf(command: i32, attributes: &[u64; 16]) -> Result<i64, Errno> {
    let len = size_of_val(attributes);
    // SAFETY: a pointer to attributes of the length given; those used here have no pointers but to this process's own.
    done(unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), len) })
}

/// A descriptor out of another process (pidfd_getfd(2)).
pub fn steal(pid: u32, fd: i32) -> Result<i64, Errno> {
    // SAFETY: no pointers.
    let process = done(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: no pointers.
    done(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0) })
}

/// mmap(2) of what a descriptor offers, for writing by all. It stays to the end of the process.
pub fn map_for_writing(fd: BorrowedFd<'_>, len: usize, offset: u64) -> Result<*mut u8, Errno> {
    let (nowhere, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    let (raw, offset) = (fd.as_raw_fd(), offset.cast_signed());
    // SAFETY: without MAP_FIXED a new mapping touches no existing memory.
    let start = unsafe { libc::mmap(nowhere, len, access, libc::MAP_SHARED, raw, offset) };
    done(if start == libc::MAP_FAILED { -1 } else { 0 })?;
    Ok(start.cast())
}

/// getsockopt(2) of a structure of integers.
pub fn get_option<T: Copy + Default>(
    socket: &OwnedFd,
    level: i32,
    option: i32,
) -> Result<T, Errno> {
    let (mut value, mut len) = (T::default(), size_of::<T>() as u32);
    let (fd, at) = (socket.as_raw_fd(), (&raw mut value).cast());
    // SAFETY: the kernel writes at most `len` bytes of integers to the value.
    done(unsafe { libc::getsockopt(fd, level, option, at, &raw mut len) }.into())?;
    Ok(value)
}
