//! What is in memory: extents of files, each of one version, in buffers of one pool; and what has to go for others.
//!
//! An extent is a key of the paper's (file, offset, length): [`EXTENT_LEN`] bytes from a multiple of that on, or to the end of the file. It takes
//! whole buffers, so that what goes gives back what it took. Memory is full when the pool has no buffer left: then the policy says what goes. One
//! of which programs have all buffers would give nothing back now: it is parked beside the policy, and counts as come again when one was let go of.

use crate::limits::{BUFFER_LEN, EXTENT_LEN, PARKED_LOOKS};
use crate::open_file::{Audience, OpenFile, lease};
use crate::parts::{COMMON, ENDED, Part, Parts};
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

#[derive(Debug)]
struct Extent {
    name: Name,
    version: Version,
    bytes: Aggregate,
    /// How often it was used since the policy last asked.
    uses: u8,
    /// Whose policy says when it goes.
    part: Part,
    /// The policy does not know of it: others had all of its buffers when it was to go.
    is_parked: bool,
}

impl Extent {
    /// What it takes.
    fn taken(&self) -> u64 {
        (self.bytes.slices().len() * BUFFER_LEN) as u64
    }

    /// Programs have all of its buffers, or are about to: nothing is won when it goes. Of one of which they have a part the rest is used again at
    /// once; so what programs keep from others is what counts in their shares, and no more.
    fn is_pinned(&self) -> bool {
        self.bytes.slices().all(Slice::is_held_elsewhere)
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
    /// Those that were to go while others had all of their buffers, the one that was looked at last at the end.
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

    /// Bytes of a file from a place on, as many as there are of one extent; none behind its end. What is brought in for that is of a part.
    pub fn read(
        &mut self,
        part: Part,
        file: &mut OpenFile,
        offset: u64,
        len: u64,
    ) -> Result<Aggregate, Status> {
        let end = file.version.len.min(offset.saturating_add(len));
        if offset >= end {
            return Ok(Aggregate::new());
        }
        let extent = offset / EXTENT_LEN as u64;
        let mut bytes = self.extent(part, file, extent)?;
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

    fn extent(&mut self, part: Part, file: &OpenFile, extent: u64) -> Result<Aggregate, Status> {
        let name = Name {
            device: file.device,
            inode: file.inode,
            extent,
        };
        if let Some(key) = self.by_name.get(&name).copied() {
            let there = self.extents[key.index()].as_mut().expect("it has a name");
            if there.version == file.version {
                there.uses = (there.uses + 1).min(USES_MAX);
                let bytes = there.bytes.clone();
                let (of, is_parked) = (there.part, there.is_parked);
                if !is_parked {
                    self.parts.policy(of).used(key);
                }
                if of == ENDED {
                    self.move_to(key, part);
                } else if of != part && of != COMMON {
                    // Another program uses what one with a policy of its own has brought in.
                    self.move_to(key, COMMON);
                }
                self.statistics.hits += 1;
                return Ok(bytes);
            }
            // One of the two is of the past; which, reading tells.
        }
        let bytes = self.fetch(file, extent)?;
        self.keep(part, name, file.version, bytes.clone());
        Ok(bytes)
    }

    fn move_to(&mut self, key: Key, part: Part) {
        let extent = self.extents[key.index()].as_mut().expect("it is there");
        let from = std::mem::replace(&mut extent.part, part);
        let (is_known, newcomer) = (!extent.is_parked, newcomer(key, extent));
        self.parts.move_to(from, part, newcomer, is_known);
    }

    /// A connection with a policy of its own has ended. What is left in its part when it was the last goes before anything else does.
    pub fn leave(&mut self, part: Part) {
        if !self.parts.leave(part) {
            return;
        }
        let there = self.extents.iter().enumerate();
        let of_it = there.filter(|(_, extent)| extent.as_ref().is_some_and(|it| it.part == part));
        let of_it: Vec<Key> = of_it.map(|(place, _)| Key::new(place as u32)).collect();
        for key in of_it {
            self.move_to(key, ENDED);
        }
        self.parts.end(part);
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

    fn keep(&mut self, part: Part, name: Name, version: Version, bytes: Aggregate) {
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
            part,
            is_parked: false,
        };
        self.statistics.held += extent.taken();
        self.by_name.insert(name, key);
        self.parts.add(part, extent.taken());
        self.parts.policy(part).admitted(newcomer(key, &extent));
        self.extents[key.index()] = Some(extent);
        // The answer has all of it, so it is not this one that goes.
        while let Some(over) = self.parts.over(part)
            && self.evict_of(over)
        {}
    }

    /// Takes out what the policy says; false when others have all that is there. What gives nothing back is parked, so that it is passed over once,
    /// and not each time that something has to go.
    fn evict(&mut self) -> bool {
        self.unpark(PARKED_LOOKS);
        let any = |this: &mut Self| {
            let parts = this.parts.in_order();
            parts.into_iter().any(|part| this.evict_of(part))
        };
        // Where all are parked: has any been let go of?
        any(self) || self.unpark(usize::MAX) && any(self)
    }

    /// Takes out what the policy of a part says, if it knows of any that gives something back.
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

    /// Tells the policy of those that would give something back now, as of some that have come again; looks at a bounded number of them. Whether there was one.
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
