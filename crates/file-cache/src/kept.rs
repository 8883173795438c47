//! What a program keeps in its share, by a policy of its own: extents of files that it has read and may read again, without asking the service.
//!
//! What it keeps stays in memory as the one copy of all, since the program has references to it; what its [`Policy`] gives up is the service's to
//! replace. So a program decides what stays of *its* share, and nobody else's (*IO-Lite*, section 1: application-specific cache replacement). The policy is one of those by name, or any that the program implements.

use crate::client::{Client, File, Opened};
use crate::error::{Error, Refused as _, Result};
use crate::limits::{BUFFER_LEN, EXTENT_LEN};
use crate::protocol::Status;
use crate::version::Version;
use exos_iolite::Aggregate;
use exos_replacement::{Key, Newcomer, Policy, USES_MAX};
use rustix::fs::fstat;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::fd::AsFd;

/// Of its share a program keeps this part at most: the rest is for what it reads meanwhile.
const KEPT_PART: u64 = 2;

/// A version of a file that is read through [`Kept`].
#[derive(Debug)]
pub struct KeptFile {
    file: File,
    is: Identity,
}

/// Which bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    version: Version,
}

#[derive(Debug)]
struct Extent {
    name: (Identity, u64),
    bytes: Aggregate,
    uses: u8,
}

impl Extent {
    fn taken(&self) -> u64 {
        (self.bytes.len().next_multiple_of(BUFFER_LEN)) as u64
    }
}

/// How often something was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptCounts {
    /// Extents that were kept when they were read.
    pub hits: u64,
    /// Extents that the service was asked for.
    pub misses: u64,
    /// Extents that were given up for others.
    pub given_up: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Kept {
    client: Client,
    policy: Box<dyn Policy>,
    /// Bytes that may be kept, and that are.
    limit: u64,
    held: u64,
    by_name: HashMap<(Identity, u64), Key>,
    extents: Vec<Option<Extent>>,
    free: Vec<Key>,
    counts: KeptCounts,
}

impl Kept {
    /// Keeps what this policy wants of what is read, up to half of the program's share.
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn new(mut client: Client, policy: Box<dyn Policy>) -> Result<Self> {
        let limit = client.statistics()?.share / KEPT_PART;
        Ok(Self {
            client,
            policy,
            limit,
            held: 0,
            by_name: HashMap::new(),
            extents: Vec::new(),
            free: Vec::new(),
            counts: KeptCounts::default(),
        })
    }

    /// Keeps this many bytes at most, in whole buffers, from the next read on.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// How often something was there.
    pub fn counts(&self) -> KeptCounts {
        self.counts
    }

    /// Opens a file that this process has open for reading; the status is why the program has to read it by itself.
    ///
    /// # Errors
    ///
    /// The kernel does not tell of the file; or the service has ended, does not answer, or does not do as agreed.
    pub fn open(&mut self, descriptor: impl AsFd) -> Result<Result<KeptFile, Status>> {
        let identity = || {
            let found = fstat(&descriptor).refused("cannot look at a file")?;
            Ok::<_, Error>(Identity {
                device: found.st_dev,
                inode: found.st_ino,
                version: Version::of(&found),
            })
        };
        let before = identity()?;
        let file = match self.client.open(&descriptor)? {
            Opened::Shared(file) => file,
            Opened::Not(status) => return Ok(Err(status)),
        };
        if identity()? != before {
            // Which of the two the service has opened is not known.
            self.client.close(file)?;
            return Ok(Err(Status::Changed));
        }
        Ok(Ok(KeptFile { file, is: before }))
    }

    /// A file is not read any more. What is kept of it stays, for when it is opened again.
    ///
    /// # Errors
    ///
    /// The service has ended, does not answer, or does not do as agreed.
    pub fn close(&mut self, file: KeptFile) -> Result<()> {
        self.client.close(file.file)
    }

    /// Bytes of a file from `offset` on, at most `len` and as many as are in one extent; none behind its end.
    ///
    /// # Errors
    ///
    /// As [`Client::read_at`]; [`Status::Share`] only where something else fills the share, which takes the service a second to say: less is kept from then on.
    pub fn read_at(&mut self, file: &KeptFile, offset: u64, len: usize) -> Result<Aggregate> {
        if offset >= file.is.version.len {
            return Ok(Aggregate::new());
        }
        let extent = offset / EXTENT_LEN as u64;
        let mut bytes = self.extent(file, extent)?;
        let within = (offset % EXTENT_LEN as u64) as usize;
        if within > 0 {
            bytes = bytes.split(within);
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn extent(&mut self, file: &KeptFile, extent: u64) -> Result<Aggregate> {
        let name = (file.is, extent);
        if let Some(key) = self.by_name.get(&name).copied() {
            let there = self.extents[key.index()].as_mut().expect("it has a name");
            there.uses = (there.uses + 1).min(USES_MAX);
            let bytes = there.bytes.clone();
            self.policy.used(key);
            self.counts.hits += 1;
            return Ok(bytes);
        }
        let start = extent * EXTENT_LEN as u64;
        let len = (file.is.version.len - start).min(EXTENT_LEN as u64);
        let taken = len.next_multiple_of(BUFFER_LEN as u64);
        let bytes = loop {
            // What is read has room beside what is kept already while it is read.
            if taken <= self.limit {
                self.give_up_for(taken);
            }
            match self.client.read_at(&file.file, start, EXTENT_LEN) {
                Err(Error::Refused(Status::Share)) if self.held > 0 => {
                    // Others have the rest of the share.
                    let limit = std::mem::replace(&mut self.limit, self.held);
                    self.give_up_for(taken);
                    self.limit = limit.min(self.held + taken);
                }
                read => break read?,
            }
        };
        self.counts.misses += 1;
        self.keep(name, &bytes);
        Ok(bytes)
    }

    fn keep(&mut self, name: (Identity, u64), bytes: &Aggregate) {
        let wanted = (name.0.version.len - name.1 * EXTENT_LEN as u64).min(EXTENT_LEN as u64);
        let extent = Extent {
            name,
            bytes: bytes.clone(),
            uses: 1,
        };
        let taken = extent.taken();
        // A part of an extent is not one.
        if bytes.len() as u64 != wanted || taken > self.limit {
            return;
        }
        self.give_up_for(taken);
        let key = self.free.pop().unwrap_or_else(|| {
            self.extents.push(None);
            Key::new(self.extents.len() as u32 - 1)
        });
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        self.held += taken;
        self.by_name.insert(name, key);
        self.extents[key.index()] = Some(extent);
        self.policy.admitted(Newcomer {
            key,
            name: hasher.finish(),
            bytes: taken,
            is_asked_for: true,
        });
    }

    /// Lets go of as much as there has to be room for.
    fn give_up_for(&mut self, bytes: u64) {
        while self.held + bytes > self.limit && self.give_up() {}
    }

    /// Lets go of what the policy says; false where nothing is kept.
    fn give_up(&mut self) -> bool {
        let extents = &mut self.extents;
        let victim = self.policy.victim(&mut |key: Key| {
            let extent = extents[key.index()].as_mut();
            std::mem::take(&mut extent.expect("the policy knows of it").uses)
        });
        let Some(key) = victim else { return false };
        let gone = self.extents[key.index()].take().expect("it is kept");
        self.held -= gone.taken();
        self.by_name.remove(&gone.name);
        self.free.push(key);
        self.counts.given_up += 1;
        true
    }
}
