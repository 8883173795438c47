//! Answers of upstreams that are kept.

use std::time::Duration;

use super::requests::CLIENT_SHARE;

/// The longest content of an answer that is kept, by default: what is longer is seldom asked for often, and is gathered in memory while it comes.
pub const ANSWER_LEN: u64 = 4 * 1024 * 1024;

/// The longest content of an answer that may be kept at all: it is gathered in memory.
pub const ANSWER_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Answers that are coming and may be kept take no more memory of a core than this: some of the longest at once.
pub const GATHERED_LEN_MAX: usize = 128 * 1024 * 1024;

/// Of that, those for one client: another one's pace is not to keep all answers from being kept.
pub const GATHERED_PEER_LEN_MAX: usize = GATHERED_LEN_MAX / CLIENT_SHARE;

/// What the answers of a rule may take of the cache, in hundredths, by default: documents have as much.
pub const ANSWER_SHARE_PERCENT: u8 = 50;

/// How long an answer may be fresh: what says more says "for ever".
pub const ANSWER_FRESH_TIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Lines of fields of an answer that is kept: more is made to fill memory.
pub const ANSWER_LINES_LEN_MAX: usize = 8 * 1024;

/// The longest head of a kept answer that a core keeps for the next response of its second: most have some hundred bytes.
pub const ANSWER_MADE_LEN_MAX: usize = 1024;

/// The longest key of an answer, host and target above all.
pub const ANSWER_KEY_LEN_MAX: usize = 4 * 1024;

/// Fields of requests that an answer may depend on.
pub const VARY_NAMES_MAX: usize = 8;

/// How long their values may be together.
pub const VARY_LEN_MAX: usize = 1024;

/// Answers to one target that depend on fields of requests: languages by codings.
pub const VARIANTS_MAX: usize = 16;

/// Requests of a loop's own to upstreams at once, for what clients are given stale. Beyond, the clients ask, and wait.
pub const REFRESHES_MAX: usize = 16;

/// How many times as long as its upstream may be silent a request of the server's own may take.
pub const REFRESH_TIMES: u32 = 10;

/// How long a request waits for the answer to another one, as nginx's `proxy_cache_lock_timeout`. Then it goes to the upstream itself.
pub const ANSWER_WAIT_TIME: Duration = Duration::from_secs(5);

/// How long nobody waits for an answer to a target whose last one was none to be kept.
pub const PASS_TIME: Duration = Duration::from_secs(2);

/// Such targets that are known to a core.
pub const PASSES_MAX: usize = 4096;

/// What a core wants done about answers, and the thread that does it has not taken: more is not kept.
pub const ERRANDS_MAX: usize = 1024;

/// Bytes of content that these have together.
pub const ERRANDS_LEN_MAX: usize = 64 * 1024 * 1024;

/// Errands on their way to that thread: more wait in the loop.
pub const ERRANDS_QUEUED: usize = 32;

/// Keys that were forgotten and are remembered: as many as may be forgotten while an answer is on its way. Where nobody knows, it is not kept.
pub const FORGOTTEN_MAX: usize = 4096;
