//! Of which kind the file system of an open file is, by what the kernel knows without asking that file system (proc_pid_mountinfo(5)): one that is a
//! program (FUSE), or comes from elsewhere, answers when it likes.

use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use std::os::fd::AsFd;

/// Those that the cache takes files of (`version` says why).
const KEPT: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Those through whose folders the way to such a file may lead beside these: they are in memory, or on those.
const PASSED: [&str; 3] = ["tmpfs", "overlay", "rootfs"];

/// The mounts of this process's namespace.
#[derive(Debug)]
pub(crate) struct Mounts(String);

/// A file, as far as its file system need not be asked.
#[derive(Clone, Copy, Debug)]
struct Known {
    kind: FileType,
    mount: u64,
    device: (u32, u32),
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
    pub fn now() -> Self {
        Self(std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Whether this is a regular file of a kind of file system that the cache takes files of. False where that is mounted in no place that this process
    /// sees.
    pub fn has_kept(&self, file: impl AsFd) -> bool {
        let file = Known::of(file).filter(|file| file.kind == FileType::RegularFile);
        file.is_some_and(|file| self.kind(&file).any(|kind| KEPT.contains(&kind)))
    }

    /// Whether a folder can be looked into without waiting for a program.
    pub fn has_passed(&self, folder: impl AsFd) -> bool {
        let is_passed = |kind| KEPT.contains(&kind) || PASSED.contains(&kind);
        let folder = Known::of(folder).filter(|folder| folder.kind == FileType::Directory);
        folder.is_some_and(|folder| self.kind(&folder).any(is_passed))
    }

    /// What its file system is called: by its mount, if that is seen here, else by its device. A subvolume of Btrfs has another.
    fn kind(&self, file: &Known) -> impl Iterator<Item = &str> {
        let (major, minor) = file.device;
        let (mount, device) = (file.mount.to_string(), format!("{major}:{minor}"));
        self.0.lines().filter_map(move |line| {
            let mut fields = line.split(' ');
            let is_its_mount = fields.next() == Some(&mount);
            let is_its_device = fields.nth(1) == Some(&device);
            let kind = fields.skip_while(|field| *field != "-").nth(1)?;
            (is_its_mount || is_its_device).then_some(kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn kinds_are_told_by_mount_or_device() {
        let mounts = Mounts(
            "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
             30 22 0:55 / /mnt - rw - btrfs /dev/vdb rw\n\
             31 22 0:56 / /home/eve/fuse rw shared:2 master:3 - fuse.own own rw\n\
             no line\n"
                .to_owned(),
        );
        let kinds = |mount, device| {
            let file = Known {
                kind: FileType::RegularFile,
                mount,
                device,
            };
            mounts.kind(&file).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(kinds(22, (254, 0)), ["ext4"]);
        assert_eq!(kinds(99, (254, 0)), ["ext4"], "in another namespace");
        assert_eq!(kinds(30, (0, 70)), ["btrfs"], "of a subvolume");
        assert_eq!(kinds(31, (0, 56)), ["fuse.own"]);
        assert!(kinds(99, (0, 70)).is_empty());
    }

    #[test]
    fn made_up_files_and_folders_are_not_taken() {
        let mounts = Mounts::now();
        let open = |path| File::open(path).expect("Linux has it");
        assert!(!mounts.has_kept(open("/proc/version")) && !mounts.has_passed(open("/proc")));
        assert!(!mounts.has_kept(open("/")) && mounts.has_passed(open("/")));
        let (reader, _writer) = rustix::pipe::pipe().expect("descriptors");
        assert!(!mounts.has_kept(reader));
    }
}
