//! A network of the program's own without any privilege: a user namespace with a network namespace
//! in it, where the program may make a TAP device.
//!
//! Nothing outside can reach it; anyone who runs the program can enter it (`nsenter`). It serves to
//! try things, and to show what works where AF_XDP is not to be had.

use exos_host::Error;
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// Move this process, which must have a single thread, into namespaces of its own.
pub fn enter() -> Result<(), Error> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    exos_host::netns::unshare_process(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(|e| {
        Error::io("cannot make a user namespace", e).mend(
            "run as root; or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=1000)",
        )
    })?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(|e| Error::io(format!("cannot set up the user namespace ({file})"), e))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("0 {uid} 1\n"))?;
    write("gid_map", format!("0 {gid} 1\n"))
}

/// True in a user namespace other than the machine's first: its one maps every user to itself.
pub(crate) fn is_inside() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| {
        let numbers: Vec<&str> = map.split_whitespace().collect();
        numbers != ["0", "0", "4294967295"]
    })
}
