//! /sys as a network namespace shows it: a file for each setting of an interface that netlink does not have.
//!
//! A mount of sysfs shows the interfaces of the network namespace in which it was made. So each use makes a mount of its own, which
//! is attached to no path (fsmount(2), Linux 5.2).

use crate::error::{Context as _, Result};
use crate::netns::NetNs;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, read, write};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

/// Longest setting that is read, in bytes: a set of 8,192 processors, 32 of them in nine characters.
const VALUE_LEN_MAX: usize = 4096;

/// The settings of one namespace's interfaces. Needs CAP_SYS_ADMIN.
#[derive(Debug)]
pub struct Sysfs(OwnedFd);

impl Sysfs {
    /// Those of a namespace.
    pub fn of(netns: &NetNs) -> Result<Self> {
        let mounted = netns.run(mount)?;
        Ok(Self(
            mounted.context(|| "cannot mount /sys for a network namespace")?,
        ))
    }

    /// Opens a setting, to be read again and again.
    pub fn open(&self, path: &str) -> Result<File> {
        let what = || format!("cannot read /sys/{path}");
        Ok(self.open_to_read(path).context(what)?.into())
    }

    /// Reads a setting, without its line end; `None` when there is no such file.
    pub fn read(&self, path: &str) -> Result<Option<String>> {
        let what = || format!("cannot read /sys/{path}");
        let file = match self.open_to_read(path) {
            Err(Errno::NOENT) => return Ok(None),
            file => file.context(what)?,
        };
        let mut value = vec![0; VALUE_LEN_MAX];
        let len = read(&file, &mut value).context(what)?;
        let text = String::from_utf8_lossy(&value[..len]);
        Ok(Some(text.trim_end().to_owned()))
    }

    fn open_to_read(&self, path: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(self.0.as_fd(), path, flags, Mode::empty())
    }

    /// Writes a setting.
    pub fn write(&self, path: &str, value: &str) -> Result<()> {
        let what = || format!("cannot set /sys/{path} to {value}");
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(self.0.as_fd(), path, flags, Mode::empty()).context(what)?;
        write(&file, value.as_bytes()).context(what)?;
        Ok(())
    }
}

fn mount() -> rustix::io::Result<OwnedFd> {
    let sysfs = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(sysfs.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(sysfs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
