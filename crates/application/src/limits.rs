//! The limits of this crate, each with its reason.

use std::time::Duration;

/// Content of an answer that an application may send before the server gives it more room: a page of 200 KB goes at once, and a client
/// that takes nothing costs the server no more than that.
pub const CONTENT_ROOM: usize = 256 * 1024;

/// Bytes of a request's body that a server may send before the application gives it more room: as much as a socket takes.
pub const BODY_ROOM: usize = 64 * 1024;

/// The longest variables of a request: those of a head of 32 KiB, whose names and paths are said more than once.
pub const VARIABLES_LEN_MAX: usize = 256 * 1024;

/// The longest head of an answer: several times the cookies and policies that browsers take.
pub const HEAD_LEN_MAX: usize = 32 * 1024;

/// Heads of an application that have numbers on a link: a site has few that are sent often. What is more takes the place of another.
pub const HEADS_MAX: usize = 32;

/// The longest head that has a number: what is longer is mostly another each time.
pub const NUMBERED_LEN_MAX: usize = 2048;

/// Bytes that all requests of an application hold of its memory, in variables and in bodies that were not read or are kept: as much as some
/// thousand small uploads, or some large ones. What is beyond is answered with 503.
pub const REQUESTS_LEN_MAX: usize = 256 * 1024 * 1024;

/// What a request costs an application beside that: its entry, and its answer's.
pub const REQUEST_COST: usize = 1024;

/// The longest body that an application keeps whole for its answer. What takes longer ones reads them as they come.
pub const KEPT_BODY_LEN_MAX: usize = 64 * 1024 * 1024;

/// What an application says to the operator about one request, until that is taken: 16 lines of a kilobyte. The rest is left out.
pub const SAID_LEN_MAX: usize = 16 * 1024;

/// Pieces of content that are shorter are put together by a copy: a reference to each costs as much.
pub const GATHERED_LEN_MAX: usize = 2048;

/// Bytes that are put together into one piece at most.
pub const GATHER_LEN_MAX: usize = 64 * 1024;

/// Pieces that an application keeps are remembered from this length on: looking for a shorter one costs more than its copy.
pub const KEPT_LEN_MIN: usize = 512;

/// Bytes of an application's kept pieces that a server remembers for a link: what a site's templates have.
pub const KEPT_TOTAL_MAX: usize = 32 * 1024 * 1024;

/// Pieces that an application keeps and that have numbers on a link: a site has some that are in most of its pages. A server remembers these
/// beside the others.
pub const PIECES_MAX: usize = 32;

/// The longest piece that has a number: a buffer. What a reference costs is nothing beside that.
pub const NUMBERED_PIECE_LEN_MAX: usize = 64 * 1024;

/// What a remembered piece costs beside its bytes: its entry, and its buffer.
pub const KEPT_COST: usize = 192;

/// Descriptors under way to an application: requests are put together, so each is many.
pub const REQUEST_SLOTS: usize = 64;

/// Descriptors under way to a server: some hundred answers.
pub const ANSWER_SLOTS: usize = 512;

/// Buffers of 64 KiB of which a server sends requests and bodies: as many as bodies of all requests at once are likely to want.
pub const REQUEST_BUFFERS: u32 = 128;

/// Bytes of records that are put together into one draft.
pub const DRAFT_LEN: usize = 32 * 1024;

/// Bytes of records that are put together for a pipe while nothing waits in front of them. What is behind waits with its request,
/// and goes with it: a peer that reads nothing costs no more than what its requests are, as long as somebody wants their answers.
pub const OUTGOING_LEN_MAX: usize = 256 * 1024;

/// Requests on a link at once: their numbers say where their entries are. Servers have some thousand at most.
pub const REQUESTS_MAX: usize = (1 << 14) - 1;

/// Requests of an application that are over and whose memory waits for others, of a link, and how much of it for variables: as many as are under way
/// at once where pages take no time.
pub const SPARES_MAX: usize = 64;

/// The most memory for variables that such a one keeps.
pub const SPARE_LEN_MAX: usize = 2048;

/// Links that wait to begin at an application: more servers than have loops.
pub const BEGINNING_MAX: usize = 64;

/// How long a server may take to say what makes a link: it says all at once, whatever it does besides.
pub const BEGINNING_TIME: Duration = Duration::from_secs(2);

/// When to try again where no buffer is left for what is to be sent: those who have some do not say when they let go of them.
pub const SHORT_PAUSE: Duration = Duration::from_millis(5);

/// Links to an application at once: members of its pool.
pub const LINKS_MAX: usize = 48;

/// Bytes of a link's records that are taken in one look, at either end: all else of its loop waits as long.
pub const LOOK_LEN_MAX: usize = 1024 * 1024;

/// Records of one look: as many as there are in that of pages of a kilobyte, or of requests.
pub const LOOK_RECORDS_MAX: usize = 1024;

/// How long an application waits before it accepts again when no descriptor was left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often an application that always has something to hear looks who connects, in turns.
pub const LOOKS_EVERY: u32 = 64;
