//! Binding a socket to a queue, and what a person can do when that fails.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use exos_ring::PeerFault;

use super::calls;
use super::interface::Interface;
use super::program::Mode;
use crate::Error;
use crate::limits::QUEUE_RETRY_INTERVAL;

/// What must be set before the socket is bound, and before it is passed to anyone.
pub(super) fn prepare(
    socket: impl AsFd,
    interface: &str,
    prefer_busy_poll: bool,
) -> Result<(), Error> {
    calls::widen_sending(&socket);
    if prefer_busy_poll {
        calls::prefer_busy_poll(&socket).map_err(|source| {
            Error::io(
                format!("busy polling cannot be set for {interface}"),
                source,
            )
        })?;
    }
    Ok(())
}

pub(super) fn ring_fault(fault: PeerFault) -> Error {
    Error::new(fault.to_string()).mend("report this: the kernel should never do it")
}

pub(super) fn explain_socket(source: io::Error, bytes: u64) -> Error {
    let code = source.raw_os_error();
    let error = Error::io("the AF_XDP socket cannot be made", source);
    match code {
        Some(libc::EAFNOSUPPORT) => {
            error.mend("use a kernel that was built with AF_XDP (CONFIG_XDP_SOCKETS)")
        }
        Some(libc::ENOBUFS) => error.mend(format!(
            "allow {} KiB of locked memory: ulimit -l unlimited",
            bytes.div_ceil(1024)
        )),
        _ => error,
    }
}

/// Without a word on copying the kernel tries zero copy and falls back. Generic
/// mode has only copies.
pub(super) fn bind_flags(mode: Mode, multi_buffer: bool) -> u16 {
    let copy = if mode == Mode::Generic {
        libc::XDP_COPY
    } else {
        0
    };
    let pieces = if multi_buffer { libc::XDP_USE_SG } else { 0 };
    libc::XDP_USE_NEED_WAKEUP | copy | pieces
}

/// Binds, and waits for a queue that is just being given back.
pub(super) fn bind(
    socket: impl AsFd,
    interface: &Interface,
    queue: u32,
    flags: u16,
    wait: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + wait;
    loop {
        match calls::bind(&socket, interface.index, queue, flags) {
            Ok(()) => return Ok(()),
            Err(source)
                if source.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline =>
            {
                std::thread::sleep(QUEUE_RETRY_INTERVAL);
            }
            Err(source) => return Err(explain_bind(source, interface, queue)),
        }
    }
}

fn explain_bind(source: io::Error, interface: &Interface, queue: u32) -> Error {
    let name = &interface.name;
    let mend = match source.raw_os_error() {
        Some(libc::EBUSY) => Some(
            "another AF_XDP socket holds the queue: end its process (`ss --xdp -p` lists them), or \
             use another queue"
                .to_owned(),
        ),
        Some(libc::ENETDOWN) => Some(format!("ip link set {name} up")),
        Some(libc::EINVAL | libc::ENODEV) => {
            Some(format!("see that {name} still is there and uses the queue: ethtool -l {name}"))
        }
        _ => None,
    };
    let error = Error::io(format!("queue {queue} of {name} cannot be opened"), source);
    match mend {
        Some(mend) => error.mend(mend),
        None => error,
    }
}
