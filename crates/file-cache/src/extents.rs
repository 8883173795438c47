//! What is in memory: extents of files, each of one version, in buffers of one pool; and what has to go for others.
//!
//! An extent is a key of the paper's (file, offset, length): [`EXTENT_LEN`] bytes from a multiple of that on, or to the end of the file. It takes
//! whole buffers, so that what goes gives back what it took. Memory is full when the pool has no buffer left: then the policy says what goes. One
//! whose bytes somebody has would give nothing back now: it is parked beside the policy, and counts as come again when they were let go of.

use crate::limits::{BUFFER_LEN, EXTENT_LEN, PARKED_LOOKS};
use crate::open_file::{Audience, OpenFile, lease};
use crate::parts::{COMMON, Part, Parts};
use crate::protocol::{Statistics, Status};
use crate::version::Version;
use exos_iolite::{Aggregate, Draft, Pool, Slice};
use exos_replacement::{Key, Newcomer, Policy, USES_MAX};
use rustix::fs::{Advice, fadvise, fstat};
use rustix::io::{Errno, pread};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Which extent of which file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Name {
    device: u64,
    inode: u64,
    extent: u64,
}

impl Name {
    /// A number that stays the same for it.
    fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// As long as it is there, an answer of this process has bytes of an extent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lent(Rc<()>);

#[derive(Debug)]
struct Extent {
    name: Name,
    version: Version,
    bytes: Aggregate,
    /// How often it was used since the policy last asked.
    uses: u8,
    /// The answers that have bytes of it have a clone.
    lent: Lent,
    /// Whose policy says when it goes.
    part: Part,
    /// The policy does not know of it: some program had its bytes when its turn to go came.
    is_parked: bool,
}

impl Extent {
    /// What it takes.
    fn taken(&self) -> u64 {
        (self.bytes.slices().len() * BUFFER_LEN) as u64
    }

    /// Some program has bytes of it, or is about to.
    fn is_pinned(&self) -> bool {
        Rc::strong_count(&self.lent.0) > 1 || self.bytes.slices().any(Slice::is_held_by_members)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Extents {
    pub audience: Audience,
    pool: Pool,
    pub parts: Parts,
    by_name: HashMap<Name, Key>,
    extents: Vec<Option<Extent>>,
    free: Vec<Key>,
    /// Those whose turn to go came while some program had their bytes, the one that was looked at last at the end.
    parked: VecDeque<Key>,
    pub statistics: Statistics,
}

impl Extents {
    pub fn new(audience: Audience, pool: Pool, policy: Box<dyn Policy>) -> Self {
        let memory = u64::from(pool.shape().buffers) * BUFFER_LEN as u64;
        Self {
            audience,
            pool,
            parts: Parts::new(policy, memory),
            by_name: HashMap::new(),
            extents: Vec::new(),
            free: Vec::new(),
            parked: VecDeque::new(),
            statistics: Statistics {
                memory,
                ..Statistics::default()
            },
        }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes of a file from a place on, as many as there are of one extent, which is `lent`; none behind its end. What is brought in for that
    /// is of a part.
    pub fn read(
        &mut self,
        part: Part,
        file: &mut OpenFile,
        offset: u64,
        len: u64,
        lent: &mut Vec<Lent>,
    ) -> Result<Aggregate, Status> {
        let end = file.version.len.min(offset.saturating_add(len));
        if offset >= end {
            return Ok(Aggregate::new());
        }
        let extent = offset / EXTENT_LEN as u64;
        let (mut bytes, of) = self.extent(part, file, extent)?;
        lent.push(of);
        let within = (offset % EXTENT_LEN as u64) as usize;
        bytes = if within > 0 {
            bytes.split(within)
        } else {
            bytes
        };
        bytes.truncate((end - offset).min(EXTENT_LEN as u64) as usize);
        file.next = offset + bytes.len() as u64;
        Ok(bytes)
    }

    fn extent(
        &mut self,
        part: Part,
        file: &OpenFile,
        extent: u64,
    ) -> Result<(Aggregate, Lent), Status> {
        let name = Name {
            device: file.device,
            inode: file.inode,
            extent,
        };
        if let Some(key) = self.by_name.get(&name).copied() {
            let there = self.extents[key.index()].as_mut().expect("it has a name");
            if there.version == file.version {
                there.uses = (there.uses + 1).min(USES_MAX);
                let (bytes, lent) = (there.bytes.clone(), there.lent.clone());
                let (of, is_parked) = (there.part, there.is_parked);
                if !is_parked {
                    self.parts.policy(of).used(key);
                }
                if of != part && of != COMMON {
                    self.make_common(key, of);
                }
                self.statistics.hits += 1;
                return Ok((bytes, lent));
            }
            // One of the two is of the past; which, reading tells.
        }
        let bytes = self.fetch(file, extent)?;
        let lent = self.keep(part, name, file.version, bytes.clone());
        Ok((bytes, lent))
    }

    /// Another program uses what one with a policy of its own has brought in.
    fn make_common(&mut self, key: Key, of: Part) {
        let extent = self.extents[key.index()].as_mut().expect("it is there");
        extent.part = COMMON;
        match extent.is_parked {
            true => {
                let taken = extent.taken();
                self.parts.add(COMMON, taken);
                self.parts.remove(of, taken);
            }
            false => {
                let newcomer = newcomer(key, extent);
                self.parts.make_common(of, newcomer);
            }
        }
    }

    /// Reads an extent of a version of a file.
    fn fetch(&mut self, file: &OpenFile, extent: u64) -> Result<Aggregate, Status> {
        let lease = lease(&file.descriptor, self.audience)?;
        let is_same =
            || fstat(&file.descriptor).is_ok_and(|found| Version::of(&found) == file.version);
        let start = extent * EXTENT_LEN as u64;
        let len = (file.version.len - start).min(EXTENT_LEN as u64);
        let bytes = match is_same() {
            true => self.read_file(&file.descriptor, start, len as usize)?,
            false => return Err(Status::Changed),
        };
        if !is_same() {
            return Err(Status::Changed);
        }
        drop(lease);
        self.statistics.misses += 1;
        self.statistics.read_bytes += len;
        if let Some(more) = NonZeroU64::new(EXTENT_LEN as u64)
            && file.next == start
        {
            // It is read on: the kernel may have the next one read from the disk meanwhile.
            let _ = fadvise(&file.descriptor, start + len, Some(more), Advice::WillNeed);
        }
        Ok(bytes)
    }

    fn read_file(&mut self, file: &OwnedFd, start: u64, len: usize) -> Result<Aggregate, Status> {
        let mut bytes = Aggregate::new();
        while bytes.len() < len {
            let now = (len - bytes.len()).min(BUFFER_LEN);
            let mut draft = self.draft()?;
            fill(
                file,
                start + bytes.len() as u64,
                &mut draft.bytes_mut()[..now],
            )?;
            bytes.append(draft.freeze_first(now));
        }
        Ok(bytes)
    }

    /// A whole buffer, for which others may have to go.
    fn draft(&mut self) -> Result<Draft, Status> {
        loop {
            match self.pool.draft(BUFFER_LEN) {
                Ok(draft) => return Ok(draft),
                Err(_) if self.evict() => {}
                Err(_) => return Err(Status::Unreadable),
            }
        }
    }

    fn keep(&mut self, part: Part, name: Name, version: Version, bytes: Aggregate) -> Lent {
        if let Some(before) = self.by_name.get(&name).copied() {
            match self.at(before).is_parked {
                true => self.parked.retain(|key| *key != before),
                false => {
                    let of = self.at(before).part;
                    self.parts.policy(of).removed(before);
                }
            }
            self.forget(before);
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.extents.push(None);
            Key::new(self.extents.len() as u32 - 1)
        });
        let extent = Extent {
            name,
            version,
            bytes,
            uses: 1,
            lent: Lent::default(),
            part,
            is_parked: false,
        };
        let lent = extent.lent.clone();
        self.statistics.held += extent.taken();
        self.by_name.insert(name, key);
        self.parts.add(part, extent.taken());
        self.parts.policy(part).admitted(newcomer(key, &extent));
        self.extents[key.index()] = Some(extent);
        // What the answer has of it is pinned, so it is not this one that goes.
        while self.parts.is_over(part) && self.evict_of(part) {}
        lent
    }

    /// Takes out what the policy says; false when some program has bytes of all that is there. What somebody has is parked, so that it is
    /// passed over once, and not each time that something has to go.
    fn evict(&mut self) -> bool {
        self.unpark(PARKED_LOOKS);
        let any = |this: &mut Self| {
            let parts = this.parts.in_order();
            parts.into_iter().any(|part| this.evict_of(part))
        };
        // Where all are parked: has any been let go of?
        any(self) || self.unpark(usize::MAX) && any(self)
    }

    /// Takes out what the policy of a part says, if it knows of any of which no program has bytes.
    fn evict_of(&mut self, part: Part) -> bool {
        while let Some(key) = self.victim(part) {
            if !self.at(key).is_pinned() {
                self.statistics.evictions += 1;
                self.forget(key);
                return true;
            }
            self.statistics.pinned += 1;
            self.extents[key.index()]
                .as_mut()
                .expect("it is there")
                .is_parked = true;
            self.parked.push_back(key);
        }
        false
    }

    fn victim(&mut self, part: Part) -> Option<Key> {
        let extents = &mut self.extents;
        self.parts.policy(part).victim(&mut |key: Key| {
            let extent = extents[key.index()].as_mut();
            std::mem::take(&mut extent.expect("the policy knows of it").uses)
        })
    }

    /// Tells the policy of those that nobody has any more, as of some that have come again; looks at a bounded number of them. Whether there was one.
    fn unpark(&mut self, looks: usize) -> bool {
        let mut is_any = false;
        for _ in 0..looks.min(self.parked.len()) {
            let key = self
                .parked
                .pop_front()
                .expect("as many are there as are looked at");
            let extent = self.extents[key.index()].as_mut().expect("it is there");
            if extent.is_pinned() {
                self.parked.push_back(key);
                continue;
            }
            extent.is_parked = false;
            let (part, newcomer) = (extent.part, newcomer(key, extent));
            self.parts.policy(part).admitted(newcomer);
            is_any = true;
        }
        is_any
    }

    fn at(&self, key: Key) -> &Extent {
        self.extents[key.index()].as_ref().expect("it is there")
    }

    /// Neither the policy nor the queue of the parked knows of it any more.
    fn forget(&mut self, key: Key) {
        let extent = self.extents[key.index()].take().expect("it is there");
        self.statistics.held -= extent.taken();
        self.parts.remove(extent.part, extent.taken());
        self.by_name.remove(&extent.name);
        self.free.push(key);
    }
}

fn newcomer(key: Key, extent: &Extent) -> Newcomer {
    Newcomer {
        key,
        name: extent.name.number(),
        bytes: extent.taken(),
        is_asked_for: true,
    }
}

/// Reads all of it: a file that has got shorter has changed.
fn fill(file: &OwnedFd, start: u64, mut into: &mut [u8]) -> Result<(), Status> {
    let mut at = start;
    while !into.is_empty() {
        match pread(file, &mut *into, at) {
            Ok(0) => return Err(Status::Changed),
            Ok(len) => {
                into = &mut into[len..];
                at += len as u64;
            }
            Err(Errno::INTR) => {}
            Err(_) => return Err(Status::Unreadable),
        }
    }
    Ok(())
}
