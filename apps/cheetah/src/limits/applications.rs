//! Applications, by FastCGI and by shared buffers.

use std::time::Duration;

/// How long an application may say nothing by default: nginx's `fastcgi_read_timeout`.
pub const APPLICATION_TIME: Duration = Duration::from_secs(60);

/// The longest body that a configuration may let through, a terabyte: more than that is a slip of the pen.
pub const APPLICATION_BODY_LEN_MAX: u64 = 1 << 40;

/// The longest time that it may be given: no visitor waits for longer.
pub const APPLICATION_TIME_MAX: Duration = Duration::from_secs(3600);

/// The longest body of a request to an application by default: PHP's `post_max_size`.
pub const APPLICATION_BODY_LEN: u64 = 8 * 1024 * 1024;

/// What of a body has to be there before an application is asked, if it is longer: so those who send slowly keep none of
/// its processes busy for what is short.
pub const BODY_BEGUN_LEN: u64 = 16 * 1024;

/// Bytes of a body on their way to an application that its socket has not taken.
pub const BODY_QUEUE_LEN: usize = 64 * 1024;

/// Connections to an application at once by default, for each loop.
pub const APPLICATION_CONNECTIONS: usize = 64;

/// The most that may be configured: descriptors for as many clients are left.
pub const APPLICATION_CONNECTIONS_MAX: i64 = 4096;

/// Requests that wait for a connection to an application: what it answers in some seconds. More are answered with 503.
pub const APPLICATION_WAITING_MAX: usize = 1024;

/// Requests at once, of all loops, of an application of this host that has a process for each, which are more where that answers more. Of php-fpm's
/// rate for a small page 4 gave 0.9 of what 16 gave, 32 as much, 64 two thirds; so some are left for a machine with more cores.
pub const APPLICATION_AT_ONCE_MIN: usize = 16;

/// Requests wait, and such an application has answered none for so long: it waits for something else, and may have more. It answers in a tenth of that
/// where it has small pages.
pub const APPLICATION_STALL_TIME: Duration = Duration::from_millis(1);

/// How long a request waits before it asks again an application whose queue of connections is full.
pub const APPLICATION_RETRY_TIME: Duration = Duration::from_millis(10);

/// How long an application that shares its buffers is left alone when it failed without an answer, for the first time.
pub const LINK_REST_TIME: Duration = Duration::from_millis(10);

/// The longest such rest, after several failures: as long as it takes to start again.
pub const LINK_REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Links to an application that stops, beside the one to what follows it: one that is started again and again, or says that it stops and does
/// not, costs no link for each request.
pub const STOPPING_LINKS_MAX: usize = 2;

/// What an application may have sent and no client taken, beside what is queued for that client: one read.
pub const APPLICATION_READ_LEN: usize = 64 * 1024;

/// Room for what the head of an application's answer has beside its fields: an opening of some 80 bytes and the framing. It grows where it is more.
pub const OPENING_LEN: usize = 192;

/// Content of an application's that is copied behind the head of its response: a few segments, for which a buffer of its own costs
/// as much.
pub const JOINED_LEN_MAX: usize = 4 * 1024;

/// Memory for what an application is asked that is used again: browsers say some kilobytes.
pub const WORDS_LEN_KEPT: usize = 16 * 1024;

/// The longest head of an application's answer: several times the cookies and policies that browsers take.
pub const APPLICATION_HEAD_LEN_MAX: usize = 32 * 1024;

/// Heads of answers over shared buffers that are remembered as they are told to clients: a site has few that come again and again.
pub const HEADS_REMEMBERED: usize = 64;

/// Answers with one head and content of one length, one behind the other, from which on what is said of them is made ready: two lengths that come by
/// chance make it for one answer of a hundred.
pub const LENGTHS_ALIKE: u32 = 8;

/// Fields in the head of an application's answer.
pub const APPLICATION_FIELDS_MAX: usize = 128;

/// A line that an application says to the operator.
pub const WARNING_LEN_MAX: usize = 1024;

/// Lines that it may say about one request; others are left out.
pub const WARNINGS_MAX: usize = 16;

/// The longest name of a Unix socket (unix(7)), with the byte that ends it.
pub const UNIX_NAME_LEN_MAX: usize = 107;

/// Rules about applications in a site: each is compared with the path of each request.
pub const APPLICATION_RULES_MAX: usize = 64;

/// Names and values of the variables that a rule adds to each request, together.
pub const APPLICATION_PARAMETERS_LEN_MAX: usize = 4096;
