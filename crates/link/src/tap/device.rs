//! The driver's side of a TAP device (tun(4), linux/if_tun.h): a descriptor of
//! `/dev/net/tun` becomes the wire end of one interface by TUNSETIFF.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use crate::Error;
use crate::vnet;

const DRIVER: &str = "/dev/net/tun";

/// Opens the driver, for an interface to be attached to.
pub(super) fn open_driver() -> Result<File, Error> {
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DRIVER);
    open.map_err(|source| {
        let code = source.raw_os_error();
        let error = Error::io(format!("{DRIVER} cannot be opened"), source);
        match code {
            Some(libc::ENOENT | libc::ENODEV) => error.mend("load the driver with `modprobe tun`"),
            // It has no secrets: what a user may do with it is decided by the network namespace.
            Some(libc::EACCES | libc::EPERM) => {
                error.mend("let users open it: chmod 666 /dev/net/tun")
            }
            _ => error,
        }
    })
}

/// Attaches the descriptor to the interface and returns its name.
pub(super) fn attach(file: &File, name: &str) -> Result<String, Error> {
    let mut request = interface_request(name)?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as i16;
    // SAFETY: the kernel reads and writes one `ifreq`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(explain(name, io::Error::last_os_error()));
    }
    let given = request
        .ifr_name
        .iter()
        .take_while(|&&c| c != 0)
        .map(|&c| c.cast_unsigned());
    Ok(String::from_utf8_lossy(&given.collect::<Vec<u8>>()).into_owned())
}

fn interface_request(name: &str) -> Result<libc::ifreq, Error> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0', ' ']) {
        return Err(
            Error::new(format!("{name:?} cannot be the name of an interface"))
                .mend("use 1 to 15 characters without slashes and spaces"),
        );
    }
    // SAFETY: a structure of integers and unions of them, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

fn explain(name: &str, source: io::Error) -> Error {
    let mend = match source.raw_os_error() {
        Some(libc::EPERM) => format!(
            "run as root, or have root make it for you: ip tuntap add dev {name} mode tap user $USER"
        ),
        Some(libc::EBUSY) => {
            format!("another program has {name} open: end it, or use another name")
        }
        Some(libc::EINVAL) => {
            format!("{name} exists and is no TAP device with one queue: use another name")
        }
        _ => String::new(),
    };
    let error = Error::io(format!("TAP device {name} cannot be opened"), source);
    if mend.is_empty() {
        error
    } else {
        error.mend(mend)
    }
}

/// Has the host leave TCP segments uncut and checksums unfinished.
pub(super) fn set_offload(file: &File) -> io::Result<()> {
    let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let header_len = vnet::LEN as i32;
    // SAFETY: the kernel reads one integer.
    let result = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETVNETHDRSZ,
            &raw const header_len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the argument is a number.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, u64::from(offload)) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "sixteen-letters-", "a/b", "a b", "a\0"] {
            assert!(interface_request(name).is_err(), "{name:?}");
        }
        assert!(interface_request("fifteen-letters").is_ok());
    }
}
