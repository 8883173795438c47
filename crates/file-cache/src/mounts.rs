//! Of which kind the file system of an open file is, by what the kernel knows without asking that file system (proc_pid_mountinfo(5)): one that is a
//! program (FUSE), or comes from elsewhere, answers when it likes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::AsFd;

/// Those that the cache takes files of (`version` says why).
const KEPT: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Those through whose folders the way to such a file may lead beside these: they are in memory, or on those.
const PASSED: [&str; 3] = ["tmpfs", "overlay", "rootfs"];

/// Those beside these whose files are closed without waiting for anybody.
const LOCAL: [&str; 6] = ["tmpfs", "ramfs", "rootfs", "proc", "sysfs", "f2fs"];

/// The mounts of this process's namespace, as they were when they were looked at.
#[derive(Debug)]
pub(crate) struct Mounts {
    file: File,
    /// None: they are to be read again.
    lines: RefCell<Option<Vec<u8>>>,
}

/// A file, as far as its file system need not be asked.
#[derive(Clone, Copy, Debug)]
struct Known {
    kind: FileType,
    mount: u64,
    device: (u32, u32),
}

/// What closing a descriptor takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// It is a socket, whose last close may wait for its peer.
    Lingers,
    /// Each close may wait for a file system, or a device.
    Waits,
    /// Nothing is waited for.
    AtOnce,
}

impl Known {
    fn of(file: impl AsFd) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = statx(file, "", flags, StatxFlags::TYPE | StatxFlags::MNT_ID).ok()?;
        Some(Self {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            mount: found.stx_mnt_id,
            device: (found.stx_dev_major, found.stx_dev_minor),
        })
    }
}

impl Mounts {
    /// As they are now.
    pub fn now() -> io::Result<Self> {
        let mounts = Self {
            file: File::open("/proc/self/mountinfo")?,
            lines: RefCell::new(None),
        };
        mounts.look()?;
        Ok(mounts)
    }

    /// Reads them again, if they have changed: the kernel says that once, as an error and something urgent (proc_pid_mounts(5)).
    pub fn look(&self) -> io::Result<()> {
        let mut all = [PollFd::new(&self.file, PollFlags::PRI)];
        let has_changed = poll(&mut all, Some(&Timespec::default()))? > 0;
        let mut lines = self.lines.borrow_mut();
        if has_changed || lines.is_none() {
            *lines = None;
            let mut read = Vec::new();
            (&self.file).rewind()?;
            (&self.file).read_to_end(&mut read)?;
            *lines = Some(read);
        }
        Ok(())
    }

    /// Whether this is a regular file of a kind of file system that the cache takes files of. False where that is mounted in no place that this process
    /// sees.
    pub fn has_kept(&self, file: impl AsFd) -> bool {
        let file = Known::of(file).filter(|file| file.kind == FileType::RegularFile);
        file.is_some_and(|file| self.is_of(&file, |kind| KEPT.contains(&kind)))
    }

    /// How a descriptor can be closed.
    pub fn closing(&self, file: impl AsFd) -> Closing {
        let is_local = |kind: &str| KEPT.contains(&kind) || LOCAL.contains(&kind);
        match Known::of(file) {
            Some(file) if file.kind == FileType::Socket => Closing::Lingers,
            Some(file) if file.kind == FileType::Fifo => Closing::AtOnce,
            Some(file)
                if [FileType::RegularFile, FileType::Directory].contains(&file.kind)
                    && self.is_of(&file, is_local) =>
            {
                Closing::AtOnce
            }
            _ => Closing::Waits,
        }
    }

    /// Whether a folder can be looked into without waiting for a program.
    pub fn has_passed(&self, folder: impl AsFd) -> bool {
        let is_passed = |kind: &str| KEPT.contains(&kind) || PASSED.contains(&kind);
        let folder = Known::of(folder).filter(|folder| folder.kind == FileType::Directory);
        folder.is_some_and(|folder| self.is_of(&folder, is_passed))
    }

    fn is_of(&self, file: &Known, is_so: impl Fn(&str) -> bool) -> bool {
        let lines = self.lines.borrow();
        kinds(lines.as_deref().unwrap_or_default(), file).any(is_so)
    }
}

/// What a file's file system is called: by its mount, if that is seen here, else by its device. A subvolume of Btrfs has another. Names of mounts are
/// bytes; of kinds that are none in UTF-8 nothing is known.
fn kinds<'a>(lines: &'a [u8], file: &Known) -> impl Iterator<Item = &'a str> {
    let (major, minor) = file.device;
    let (mount, device) = (file.mount.to_string(), format!("{major}:{minor}"));
    lines.split(|byte| *byte == b'\n').filter_map(move |line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let is_its_mount = fields.next() == Some(mount.as_bytes());
        let is_its_device = fields.nth(1) == Some(device.as_bytes());
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        (is_its_mount || is_its_device).then(|| str::from_utf8(kind).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_mount_or_device() {
        let lines = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            29 22 0:54 / /media/\xff\xfe rw - vfat /dev/\xff rw\n\
            30 22 0:55 / /mnt rw - btrfs /dev/vdb rw\n\
            31 22 0:56 / /home/eve/fuse rw shared:2 master:3 - fuse.own own rw\n\
            no line\n";
        let kinds = |mount, device| {
            let file = Known {
                kind: FileType::RegularFile,
                mount,
                device,
            };
            kinds(lines, &file).collect::<Vec<_>>()
        };
        assert_eq!(kinds(29, (0, 54)), ["vfat"], "a name of any bytes");
        assert_eq!(kinds(22, (254, 0)), ["ext4"]);
        assert_eq!(kinds(99, (254, 0)), ["ext4"], "in another namespace");
        assert_eq!(kinds(30, (0, 70)), ["btrfs"], "of a subvolume");
        assert_eq!(kinds(31, (0, 56)), ["fuse.own"]);
        assert!(kinds(99, (0, 70)).is_empty());
    }

    #[test]
    fn made_up_files_and_folders_are_not_taken() {
        let mounts = Mounts::now().expect("Linux has it");
        let open = |path| File::open(path).expect("Linux has it");
        assert!(!mounts.has_kept(open("/proc/version")) && !mounts.has_passed(open("/proc")));
        assert!(!mounts.has_kept(open("/")) && mounts.has_passed(open("/")));
        let (reader, _writer) = rustix::pipe::pipe().expect("descriptors");
        assert!(!mounts.has_kept(&reader));
        assert_eq!(mounts.closing(&reader), Closing::AtOnce);
        assert_eq!(mounts.closing(open("/proc/version")), Closing::AtOnce);
        assert_eq!(mounts.closing(open("/dev/null")), Closing::Waits);
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("descriptors");
        assert_eq!(mounts.closing(&socket), Closing::Lingers);
    }
}
