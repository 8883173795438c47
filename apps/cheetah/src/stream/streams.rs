//! All long files of a thread: what is being opened and read, for whom, and who waits for memory.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use exos_buf::Buffer;
use exos_host::uring::{Outcome, Request};
use exos_inet::tcp::ConnectionId;

use super::chunks::{Chunks, Slot, Taken};
use super::disk::Disk;
use crate::limits::{CHUNK_LEN, CHUNKS_LEN};
use crate::site::Wanted;
use crate::site::long::{Long, OpenFile};

/// What has come of something.
#[derive(Debug)]
pub enum Done {
    /// A file is open, for as long as somebody holds it. Requests for the document at this place may go on.
    Opened(Wanted, Rc<OpenFile>),
    /// A file could not be opened. One that is another version by now is not told of: its place will change.
    Failed(Wanted),
    /// A chunk is there that these connections wait for.
    Filled(Vec<ConnectionId>),
    /// These connections cannot be sent what they were promised.
    Lost(Vec<ConnectionId>),
}

/// What the disk is doing.
enum Job {
    Open(Wanted, Rc<Long>),
    Read(Slot, Rc<OpenFile>),
    Close,
}

#[derive(Debug, Default)]
struct Counters {
    chunks: u64,
    bytes: u64,
    shared: u64,
    waits: u64,
    opened: u64,
    failures: u64,
    changed: u64,
}

/// The long files of a thread.
pub struct Streams {
    disk: Disk,
    chunks: Chunks,
    /// By tag.
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    opening: HashSet<*const Long>,
    /// Connections that hold nothing and wait for memory.
    hungry: VecDeque<ConnectionId>,
    counters: Counters,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams::new(Disk::here(), CHUNKS_LEN)
    }
}

impl Streams {
    /// Nothing is read yet. Chunks may take this many bytes of memory, at least one.
    pub fn new(disk: Disk, memory_len: u64) -> Streams {
        let chunks = memory_len / CHUNK_LEN as u64;
        Streams {
            disk,
            chunks: Chunks::new(
                usize::try_from(chunks)
                    .unwrap_or(usize::MAX)
                    .min(u32::MAX as usize),
            ),
            jobs: Vec::new(),
            free: Vec::new(),
            opening: HashSet::new(),
            hungry: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    fn start(&mut self, job: Job, request: Request) {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.jobs.push(None);
            self.jobs.len() - 1
        });
        self.jobs[tag] = Some(job);
        self.disk.queue(tag as u64, request);
    }

    /// Has a file opened, once however many want it.
    pub fn open(&mut self, place: Wanted, long: Rc<Long>) {
        if self.opening.insert(Rc::as_ptr(&long)) {
            let request = long.file().open();
            self.start(Job::Open(place, long), request);
        }
    }

    /// Takes a chunk of a file for a connection that holds `held` others; `None` when it has to wait until one of these
    /// or of others is released, of which it will hear if it holds none. `is_first` says that it has waited.
    pub fn ask(
        &mut self,
        file: &Rc<OpenFile>,
        number: u64,
        who: ConnectionId,
        held: usize,
        is_first: bool,
    ) -> Option<Slot> {
        let key = (*file.version(), number);
        let taken = match self.chunks.take(&key, who) {
            Some(taken) => {
                self.counters.shared += 1;
                taken
            }
            None if self.may_make(held, is_first) => self.chunks.make(key, who)?,
            None => return None,
        };
        Some(match taken {
            Taken::Ready(slot) | Taken::Reading(slot) => slot,
            Taken::New(slot, buffer) => {
                let offset = number * CHUNK_LEN as u64;
                let len = (file.version().len - offset).min(CHUNK_LEN as u64) as usize;
                let request = Request::Read {
                    file: file.fd().clone(),
                    offset,
                    len,
                    buffer,
                };
                self.counters.chunks += 1;
                self.counters.bytes += len as u64;
                self.start(Job::Read(slot, file.clone()), request);
                slot
            }
        })
    }

    /// A connection may hold as many chunks as are free for everybody.
    fn may_make(&self, held: usize, is_first: bool) -> bool {
        let free = self.chunks.free();
        match held {
            0 => free > 0 && (is_first || self.hungry.is_empty()),
            _ => held < free.saturating_sub(self.hungry.len()),
        }
    }

    /// A connection that holds nothing waits for memory; it is told by [`Streams::feed`].
    pub fn hunger(&mut self, who: ConnectionId) {
        self.counters.waits += 1;
        self.hungry.push_back(who);
    }

    /// The next connection that waits for memory, if there is some.
    pub fn feed(&mut self) -> Option<ConnectionId> {
        let is_free = self.chunks.free() > 0;
        self.hungry.pop_front_if(|_| is_free)
    }

    /// How many connections wait for memory.
    pub fn hungry(&self) -> usize {
        self.hungry.len()
    }

    /// The bytes of a chunk that was taken, when they are there.
    pub fn buffer(&self, slot: Slot) -> Option<&Buffer> {
        self.chunks.buffer(slot)
    }

    /// A chunk that was taken is not needed any more.
    pub fn release(&mut self, slot: Slot) {
        self.chunks.release(slot);
    }

    /// A response does not need its file any more; the last one closes it.
    pub fn put_away(&mut self, file: Rc<OpenFile>) {
        if let Some(file) = Rc::into_inner(file) {
            self.close(file.into_fd());
        }
    }

    /// Closes a file if nobody else has it, and not here: closing may take long.
    fn close(&mut self, file: Arc<OwnedFd>) {
        if let Some(file) = Arc::into_inner(file) {
            self.start(Job::Close, Request::Close { file });
        }
    }

    /// Starts what has been asked for.
    pub fn submit(&mut self) {
        self.disk.submit();
    }

    /// The next of what has come.
    pub fn poll(&mut self) -> Option<Done> {
        loop {
            let (tag, outcome) = self.disk.poll()?;
            let job = self.jobs.get_mut(tag as usize).and_then(Option::take);
            self.free.push(tag as usize);
            match (job, outcome) {
                (Some(Job::Open(place, long)), Outcome::Opened(opened)) => {
                    if let Some(done) = self.opened(place, &long, opened) {
                        return Some(done);
                    }
                }
                (Some(Job::Read(slot, of)), Outcome::Read { file, buffer, read }) => {
                    let done = self.read(slot, &of, buffer, read);
                    self.put_away(of);
                    self.close(file);
                    return Some(done);
                }
                _ => {}
            }
        }
    }

    fn opened(
        &mut self,
        place: Wanted,
        long: &Rc<Long>,
        opened: io::Result<OwnedFd>,
    ) -> Option<Done> {
        self.opening.remove(&Rc::as_ptr(long));
        match opened.and_then(|fd| OpenFile::new(long.file(), fd)) {
            Ok(Some(file)) => {
                self.counters.opened += 1;
                let file = Rc::new(file);
                long.set_open(&file);
                Some(Done::Opened(place, file))
            }
            // Another file has its name, or none has: anyone who follows the directory tells of that soon.
            Ok(None) => None,
            Err(e) if is_another(&e) => None,
            Err(_) => {
                self.counters.failures += 1;
                Some(Done::Failed(place))
            }
        }
    }

    fn read(
        &mut self,
        slot: Slot,
        file: &OpenFile,
        memory: Box<[u8]>,
        read: io::Result<()>,
    ) -> Done {
        let error = read.err().map(|e| e.kind());
        if error.is_none() && file.is_unchanged() {
            return Done::Filled(self.chunks.filled(slot, memory));
        }
        // A file that ends early has become shorter.
        match error {
            None | Some(io::ErrorKind::UnexpectedEof) => self.counters.changed += 1,
            Some(_) => self.counters.failures += 1,
        }
        Done::Lost(self.chunks.lost(slot, memory))
    }

    /// Nothing is asked for, under way, or waited for.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way() == 0 && self.hungry.is_empty()
    }

    /// Requests that the disk has not done yet, or that nobody has looked at since.
    pub fn under_way(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// How many chunks more can be made.
    pub fn free(&self) -> usize {
        self.chunks.free()
    }

    /// True when the next turn has something to do.
    pub fn is_waiting(&mut self) -> bool {
        self.disk.is_waiting()
    }

    /// Readable when something has come.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.disk.fd()
    }

    /// Bytes of memory that chunks take.
    pub fn memory_len(&self) -> usize {
        self.chunks.memory_len()
    }

    /// What was done, by name.
    pub fn counters(&self) -> [(&'static str, u64); 7] {
        [
            ("stream_chunks", self.counters.chunks),
            ("stream_bytes", self.counters.bytes),
            ("stream_chunks_shared", self.counters.shared),
            ("stream_memory_waits", self.counters.waits),
            ("stream_files_opened", self.counters.opened),
            ("stream_failures", self.counters.failures),
            ("stream_files_changed", self.counters.changed),
        ]
    }
}

/// Whether a file could not be opened because it is not there any more.
fn is_another(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let error = Errno::from_io_error(error);
    matches!(
        error,
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
    )
}
