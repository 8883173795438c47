//! BPF maps: creation, and element access from user space.
//!
//! Keys and values are plain bytes in native byte order. A per-CPU map's value in user space is one value for
//! each possible CPU, each rounded up to 8 bytes; [`Map::lookup`] hides that for other kinds and
//! [`Map::sum_percpu_u64`] for counters.

use super::info;
use super::pin;
use super::syscall::{Attr, Command, NAME_LEN, bpf, bpf_fd, failed, object_name};
use crate::error::Error;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

/// The array can be mapped (Linux 5.5).
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Which kind of map (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Hash table.
    Hash = 1,
    /// Array indexed by u32, all entries there from the start, zero.
    Array = 2,
    /// Array of program descriptors: targets of tail calls.
    ProgArray = 3,
    /// An array with a separate copy of each entry for each CPU.
    PercpuArray = 6,
    /// Hash table that forgets what was not used for longest.
    LruHash = 9,
    /// Array of maps, all made like the one that it was created with.
    ArrayOfMaps = 12,
    /// Array of interface indices: targets of XDP redirection.
    Devmap = 14,
    /// Array of AF_XDP sockets, indexed by receive queue.
    Xskmap = 17,
    /// Records from programs to one reader, see [`super::RingbufReader`].
    Ringbuf = 27,
}

impl MapKind {
    /// The kind with this number; None when maps of it are not used here.
    pub fn from_number(number: u32) -> Option<Self> {
        let kinds = [
            Self::Hash,
            Self::Array,
            Self::ProgArray,
            Self::PercpuArray,
            Self::LruHash,
            Self::ArrayOfMaps,
            Self::Devmap,
            Self::Xskmap,
            Self::Ringbuf,
        ];
        kinds.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// An open BPF map.
#[derive(Debug)]
pub struct Map {
    pub(super) fd: OwnedFd,
    kind: MapKind,
    pub(super) key_size: usize,
    value_size: usize,
    /// Bytes of one value as user space sees it. Known from the beginning, and not looked up for each access: the
    /// kernel writes that many, and a process without a free descriptor could not find out how many CPUs there are.
    user_value_size: usize,
    entries: u32,
    pub(super) name: String,
}

#[repr(C)]
struct CreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; NAME_LEN],
}
// SAFETY: the prefix of union bpf_attr for BPF_MAP_CREATE; 44 bytes without padding; no addresses.
unsafe impl Attr for CreateAttr {}

#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
// SAFETY: the prefix for BPF_MAP_*_ELEM; padding explicit; behind both addresses is as much as the kernel reads or
// writes: `Map::element` checks the key, `Map::update` and `Map::lookup` have `user_value_size` bytes.
unsafe impl Attr for ElementAttr {}

#[repr(C)]
struct FreezeAttr {
    map_fd: u32,
}
// SAFETY: the prefix for BPF_MAP_FREEZE; no addresses.
unsafe impl Attr for FreezeAttr {}

impl Map {
    /// An array of one value that somebody else has made.
    pub(super) fn adopted_array(fd: OwnedFd, value_size: usize) -> Self {
        Self {
            fd,
            kind: MapKind::Array,
            key_size: 4,
            value_size,
            user_value_size: value_size,
            entries: 1,
            name: String::new(),
        }
    }

    /// A map of `entries` entries. Sizes in bytes.
    pub fn create(
        kind: MapKind,
        name: &str,
        key_size: usize,
        value_size: usize,
        entries: u32,
    ) -> Result<Self, Error> {
        Self::create_with(kind, name, key_size, value_size, entries, 0)
    }

    pub(super) fn create_with(
        kind: MapKind,
        name: &str,
        key_size: usize,
        value_size: usize,
        entries: u32,
        flags: u32,
    ) -> Result<Self, Error> {
        Self::create_over(kind, name, key_size, value_size, entries, flags, None)
    }

    fn create_over(
        kind: MapKind,
        name: &str,
        key_size: usize,
        value_size: usize,
        entries: u32,
        flags: u32,
        inner: Option<&Self>,
    ) -> Result<Self, Error> {
        let user_value_size = user_value_size(kind, value_size)?;
        let mut attr = CreateAttr {
            map_type: kind as u32,
            key_size: key_size as u32,
            value_size: value_size as u32,
            max_entries: entries,
            map_flags: flags,
            inner_map_fd: inner.map_or(0, |map| map.raw_fd() as u32),
            numa_node: 0,
            map_name: object_name(name),
        };
        let fd = bpf_fd(Command::MapCreate, &mut attr).map_err(|source| {
            failed(
                format!("cannot create the BPF map `{name}` ({kind:?}, {entries} entries)"),
                source,
            )
        })?;
        Ok(Self {
            fd,
            kind,
            key_size,
            value_size,
            user_value_size,
            entries,
            name: name.to_owned(),
        })
    }

    /// An array of maps, empty: each that is put there ([`Self::set_fd`]) is made like `inner`.
    pub fn array_of_maps(name: &str, entries: u32, inner: &Self) -> Result<Self, Error> {
        Self::create_over(MapKind::ArrayOfMaps, name, 4, 4, entries, 0, Some(inner))
    }

    /// AF_XDP sockets by receive queue: queues 0 to `queues` - 1.
    ///
    /// Never pass this map's descriptor to a process without privilege: it is writable by the one that holds it.
    pub fn xskmap(queues: u32) -> Result<Self, Error> {
        Self::create(MapKind::Xskmap, "exos_sockets", 4, 4, queues)
    }

    /// Interfaces that programs redirect to, by their index.
    pub fn devmap(entries: u32) -> Result<Self, Error> {
        Self::create(MapKind::Devmap, "exos_out", 4, 4, entries)
    }

    /// An array whose values lie in memory one after the other, where its descriptor is mapped: `value_size` is a multiple
    /// of 8. All of it is taken at once.
    pub fn mappable_array(name: &str, value_size: usize, entries: u32) -> Result<Self, Error> {
        let flags = BPF_F_MMAPABLE;
        Self::create_with(MapKind::Array, name, 4, value_size, entries, flags).map_err(|error| {
            match error.is(libc::EINVAL) {
                // It is the only thing asked for that an older kernel does not know.
                true => error.mend("maps that programs share as memory need Linux 5.5"),
                false => error,
            }
        })
    }

    /// An array of `entries` values of `value_size` bytes.
    pub fn array(name: &str, value_size: usize, entries: u32) -> Result<Self, Error> {
        Self::create(MapKind::Array, name, 4, value_size, entries)
    }

    /// A per-CPU array of `entries` values of `value_size` bytes.
    pub fn percpu_array(name: &str, value_size: usize, entries: u32) -> Result<Self, Error> {
        Self::create(MapKind::PercpuArray, name, 4, value_size, entries)
    }

    /// Slots for programs that a dispatcher calls.
    pub fn prog_array(entries: u32) -> Result<Self, Error> {
        Self::create(MapKind::ProgArray, "exos_programs", 4, 4, entries)
    }

    /// A hash table.
    pub fn hash(
        name: &str,
        key_size: usize,
        value_size: usize,
        entries: u32,
    ) -> Result<Self, Error> {
        Self::create(MapKind::Hash, name, key_size, value_size, entries)
    }

    /// Records from programs to a reader: `bytes` of data, a power of two of at least a page.
    pub fn ringbuf(name: &str, bytes: u32) -> Result<Self, Error> {
        Self::create(MapKind::Ringbuf, name, 0, 0, bytes)
    }

    /// Takes writing from every holder of a descriptor, for ever; programs, and the kernel itself, still may.
    pub fn freeze(&self) -> Result<(), Error> {
        let mut attr = FreezeAttr {
            map_fd: self.raw_fd() as u32,
        };
        bpf(Command::MapFreeze, &mut attr)
            .map(drop)
            .map_err(|source| failed(format!("cannot freeze the BPF map `{}`", self.name), source))
    }

    /// Its system-wide id, by which it can be looked for when its descriptors are closed here: [`super::map_exists`].
    pub fn id(&self) -> Result<u32, Error> {
        info::map_id(self.fd.as_fd())
    }

    /// Give it a name in a BPF file system, so that it outlives this process.
    pub fn pin(&self, path: &Path) -> Result<(), Error> {
        pin::pin(self.fd.as_fd(), path)
    }

    /// Open the map of this name, whatever it is: see [`Self::is_like`].
    pub fn open_pinned(path: &Path) -> Result<Self, Error> {
        Self::of_descriptor(pin::open(path)?, &path.display())
            .map_err(|error| error.or_mend("remove it: it is not ours"))
    }

    /// Open the map with this system-wide [id](Self::id), whatever it is, if there is one. Needs `CAP_BPF` and `CAP_SYS_ADMIN`.
    pub fn open_by_id(id: u32) -> Result<Option<Self>, Error> {
        let fd = info::map_by_id(id)?;
        fd.map(|fd| Self::of_descriptor(fd, &id)).transpose()
    }

    fn of_descriptor(fd: OwnedFd, called: &dyn Display) -> Result<Self, Error> {
        let shape = info::map_shape(fd.as_fd())?;
        let kind = MapKind::from_number(shape.kind).ok_or_else(|| {
            Error::new(format!(
                "{called} is a BPF map of kind {}, which is not used here",
                shape.kind
            ))
        })?;
        Ok(Self {
            fd,
            kind,
            key_size: shape.key_size,
            value_size: shape.value_size,
            user_value_size: user_value_size(kind, shape.value_size)?,
            entries: shape.entries,
            name: shape.name,
        })
    }

    /// How many entries it has room for.
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Whether it was created with these: a pinned map may be of an earlier version.
    pub fn is_like(&self, kind: MapKind, key_size: usize, value_size: usize, entries: u32) -> bool {
        let shape = (self.kind, self.key_size, self.value_size, self.entries);
        shape == (kind, key_size, value_size, entries)
    }

    /// Every key there is, as one walk meets them; what others add or take away meanwhile may be missed.
    pub fn keys(&self) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        // A walk over a table that changes may begin again: bounded by twice the entries.
        for _ in 0..u64::from(self.entries) * 2 {
            let mut next = vec![0; self.key_size];
            let mut attr = ElementAttr {
                map_fd: self.raw_fd() as u32,
                padding: 0,
                key: keys.last().map_or(0, |key| key.as_ptr() as u64),
                value: next.as_mut_ptr() as u64,
                flags: 0,
            };
            match bpf(Command::MapGetNextKey, &mut attr) {
                Ok(_) => keys.push(next),
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => break,
                Err(e) => {
                    let what = format!("cannot list the BPF map `{}`", self.name);
                    return Err(failed(what, e));
                }
            }
        }
        Ok(keys)
    }

    /// The descriptor's number, for instructions that refer to this map.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Bytes of one value as user space sees it: all CPUs' copies for a per-CPU map.
    pub fn user_value_size(&self) -> usize {
        self.user_value_size
    }

    /// Store `value` at `key`.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        assert_eq!(
            value.len(),
            self.user_value_size(),
            "value size of map {}",
            self.name
        );
        self.element(Command::MapUpdate, key, value.as_ptr() as u64)
            .map_err(|source| failed(format!("cannot update the BPF map `{}`", self.name), source))
    }

    /// The value at `key`, or None when there is none.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut value = vec![0; self.user_value_size()];
        match self.element(Command::MapLookup, key, value.as_mut_ptr() as u64) {
            Ok(()) => Ok(Some(value)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(failed(
                format!("cannot read the BPF map `{}`", self.name),
                e,
            )),
        }
    }

    /// Take the entry at `key` away; false when there was none.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        match self.element(Command::MapDelete, key, 0) {
            Ok(()) => Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(e) => Err(failed(
                format!("cannot delete from the BPF map `{}`", self.name),
                e,
            )),
        }
    }

    /// Put a descriptor (a socket in an XSKMAP, a program in a PROG_ARRAY, a map in an array of maps) into slot `index`.
    pub fn set_fd(&self, index: u32, fd: BorrowedFd<'_>) -> Result<(), Error> {
        self.update(&index.to_ne_bytes(), &fd.as_raw_fd().to_ne_bytes())
    }

    /// Empty slot `index`; false when it was empty.
    pub fn clear(&self, index: u32) -> Result<bool, Error> {
        self.delete(&index.to_ne_bytes())
    }

    /// The sum over all CPUs of the u64 words of entry `index`: word by word.
    pub fn sum_percpu_u64(&self, index: u32) -> Result<Vec<u64>, Error> {
        assert_eq!(
            self.kind,
            MapKind::PercpuArray,
            "map {} is not per CPU",
            self.name
        );
        let value = self.lookup(&index.to_ne_bytes())?.unwrap_or_default();
        let stride = self.value_size.next_multiple_of(8);
        let mut sums = vec![0u64; stride / 8];
        for copy in value.chunks_exact(stride) {
            for (sum, word) in sums.iter_mut().zip(copy.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        Ok(sums)
    }

    /// One element command. `value` is the address of `user_value_size` bytes, or 0 for a deletion.
    fn element(&self, command: Command, key: &[u8], value: u64) -> io::Result<()> {
        assert_eq!(key.len(), self.key_size, "key size of map {}", self.name);
        let mut attr = ElementAttr {
            map_fd: self.raw_fd() as u32,
            padding: 0,
            key: key.as_ptr() as u64,
            value,
            flags: 0,
        };
        bpf(command, &mut attr).map(drop)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes of one value of such a map as user space sees it.
fn user_value_size(kind: MapKind, value_size: usize) -> Result<usize, Error> {
    match kind {
        MapKind::PercpuArray => Ok(value_size.next_multiple_of(8) * possible_cpus()?),
        _ => Ok(value_size),
    }
}

/// How many CPUs the kernel may ever have: the number of copies in a per-CPU map. Its `num_possible_cpus()` is the number
/// of CPUs in `/sys/devices/system/cpu/possible`.
///
/// Fails when that cannot be read. A guess would not do: the kernel writes as many copies as it has CPUs.
pub fn possible_cpus() -> Result<usize, Error> {
    let path = "/sys/devices/system/cpu/possible";
    let what = || format!("cannot tell from {path} how many CPUs there may be");
    let list = std::fs::read_to_string(path)
        .map_err(|source| Error::io(what(), source).mend("mount sysfs at /sys"))?;
    count_cpus(list.trim()).ok_or_else(|| Error::new(format!("{}: it says `{list}`", what())))
}

/// CPUs in a list such as `0-3,8`; None when it is not such a list.
pub(super) fn count_cpus(list: &str) -> Option<usize> {
    let parts = list.split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        (last.checked_add(1)?).checked_sub(first).filter(|n| *n > 0)
    });
    parts.sum()
}
