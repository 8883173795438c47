//! What an intercepted call is answered.

use std::io::{self, ErrorKind};

/// What becomes of a call.
pub(crate) enum Answer {
    /// The kernel does it.
    Pass,
    /// Its result.
    Value(i64),
    /// It waits.
    Later,
}

/// An error of the kernel's, by its number.
pub(crate) fn fails<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

/// The number of an error (errno(3)).
pub(crate) fn errno(error: &io::Error) -> i32 {
    if let Some(number) = error.raw_os_error() {
        return number;
    }
    match error.kind() {
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        ErrorKind::ConnectionAborted => libc::ECONNABORTED,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::NetworkUnreachable => libc::ENETUNREACH,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::OutOfMemory => libc::ENOBUFS,
        ErrorKind::Interrupted => libc::EINTR,
        _ => libc::EIO,
    }
}
