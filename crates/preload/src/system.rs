//! The C library's own calls, beneath the ones that this library has in their place, and its constants (bits/*.h, x86-64 and
//! AArch64 alike).

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::memory::{MARKED, MARKED_DATAGRAMS};
pub use crate::trace::number;

pub type Size = usize;
pub type Signed = isize;

/// Stretches of memory (readv(2)).
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Iovec {
    pub base: *mut u8,
    pub len: usize,
}

/// A message (recvmsg(2)).
#[repr(C)]
pub struct Message {
    pub name: *mut u8,
    pub name_len: u32,
    pub iov: *mut Iovec,
    pub iov_len: usize,
    pub control: *mut u8,
    pub control_len: usize,
    pub flags: i32,
}

/// One of several messages (recvmmsg(2)).
#[repr(C)]
pub struct ManyMessage {
    pub message: Message,
    pub len: u32,
}

#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Copy, Clone)]
pub struct EpollEvent {
    pub events: u32,
    pub data: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct PollFd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct Timespec {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// An address of an interface (getifaddrs(3)).
#[repr(C)]
pub struct InterfaceAddress {
    pub next: *mut Self,
    pub name: *mut c_char,
    pub flags: u32,
    pub address: *mut u8,
    pub mask: *mut u8,
    pub broadcast: *mut u8,
    pub data: *mut c_void,
}

/// An action (sigaction(2)), as the C library has it.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Action {
    pub handler: usize,
    pub mask: [u64; 16],
    pub flags: i32,
    pub restorer: usize,
}

macro_rules! constants {
    ($($name:ident = $value:expr;)*) => { $(pub const $name: i32 = $value;)* };
}

constants! {
    EINTR = 4; EBADF = 9; EAGAIN = 11; EFAULT = 14; EINVAL = 22; EMFILE = 24; ENOTTY = 25; EPIPE = 32; EEXIST = 17; ENOENT = 2; ESPIPE = 29; EDOM = 33; EPROTOTYPE = 91;
    ENODATA = 61; ENOPROTOOPT = 92; EOPNOTSUPP = 95; EACCES = 13; EDESTADDRREQ = 89; EMSGSIZE = 90; EAFNOSUPPORT = 97; EADDRNOTAVAIL = 99; ENETUNREACH = 101; EISCONN = 106; ENOTCONN = 107; EALREADY = 114; EINPROGRESS = 115; ECONNABORTED = 103;
    SOL_SOCKET = 1; SO_REUSEADDR = 2; SO_BROADCAST = 6; SO_SNDBUFFORCE = 32; SO_RCVBUFFORCE = 33; SO_TYPE = 3; SO_ERROR = 4; SO_SNDBUF = 7; SO_RCVBUF = 8; SO_KEEPALIVE = 9; SO_LINGER = 13;
    SO_REUSEPORT = 15; SO_RCVLOWAT = 18; SO_SNDLOWAT = 19; SO_RCVTIMEO = 20; SO_SNDTIMEO = 21; SO_RCVTIMEO_NEW = 66; SO_SNDTIMEO_NEW = 67; SO_BINDTODEVICE = 25; SO_ACCEPTCONN = 30; SO_PROTOCOL = 38; SO_DOMAIN = 39;
    IPPROTO_IP = 0; IPPROTO_TCP = 6; IPPROTO_UDP = 17; UDP_CORK = 1; UDP_SEGMENT = 103; UDP_GRO = 104; IPPROTO_IPV6 = 41; IP_TOS = 1; IP_TTL = 2; IP_OPTIONS = 4; IP_PKTINFO = 8; IP_RECVTTL = 12; IP_RECVTOS = 13; IP_MTU = 14; IP_PROTOCOL = 52; IPV6_2292HOPLIMIT = 8; IPV6_FLOWINFO = 11; IPV6_UNICAST_HOPS = 16; IPV6_MTU = 24; IPV6_V6ONLY = 26; IPV6_RECVPKTINFO = 49; IPV6_RECVHOPLIMIT = 51; IPV6_RECVTCLASS = 66; IPV6_PKTINFO = 50; IPV6_HOPLIMIT = 52; IPV6_DONTFRAG = 62; IPV6_TCLASS = 67;
    TCP_NODELAY = 1; TCP_MAXSEG = 2; TCP_KEEPIDLE = 4; TCP_KEEPINTVL = 5; TCP_KEEPCNT = 6; TCP_INFO = 11; TCP_CONGESTION = 13; TCP_USER_TIMEOUT = 18;
    AF_UNSPEC = 0; AF_INET = 2; AF_INET6 = 10; SOCK_STREAM = 1; SOCK_DGRAM = 2;
    MSG_OOB = 1; MSG_PEEK = 2; MSG_TRUNC = 0x20; MSG_DONTWAIT = 0x40; MSG_WAITALL = 0x100; MSG_NOSIGNAL = 0x4000;
    MSG_ERRQUEUE = 0x2000; MSG_CTRUNC = 8; MSG_MORE = 0x8000; MSG_WAITFORONE = 0x10000; MSG_FASTOPEN = 0x2000_0000;
    RWF_NOWAIT = 8; RWF_APPEND = 0x10; RWF_NOAPPEND = 0x20; RWF_NOSIGNAL = 0x100; RWF_OF_SOCKETS = 0x13f;
    SEEK_SET = 0; SEEK_CUR = 1; F_DUPFD = 0; F_GETFD = 1; FD_CLOEXEC = 1; F_GETFL = 3; F_SETFL = 4; O_RDWR = 2; F_DUPFD_CLOEXEC = 1030; O_NONBLOCK = 0o4000;
    O_CLOEXEC = 0o2_000_000;
    FIONREAD = 0x541b; FIONBIO = 0x5421; SIOCOUTQ = 0x5411; FIOCLEX = 0x5451; FIONCLEX = 0x5450; FIOASYNC = 0x5452; SIOCATMARK = 0x8905;
    F_SETOWN = 8; F_SETSIG = 10; F_SETOWN_EX = 15; O_ASYNC = 0o20_000; AT_EMPTY_PATH = 0x1000;
    SIGPIPE = 13; SCM_RIGHTS = 1; SCM_CREDENTIALS = 2; SO_PRIORITY = 12; SO_MARK = 36; SO_TIMESTAMPING = 37; SO_TXTIME = 61; SO_TIMESTAMPING_NEW = 65; CLOSE_RANGE_CLOEXEC = 4;
    SA_SIGINFO = 4; SA_RESTART = 0x1000_0000; SA_RESETHAND = i32::MIN;
    EPOLL_CTL_ADD = 1; EPOLL_CTL_DEL = 2; EPOLL_CTL_MOD = 3;
}

pub const IN: u32 = 1;
pub const OUT: u32 = 4;
pub const ERR: u32 = 8;
pub const HUP: u32 = 0x10;
pub const RDNORM: u32 = 0x40;
pub const WRNORM: u32 = 0x100;
pub const RDHUP: u32 = 0x2000;
pub const ONESHOT: u32 = 1 << 30;
pub const EDGE: u32 = 1 << 31;
pub const EXCLUSIVE: u32 = 1 << 28;

unsafe extern "C" {
    pub fn eventfd(count: u32, flags: i32) -> i32;
    pub fn getpid() -> i32;
    pub fn process_vm_readv(
        process: i32,
        here: *const Iovec,
        heres: usize,
        there: *const Iovec,
        theres: usize,
        flags: usize,
    ) -> Signed;
    pub fn process_vm_writev(
        process: i32,
        here: *const Iovec,
        heres: usize,
        there: *const Iovec,
        theres: usize,
        flags: usize,
    ) -> Signed;
    pub fn if_indextoname(index: u32, name: *mut c_char) -> *mut c_char;
    pub fn raise(signal: i32) -> i32;
    pub fn pthread_setcanceltype(kind: i32, before: *mut i32) -> i32;
    pub fn pthread_testcancel();
    pub fn pthread_atfork(
        before: extern "C" fn(),
        parent: extern "C" fn(),
        child: extern "C" fn(),
    ) -> i32;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut i32;
}

/// The next library's function of this name.
pub fn beneath(place: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    const NEXT: usize = usize::MAX;
    let known = place.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let next = std::ptr::without_provenance_mut(NEXT);
    // SAFETY: the name ends with a zero.
    let found = unsafe { dlsym(next, name.as_ptr().cast()) };
    if found.is_null() {
        // A call that this C library does not have, of which nobody can have heard.
        std::process::abort();
    }
    place.store(found, Ordering::Relaxed);
    found
}

macro_rules! beneath {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => { $(
        /// # Safety
        ///
        /// As the C library says.
        pub unsafe fn $name($($argument: $kind),*) -> $result {
            static PLACE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let found = beneath(&PLACE, concat!(stringify!($name), "\0"));
            // SAFETY: the function of that name has these arguments.
            unsafe {
                let call: unsafe extern "C" fn($($kind),*) -> $result = std::mem::transmute(found);
                call($($argument),*)
            }
        }
    )* };
}

beneath! {
    setuid(user: u32) -> i32;
    setgid(group: u32) -> i32;
    seteuid(user: u32) -> i32;
    setegid(group: u32) -> i32;
    setreuid(real: u32, effective: u32) -> i32;
    setregid(real: u32, effective: u32) -> i32;
    setresuid(real: u32, effective: u32, saved: u32) -> i32;
    setresgid(real: u32, effective: u32, saved: u32) -> i32;
    setfsuid(user: u32) -> i32;
    setfsgid(group: u32) -> i32;
    chroot(path: *const c_char) -> i32;
    unshare(what: i32) -> i32;
    setns(fd: i32, what: i32) -> i32;
    capset(head: *mut c_void, data: *const c_void) -> i32;
    read(fd: i32, to: *mut u8, size: Size) -> Signed;
    write(fd: i32, from: *const u8, size: Size) -> Signed;
    readv(fd: i32, iov: *const Iovec, count: i32) -> Signed;
    writev(fd: i32, iov: *const Iovec, count: i32) -> Signed;
    preadv64v2(fd: i32, iov: *const Iovec, count: i32, offset: i64, flags: i32) -> Signed;
    pwritev64v2(fd: i32, iov: *const Iovec, count: i32, offset: i64, flags: i32) -> Signed;
    lseek64(fd: i32, offset: i64, whence: i32) -> i64;
    pread64(fd: i32, to: *mut u8, size: Size, offset: i64) -> Signed;
    recv(fd: i32, to: *mut u8, size: Size, flags: i32) -> Signed;
    recvfrom(fd: i32, to: *mut u8, size: Size, flags: i32, name: *mut u8, name_len: *mut u32) -> Signed;
    recvmsg(fd: i32, message: *mut Message, flags: i32) -> Signed;
    recvmmsg(fd: i32, messages: *mut ManyMessage, count: u32, flags: i32, timeout: *mut Timespec) -> i32;
    send(fd: i32, from: *const u8, size: Size, flags: i32) -> Signed;
    sendto(fd: i32, from: *const u8, size: Size, flags: i32, name: *const u8, name_len: u32) -> Signed;
    sendmsg(fd: i32, message: *const Message, flags: i32) -> Signed;
    sendmmsg(fd: i32, messages: *mut ManyMessage, count: u32, flags: i32) -> i32;
    sendfile64(out: i32, from: i32, offset: *mut i64, size: Size) -> Signed;
    splice(from: i32, from_offset: *mut i64, to: i32, to_offset: *mut i64, size: Size, flags: u32) -> Signed;
    socket(family: i32, kind: i32, protocol: i32) -> i32;
    close(fd: i32) -> i32;
    close_range(first: u32, last: u32, flags: i32) -> i32;
    dup(fd: i32) -> i32;
    getifaddrs(list: *mut *mut InterfaceAddress) -> i32;
    freeifaddrs(list: *mut InterfaceAddress) -> ();
    dup2(fd: i32, to: i32) -> i32;
    dup3(fd: i32, to: i32, flags: i32) -> i32;
    fcntl64(fd: i32, what: i32, argument: usize) -> i32;
    ioctl(fd: i32, what: u64, argument: usize) -> i32;
    accept4(fd: i32, name: *mut u8, name_len: *mut u32, flags: i32) -> i32;
    bind(fd: i32, name: *const u8, name_len: u32) -> i32;
    connect(fd: i32, name: *const u8, name_len: u32) -> i32;
    listen(fd: i32, backlog: i32) -> i32;
    shutdown(fd: i32, how: i32) -> i32;
    getsockname(fd: i32, name: *mut u8, name_len: *mut u32) -> i32;
    getpeername(fd: i32, name: *mut u8, name_len: *mut u32) -> i32;
    getsockopt(fd: i32, level: i32, option: i32, value: *mut u8, len: *mut u32) -> i32;
    setsockopt(fd: i32, level: i32, option: i32, value: *const u8, len: u32) -> i32;
    sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32;
    signal(signal: i32, handler: usize) -> usize;
    fork() -> i32;
    clone(main: Option<extern "C" fn(*mut c_void) -> i32>, stack: *mut c_void, flags: i32, argument: *mut c_void, a: usize, b: usize, c: usize) -> i32;
    epoll_create1(flags: i32) -> i32;
    epoll_ctl(set: i32, what: i32, fd: i32, event: *mut EpollEvent) -> i32;
    epoll_pwait(set: i32, events: *mut EpollEvent, most: i32, timeout: i32, mask: *const u8) -> i32;
    ppoll(fds: *mut PollFd, count: u64, timeout: *const Timespec, mask: *const u8) -> i32;
    select(count: i32, read: *mut u64, write: *mut u64, other: *mut u64, timeout: *mut [i64; 2]) -> i32;
    pselect(count: i32, read: *mut u64, write: *mut u64, other: *mut u64, timeout: *const Timespec, mask: *const u8) -> i32;
    fdopen(fd: i32, mode: *const c_char) -> *mut c_void;
    posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: i32, to: i32) -> i32;
    fstat64(fd: i32, into: *mut u8) -> i32;
    fstatat64(fd: i32, path: *const c_char, into: *mut u8, flags: i32) -> i32;
    statx(fd: i32, path: *const c_char, flags: i32, mask: u32, into: *mut u8) -> i32;
}

/// A system call, beneath the C library: `syscall(2)` is one of the functions here, and looking for the C library's takes memory, which
/// some programs get by it.
///
/// # Safety
///
/// As the call says.
pub unsafe fn call(number: i64, [a, b, c, d, e, f]: [usize; 6]) -> i64 {
    const ERRORS: i64 = -4095;
    let result: i64;
    // SAFETY: the caller's promise; the kernel changes these registers.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0", in("x8") number, inlateout("x0") a as i64 => result, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack)
        );
    }
    match result {
        ERRORS..0 => {
            set_errno(-result as i32);
            -1
        }
        _ => result,
    }
}

/// A system call that the other side sees to be made by the library: what answers it may be a shared socket.
///
/// # Safety
///
/// As the call says.
pub unsafe fn marked(call: i64, fd: i32, second: usize, third: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { marked_with(call, [fd as usize, second, third], 0) }
}

/// As above, with what there is to say besides ([`Untouched`](crate::memory::Untouched)).
///
/// # Safety
///
/// As the call says.
pub unsafe fn marked_with(call: i64, [fd, second, third]: [usize; 3], said: u64) -> i32 {
    let words = [fd, second, third, MARKED as usize, said as usize, 0];
    // SAFETY: the caller's promise.
    unsafe { self::call(call, words) as i32 }
}

/// A system call that the other side sees to be made by the library for a shared socket for datagrams.
///
/// # Safety
///
/// As the call says.
pub unsafe fn marked_datagrams(call: i64, fd: i32, second: usize, third: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let words = [fd as usize, second, third, MARKED_DATAGRAMS as usize, 0, 0];
        self::call(call, words) as i32
    }
}

/// Whether a descriptor is a socket of the kernel's of IP. The mark has the call passed to the kernel.
pub fn is_of_ip(fd: i32) -> bool {
    let (mut domain, mut len) = ([0_u8; 4], 4_u32);
    let before = errno();
    let value = domain.as_mut_ptr().expose_provenance();
    let len = (&raw mut len).expose_provenance();
    let (level, option) = (SOL_SOCKET as usize, SO_DOMAIN as usize);
    let words = [fd as usize, level, option, value, len, MARKED as usize];
    // SAFETY: there is room for what it writes.
    let is_known = unsafe { call(number::GETSOCKOPT, words) } == 0;
    set_errno(before);
    is_known && [AF_INET, AF_INET6].contains(&i32::from_ne_bytes(domain))
}

/// The offset of `st_mode` in `struct stat`.
pub const MODE_AT: usize = if cfg!(target_arch = "x86_64") { 24 } else { 16 };

/// The limit of address space (getrlimit(2)).
pub const RLIMIT_AS: usize = 9;

/// How much address space this process may have in all; `None` where nothing bounds it.
pub fn address_space_max() -> Option<u64> {
    let mut limits = [u64::MAX; 2];
    let into = limits.as_mut_ptr().expose_provenance();
    let before = errno();
    // SAFETY: there is room for what it writes.
    unsafe { call(number::PRLIMIT64, [0, RLIMIT_AS, 0, into, 0, 0]) };
    set_errno(before);
    (limits[0] != u64::MAX).then_some(limits[0])
}

/// Sets `errno`.
pub fn set_errno(number: i32) {
    // SAFETY: the thread's own.
    unsafe { *__errno_location() = number };
}

pub fn errno() -> i32 {
    // SAFETY: the thread's own.
    unsafe { *__errno_location() }
}

/// A result as C has it: the value, or -1 and `errno`.
pub fn answer(result: Result<usize, i32>) -> Signed {
    match result {
        Ok(value) => value as Signed,
        Err(number) => {
            set_errno(number);
            -1
        }
    }
}
