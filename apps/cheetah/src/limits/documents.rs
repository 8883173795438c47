//! A site's documents: what is held of them, how changes are followed, and how long ones are read.

use std::time::Duration;

use super::requests::QUEUE_LEN_MAX;

/// The longest document held in memory by default; longer ones are read while they are sent. Reading costs a copy for
/// each time that it is sent, which is what a socket costs at its best; holding costs memory for good.
pub const MEMORY_LEN: u64 = 8 * 1024 * 1024;

/// The longest document that may be held in memory: reading and summing it takes the thread that follows files most
/// of a second. Its response also has to fit one buffer, whose positions have 32 bits: see
/// [`exos_buf::limits::BUFFER_LEN_MAX`].
pub const MEMORY_LEN_MAX: u64 = 512 * 1024 * 1024;

/// The smallest cache: with less, every document would be read for every request.
pub const CACHE_LEN_MIN: u64 = 1024 * 1024;

/// The cache where the kernel does not tell how much memory there is.
pub const CACHE_LEN_WITHOUT_MEMINFO: u64 = 256 * 1024 * 1024;

/// Names in the listing of one directory: a page of some 1.5 MB, made in about 5 ms while others wait.
/// People look for nothing in longer lists.
pub const LISTING_NAMES_MAX: usize = 10_000;

/// Files in a site by default. At some 500 bytes each besides their contents: 250 MB.
pub const SITE_FILES_MAX: usize = 500_000;

/// Directories inside one another. Linux paths end at 4,096 bytes; people stop well before 64.
pub const SITE_DEPTH_MAX: usize = 64;

/// Header fields that rules add to a document's response: a long Content-Security-Policy takes 2 KiB.
/// With the rest they fit the 8 KiB that clients and proxies take for a response's head at least.
pub const MORE_FIELDS_LEN_MAX: usize = 4 * 1024;

/// Room for the header fields of a response before its body in one buffer: our own, and twice those
/// of rules, which stand for 200 and for 304; and all of it once more for HTTP/2.
pub const RESPONSE_FIELDS_LEN_MAX: usize = 2 * (1024 + 2 * MORE_FIELDS_LEN_MAX);

const _: () = assert!(
    MEMORY_LEN_MAX + RESPONSE_FIELDS_LEN_MAX as u64 <= exos_buf::limits::BUFFER_LEN_MAX as u64,
    "a document and its fields fit one buffer"
);

/// Rules for header fields in one site: those that match a path are the bits of a word.
pub const FIELD_RULES_MAX: usize = 64;

/// Sets of rules whose text is kept. A path matches at most one prefix of each length and one suffix of each, so
/// there are few; what is beyond is put together again.
pub const RULE_SETS_MAX: usize = 1024;

/// Redirects with a star in one site: a path at which there is nothing is compared with each.
pub const STAR_REDIRECTS_MAX: usize = 1000;

/// How often a file is read again because somebody wrote to it meanwhile, before it is left until
/// later: who writes for longer than three readings take goes on.
pub const READS_MAX: usize = 3;

/// How long a file must have stayed the same before it is read without its writer having closed it: a
/// writer that pauses for longer has the file served as it is.
pub const SETTLE_TIME: Duration = Duration::from_secs(1);

/// How long a file may change before it is read as it is: a log without an end is ten seconds old.
pub const SETTLE_TIME_MAX: Duration = Duration::from_secs(10);

/// Paths to be looked at, of which more are known than the kernel queues notices by default (16,384),
/// before all are: some 100 bytes each.
pub const DIRTY_MAX: usize = 65_536;

/// Between two examinations of everything, where the kernel does not tell of changes: some seconds of
/// a thread for half a million files.
pub const RESCAN_TIME: Duration = Duration::from_secs(60);

/// Requests for documents that are not in memory on their way to the thread that reads: more wait in the loop.
pub const FETCHES_QUEUED: usize = 256;

/// Documents that are read before changes are looked for again: some milliseconds of a disk that is asked one thing at a
/// time.
pub const FETCHES_AT_ONCE: usize = 64;

/// What one document may have of the cache, as a part of it, if others have to go for it: a tenth. Longer ones are read for
/// who waits for them and not kept.
pub const CACHE_LARGE_PART: u64 = 10;

/// The shortest document that comes from a file cache that processes share: there it takes a buffer of 16 KiB, which is less than copies of it take
/// only where more than four servers have it. It leaves with its head as one piece, too.
pub const LENT_LEN_MIN: u64 = 4 * 1024;

/// What one document may have of what is kept there, as a part of it, if others have to go for it. That is less than a cache has, as a rule.
pub const LENT_LARGE_PART: u64 = 4;

/// What a document in the cache takes beside its bytes: what is known of it in the tables of loop and store.
pub const DOCUMENT_OVERHEAD_LEN: u64 = 512;

/// Documents on their way out of memory that are looked at whenever one comes in: more than have to go for one.
pub const LEAVING_SWEPT: usize = 32;

/// The buffer for notices: two hundred of the longest names at once.
pub const NOTICES_LEN: usize = 64 * 1024;

/// Changes on their way to the event loop, which takes as many in a turn: with a microsecond or two for
/// each, a turn becomes as long as if some packets more had come.
pub const CHANGES_QUEUED: usize = 16;

/// The longest rest of the thread that follows changes, after it has worked for as long.
pub const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Bytes of a long file that are read at once, and that connections share.
pub const CHUNK_LEN: usize = 64 * 1024;

/// Chunks that are read for a response beyond what is under way to its client: one that is sent, and one behind it.
pub const REACH_MIN: usize = 2;

/// Chunks that are read ahead for a client that has had to wait for the disk again and again: the whole send queue.
pub const REACH_MAX: usize = QUEUE_LEN_MAX / CHUNK_LEN;

/// What all chunks of long files may take by default.
pub const CHUNKS_LEN: u64 = 256 * 1024 * 1024;

/// What they have to be given at least: some chunks for one connection, and some for those that come.
pub const CHUNKS_LEN_MIN: u64 = 1024 * 1024;

/// Chunks that nobody needs are kept, for others who read the same, until there are more than these: 2 MiB. Beyond that
/// the oldest is written again, whose memory the processor's caches are likely to know.
pub const CHUNKS_IDLE: usize = 32;

/// Chunks that are asked for in one turn. What the kernel has in memory it copies there and then, 1 MiB in some 100 µs,
/// while others wait.
pub const READS_AT_ONCE: usize = 16;
