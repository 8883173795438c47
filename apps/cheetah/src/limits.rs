//! The limits of the web server, each with its reason.

use std::time::Duration;

/// The longest request line, method and version included: what nginx and Apache allow, and more
/// than any browser's address bar sends. Beyond it the answer is 414.
pub const REQUEST_LINE_LEN_MAX: usize = 8 * 1024;

/// The longest request head. It must fit the TCP receive buffer whole, because an unfinished head
/// stays there: a connection has no buffer of its own. Beyond it the answer is 431.
pub const HEAD_LEN_MAX: usize = 16 * 1024;

/// What a connection may have received and not yet been answered: four of the longest heads. Clients
/// that send requests and read no answers fill it, so it bounds what each of them costs us.
pub const RECEIVE_BUFFER_LEN: u32 = 64 * 1024;

const _: () = assert!(
    HEAD_LEN_MAX <= RECEIVE_BUFFER_LEN as usize,
    "the longest head fits the receive buffer"
);

/// Header fields in one request. Browsers send about 20; Apache allows 100.
pub const FIELDS_MAX: usize = 64;

/// An unfinished head up to this length is parsed afresh with every segment, which answers a bad
/// one early; a longer one only when another line has ended, so that a client which sends byte
/// by byte cannot have kilobytes parsed for each.
pub const REPARSE_FREELY_LEN: usize = 1024;

/// The longest request body that is read and dropped so that the connection can go on: about
/// what an initial window brings. For more, the connection closes after the answer.
pub const BODY_SKIP_LEN_MAX: u64 = 64 * 1024;

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
const _: () = assert!(
    REQUEST_LINE_LEN_MAX < HEAD_LEN_MAX,
    "414 is reached before 431"
);

/// How long a request's head may take from its first byte (or a connection's first request from
/// the connection's beginning): nginx's `client_header_timeout` is 60 s, Apache's 20 to 40 s.
pub const REQUEST_TIME: Duration = Duration::from_secs(20);

/// How long a connection may idle between requests: nginx's `keepalive_timeout`.
pub const IDLE_TIME: Duration = Duration::from_secs(75);

/// How long a response may make no progress: nginx's `send_timeout`.
pub const SEND_TIME: Duration = Duration::from_secs(60);

/// How long a request waits for its document to be read: what a disk takes that is asked for far too
/// much. Then the answer is 503.
pub const FETCH_TIME: Duration = Duration::from_secs(30);

/// How long a response waits for its next part to be read, or for memory to read it into: so long that those who hold
/// memory and take nothing of their responses are given up before.
pub const READ_TIME: Duration = Duration::from_secs(90);

const _: () = assert!(
    READ_TIME.as_secs() > SEND_TIME.as_secs(),
    "anyone who waits comes to have memory"
);

/// How long a connection that we have finished waits for the client to finish too: nginx's
/// `lingering_time`.
pub const LINGER_TIME: Duration = Duration::from_secs(30);

/// How long a stop lets in who has begun to connect, when others share the port and have what is new: some round trips.
pub const LAST_CONNECTS_TIME: Duration = Duration::from_millis(200);

/// How long a stop waits for clients to answer our FIN, after the last response, before they are reset: a few round trips.
pub const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Connections reset in one go: a quarter of the answers that a stack queues.
pub const ABORTS_AT_ONCE: usize = exos_inet::limits::REPLIES_MAX / 4;

/// How long a loop waits before it tries again an interface that has failed, where others are served meanwhile: clients do not
/// notice so short a wait, and it costs ten attempts a second.
pub const OUTAGE_PAUSE: Duration = Duration::from_millis(100);

/// The shortest such sleep, where something is due: what it cannot send meanwhile keeps no core busy.
pub const OUTAGE_PAUSE_MIN: Duration = Duration::from_millis(1);

/// How long a stop waits for responses under way, unless the operator says how long.
pub const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// The longest that an operator can have it wait: a day.
pub const SHUTDOWN_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Response bytes queued on one connection before further pipelined requests wait. The bytes are
/// references to documents; the bound is for what a client can make us remember.
pub const QUEUE_LEN_MAX: usize = 1024 * 1024;

/// What is left of a connection's window of HTTP/2 where nobody takes the bodies that have used it up: not much comes of that.
pub const WINDOW_REST_LEN: usize = 1024;

/// Requests of one connection that are answered in one turn: a receive buffer holds thousands that differ in nothing, and all other
/// connections would wait for their answers. It is more than what clients have under way: HTTP/2 allows 128 streams.
pub const REQUESTS_AT_ONCE: usize = 256;

/// Parts of a document in one answer. Players and download managers ask for one or a few; more is an
/// attack on servers that copy each (RFC 9110 §17.15).
pub const RANGES_MAX: usize = 32;

/// Bytes between two parts that are sent along, as one part: about what the head of a part takes.
pub const RANGE_GAP_LEN: u64 = 128;

/// How long no connection is accepted on sockets after the kernel had no descriptor for one: nginx's default is 500 ms, and
/// connections may end before.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The longest configuration file: some ten thousand redirects fit.
pub const CONFIG_LEN_MAX: u64 = 4 << 20;

/// Rules for header fields in one site: those that match a path are the bits of a word.
pub const FIELD_RULES_MAX: usize = 64;

/// Sets of rules whose text is kept. A path matches at most one prefix of each length and one suffix of each, so
/// there are few; what is beyond is put together again.
pub const RULE_SETS_MAX: usize = 1024;

/// Redirects with a star in one site: a path at which there is nothing is compared with each.
pub const STAR_REDIRECTS_MAX: usize = 1000;

/// Lines of the log that go to its writer at once; also the longest line.
pub const LOG_BUFFER_LEN: usize = 64 * 1024;

/// How long a line may wait for others to be written with.
pub const LOG_FLUSH_TIME: Duration = Duration::from_secs(1);

/// Buffers of lines that wait for a slow disk or reader: 4 MiB, some 40,000 lines. Further lines are left out.
pub const LOG_CHUNKS_MAX: usize = 64;

/// What the lines of responses under way may take, 32 MiB: some 70,000 responses. The lines of further ones are written
/// when these are queued instead of when they have been taken.
pub const LOG_UNFINISHED_LEN_MAX: usize = 32 * 1024 * 1024;

/// What is logged of a request's target at most: what most servers accept at all.
pub const LOG_LINE_LEN_MAX: usize = 4 * 1024;

/// What is logged of a header field at most.
pub const LOG_FIELD_LEN_MAX: usize = 1024;

/// How often it is said that lines are left out.
pub const LOG_TELL_TIME: Duration = Duration::from_secs(60);

const _: () = assert!(
    6 * (LOG_LINE_LEN_MAX + 4 * LOG_FIELD_LEN_MAX) + 1024 <= LOG_BUFFER_LEN,
    "the longest line, each byte written as six, fits a buffer"
);

/// How old what the status pages say may be.
pub const STATUS_TIME: Duration = Duration::from_secs(1);

/// Rates on the status page are taken over this many seconds.
pub const RATE_TIME: Duration = Duration::from_secs(10);

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

/// How long a client is watched before it is said to take its responses too slowly: long enough for a path that
/// loses packets to recover.
pub const READ_RATE_TIME: Duration = Duration::from_secs(20);

/// How long a head may take whatever its rate: several retransmissions of its first segment.
pub const HEAD_GRACE_TIME: Duration = Duration::from_secs(5);

/// How long a turn of the event loop may spend on a reload: what some hundred requests take.
pub const SLICE_TIME: Duration = Duration::from_micros(200);

/// Documents that come into a table, or go, before the clock is looked at again: some microseconds.
pub const CHANGES_AT_ONCE: usize = 16;

/// Rules about access in a site: each is compared with the path of each request.
pub const ACCESS_RULES_MAX: usize = 64;

/// Requests a second that a rule may allow: more than a core answers.
pub const RATE_MAX: i64 = 1_000_000;

/// Clients of which a rule remembers when they asked, some 40 bytes each.
pub const RATE_CLIENTS_MAX: usize = 65_536;

/// A file of passwords: some ten thousand users.
pub const PASSWORD_FILE_LEN_MAX: u64 = 1 << 20;

/// Wrong passwords that are known to be wrong, 32 bytes each.
pub const WRONG_PASSWORDS_MAX: usize = 1024;

/// Passwords that wait to be verified: at a tenth of a second each, the last waits less long than a document may.
pub const PASSWORDS_QUEUED: usize = 64;

/// Of those, how many may be of one client.
pub const PASSWORDS_OF_PEER: usize = 16;

/// A name and a password, in base64: some 380 bytes. A hash of more may take many times as long.
pub const CREDENTIALS_LEN_MAX: usize = 512;

/// Rounds of a bcrypt hash, as a power of two: about a second.
pub const BCRYPT_COST_MAX: u32 = 14;

/// Rounds of a SHA-crypt hash: about a second.
pub const SHA_ROUNDS_MAX: u32 = 1_000_000;

/// How often it is looked whether a file of passwords has changed.
pub const PASSWORD_FILE_TIME: Duration = Duration::from_secs(1);

/// A file that was written to less long ago may be written to still, within one tick of the file system's clock.
pub const PASSWORD_FILE_REST_TIME: Duration = Duration::from_millis(100);

/// How long an application may say nothing by default: nginx's `fastcgi_read_timeout`.
pub const APPLICATION_TIME: Duration = Duration::from_secs(60);

/// The longest body that a configuration may let through, a terabyte: more than that is a slip of the pen.
pub const APPLICATION_BODY_LEN_MAX: u64 = 1 << 40;

/// The longest time that it may be given: no visitor waits for longer.
pub const APPLICATION_TIME_MAX: Duration = Duration::from_secs(3600);

/// How long a request's body may make no progress: nginx's `client_body_timeout`.
pub const BODY_TIME: Duration = Duration::from_secs(60);

/// The longest body of a request to an application by default: PHP's `post_max_size`.
pub const APPLICATION_BODY_LEN: u64 = 8 * 1024 * 1024;

/// The longest body that may be chunked: it is kept in memory until it is whole, because an application wants to know its
/// length.
pub const CHUNKED_BODY_LEN_MAX: u64 = 1024 * 1024;

/// Chunked bodies that are collected at once, in each loop, and not yet handed on: more are answered with 503.
pub const COLLECTED_LEN_MAX: usize = 64 * 1024 * 1024;

/// One client has this part of what all have together of an application, that is a quarter, so that nobody takes the others' room.
pub const CLIENT_SHARE: usize = 4;

/// Of chunked bodies one client's: 16 of the longest.
pub const COLLECTED_PEER_LEN_MAX: usize = COLLECTED_LEN_MAX / CLIENT_SHARE;

/// What of a body has to be there before an application is asked, if it is longer: so those who send slowly keep none of
/// its processes busy for what is short.
pub const BODY_BEGUN_LEN: u64 = 16 * 1024;

/// Bytes of a body on their way to an application that its socket has not taken.
pub const BODY_QUEUE_LEN: usize = 64 * 1024;

/// The line before a chunk, its extensions included, which nobody sends.
pub const CHUNK_LINE_LEN_MAX: usize = 256;

/// Fields behind a chunked body: nobody sends more than a checksum and a status there.
pub const TRAILER_LEN_MAX: usize = 4 * 1024;

/// Connections to an application at once by default, for each loop.
pub const APPLICATION_CONNECTIONS: usize = 64;

/// The most that may be configured: descriptors for as many clients are left.
pub const APPLICATION_CONNECTIONS_MAX: i64 = 4096;

/// Requests that wait for a connection to an application: what it answers in some seconds. More are answered with 503.
pub const APPLICATION_WAITING_MAX: usize = 1024;

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

/// The longest head of an application's answer: several times the cookies and policies that browsers take.
pub const APPLICATION_HEAD_LEN_MAX: usize = 32 * 1024;

/// Fields in the head of an application's answer.
pub const APPLICATION_FIELDS_MAX: usize = 128;

/// A line that an application says to the operator.
pub const WARNING_LEN_MAX: usize = 1024;

/// Lines that it may say about one request; others are left out.
pub const WARNINGS_MAX: usize = 16;

/// The longest name of a Unix socket (unix(7)), with the byte that ends it.
pub const UNIX_NAME_LEN_MAX: usize = 107;

/// How long a connection to an upstream may take to come to stand: three SYNs, of which two are lost (RFC 6298).
pub const UPSTREAM_CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long nobody may say anything behind a change of protocol: a WebSocket pings more often.
pub const UPSTREAM_TUNNEL_TIME: Duration = Duration::from_secs(3600);

/// How long a connection to an upstream is kept without a request: less than most servers keep theirs, nginx's 75 s among them.
pub const UPSTREAM_KEEP_TIME: Duration = Duration::from_secs(60);

/// A connection that has idled for less carries requests that cannot be repeated: no server gives one up that soon.
pub const UPSTREAM_FRESH_TIME: Duration = Duration::from_secs(1);

/// How long others are asked instead of an upstream that has failed: nginx's `fail_timeout`.
pub const UPSTREAM_FAIL_TIME: Duration = Duration::from_secs(10);

/// How often an upstream is asked whether it is well, where it is: haproxy's and nginx's times are of this kind.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How long its answer may take.
pub const CHECK_TIME: Duration = Duration::from_secs(2);

/// Failures in a row that put an upstream out: one may be lost on the way.
pub const CHECK_FAILS: u32 = 3;

/// Successes in a row that put it in again.
pub const CHECK_PASSES: u32 = 2;

/// The most of either.
pub const CHECK_COUNT_MAX: i64 = 100;

/// Connections to an upstream at once by default, for each loop: they cost it a descriptor and no process.
pub const UPSTREAM_CONNECTIONS: usize = 512;

/// Connections to an upstream, for each loop, that have changed to another protocol and do not count as such; of these each client has
/// its share. A client has a connection here for each of its own, which limits of clients bound.
pub const TUNNELS_MAX: usize = 16_384;

/// Of the connections to an upstream, how many are kept open without a request.
pub const UPSTREAM_KEPT: usize = 64;

/// Upstreams of one rule: the bits of a word say which of them a request has tried.
pub const UPSTREAMS_MAX: usize = 64;

/// The longest header of the PROXY protocol: addresses, and what proxies say of a client's certificate beside.
pub const PROXY_HEADER_LEN_MAX: usize = 4 * 1024;

/// How long a proxy may take to say for whom it connects: it knows that when it does.
pub const PROXY_HEADER_TIME: Duration = Duration::from_secs(5);

/// Answers of 1xx before the last one: a server sends one or two.
pub const INTERIM_ANSWERS_MAX: usize = 16;

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

/// Rules about applications in a site: each is compared with the path of each request.
pub const APPLICATION_RULES_MAX: usize = 64;

/// Plaintext that is encrypted at once: two of the longest records, so that what leaves is few buffers, and what was given
/// together leaves together.
pub const SEALED_LEN: usize = 32 * 1024;

/// Records that wait on a connection to be sent: with more, nothing is encrypted; documents stay slices until then. A super-packet is as
/// long, and what is encrypted long before it leaves has gone from the caches: with twice as much of both, 1 MB on 64 connections took a
/// tenth more.
pub const SEALED_AHEAD_LEN: usize = 64 * 1024;

/// Bytes of responses that a client of HTTP/2 takes, or lets go by its windows, until that counts as progress: less than a segment is none.
pub const PROGRESS_LEN: usize = 1024;

/// Frames of HTTP/2 that wait on a connection to be sent: with more, none are made of what is queued, so that what becomes urgent
/// overtakes it. As much as records of TLS.
pub const FRAMED_AHEAD_LEN: usize = SEALED_AHEAD_LEN;

/// Records on a connection that its client has not taken, as far as is known: with more, nothing is encrypted. Congestion control and a
/// client's window may let more go, of documents that is nothing but references; records are memory. 2 MiB are 160 Mbit/s over 100 ms,
/// and half of what Linux lets a socket's send buffer grow to (`net.ipv4.tcp_wmem`).
pub const SEALED_UNDER_WAY_LEN: usize = 2 * 1024 * 1024;

/// Handshakes that are gone on with in a turn: each takes some 100 us beside its signature, and others wait meanwhile.
pub const HANDSHAKES_AT_ONCE: usize = 4;

/// Signing in a turn, in signatures with ECDSA P-256 of some 25 us each: a millisecond. The signature that goes beyond it is made, and is the
/// last of its turn.
pub const SIGNING_WEIGHT_AT_ONCE: u32 = 40;

/// What a signature with ECDSA P-384 takes, by one with P-256.
pub const WEIGHT_P384: u32 = 12;

/// What one with RSA of 2048 bits takes, by one with ECDSA P-256; of longer keys it grows with the third power of their length.
pub const WEIGHT_RSA_2048: u32 = 24;

/// How long a client may take to come to a session of TLS, from its connection's beginning: some round trips and as many losses. Until
/// then it has cost memory, and asked for nothing.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The longest hello of a client, in bytes of its records: as long as BoringSSL takes, where usual ones have less than two thousand.
pub const HELLO_LEN_MAX: usize = 16 * 1024;

/// How often it is looked whether certificates and keys have changed.
pub const CERTIFICATES_TIME: Duration = Duration::from_secs(10);

/// How often it is told that a certificate is about to end: every day.
pub const CERTIFICATES_TELL_TIME: Duration = Duration::from_secs(24 * 3600);

/// How many days browsers may be told to remember that a site is for HTTPS alone: ten years.
pub const HSTS_DAYS_MAX: i64 = 3650;

/// How often the thread of ACME looks whether there is something to do, and which challenges there are of other processes.
pub const ACME_TIME: Duration = Duration::from_secs(1);

/// How long a challenge is there before the authority is told: so long that other processes of the same folder have seen it too.
pub const ACME_PUBLISH_TIME: Duration = Duration::from_millis(2_500);

/// How long one request to an authority may take.
pub const ACME_REQUEST_TIME: Duration = Duration::from_secs(30);

/// How long it may take until a connection to an authority stands, on all of its addresses: then it is asked in another way.
pub const ACME_CONNECT_TIME: Duration = Duration::from_secs(8);

/// How long a connection to an authority may take to end when its answer is there.
pub const ACME_GOODBYE_TIME: Duration = Duration::from_secs(2);

/// Bytes of an authority's that are taken at once: a record of TLS has 16 KiB.
pub const ACME_READ_LEN: usize = 64 * 1024;

/// How often an authority is asked when to renew a certificate, at the most and at the least, whatever it says (RFC 9773 §4.3.2).
pub const ACME_ADVICE_TIME_MIN: Duration = Duration::from_secs(60);
/// See [`ACME_ADVICE_TIME_MIN`].
pub const ACME_ADVICE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// When an authority is asked again for its advice that has given none.
pub const ACME_ADVICE_RETRY: Duration = Duration::from_secs(6 * 3600);

/// How long a certificate is not renewed again on its authority's advice, when one was: an authority in error would have orders without end.
pub const ACME_ADVICE_APART: Duration = Duration::from_secs(24 * 3600);

/// How long an authority may take to ask, and then to sign: Let's Encrypt takes seconds.
pub const ACME_ORDER_TIME: Duration = Duration::from_secs(120);

/// The longest answer of an authority: a chain of certificates has some kilobytes.
pub const ACME_ANSWER_LEN_MAX: u64 = 1 << 20;

/// The longest file in the folder of ACME that is not a certificate.
pub const ACME_FILE_LEN_MAX: u64 = 64 * 1024;

/// Bytes for which there has to be room on the disk before a certificate is ordered: a key and a long chain, and what is kept beside.
pub const ACME_CERTIFICATE_ROOM: usize = 64 * 1024;

/// How long the program may take that sets a record in DNS: some name servers take minutes until all of a zone have it.
pub const ACME_HOOK_TIME: Duration = Duration::from_secs(10 * 60);

/// Challenges that are answered at once: one at a time is asked for, and others may have been left behind.
pub const ACME_CHALLENGES_MAX: usize = 64;

/// When an authority that was not reached is tried again first, and at last: nothing is counted where nobody was reached.
pub const ACME_RETRY_UNREACHED: Duration = Duration::from_secs(10);
/// See [`ACME_RETRY_UNREACHED`].
pub const ACME_RETRY_UNREACHED_MAX: Duration = Duration::from_secs(3600);

/// How long a name is left alone at most because an authority says so, or what is between: a wrong word is not to cost a certificate.
pub const ACME_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The longest reason that is kept of a failure, in characters.
pub const ACME_REASON_LEN_MAX: usize = 2_000;

/// When a name that was refused is tried again, time after time: Let's Encrypt allows five failures an hour for each name and account.
pub const ACME_RETRIES_REFUSED: [Duration; 6] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(20 * 60),
    Duration::from_secs(3600),
    Duration::from_secs(3 * 3600),
    Duration::from_secs(6 * 3600),
];

/// How long a name is left alone after a certificate has come, however short its time is.
pub const ACME_ORDERS_APART: Duration = Duration::from_secs(10);

/// Failures in a row up to which a start of the program tries at once, as its operator may have mended something.
pub const ACME_FAILURES_FORGIVEN: u32 = 3;

/// How long a client may remember that HTTP/3 is spoken, without hearing it again (RFC 7838 §3.1): what is usual.
pub const ALTERNATIVE_TIME: Duration = Duration::from_secs(24 * 3600);

/// Connections of QUIC of a loop, unless configured otherwise: each costs some ten kilobytes beside its windows.
pub const QUIC_CONNECTIONS_MAX: usize = 64 * 1024;

/// Requests of a connection of HTTP/3 at once: as many as streams of HTTP/2.
pub const QUIC_STREAMS_MAX: u32 = exos_http2::limits::STREAMS_MAX;

/// Streams in one direction that a client may have open: three are known, and some are opened to see what becomes of it.
pub const QUIC_UNI_STREAMS_MAX: u32 = 8;

/// What a client may have sent on a stream and nobody has consumed: as on a connection of HTTP/1.1.
pub const QUIC_STREAM_WINDOW: u32 = RECEIVE_BUFFER_LEN;

/// What it may have sent on all streams of a connection together: four bodies at their full speed.
pub const QUIC_RECEIVE_WINDOW: u32 = 4 * QUIC_STREAM_WINDOW;

/// Bytes of a connection's requests that wait for the server, beyond which each request may have as many as the second says: a megabyte,
/// and one more where all streams have their share. A body that is taken as it comes needs no more.
pub const QUIC_WAITING_LEN_MAX: usize = 1024 * 1024;
/// What each may have then.
pub const QUIC_WAITING_LEN_SHARE: usize = 8 * 1024;

/// Bytes of responses that QUIC has copied and the client has not acknowledged, at most: 100 Mbit/s over 80 ms. Twice the congestion
/// window where that is less.
pub const QUIC_SEND_WINDOW: u64 = 1024 * 1024;
/// The least of these, also where the congestion window is smaller.
pub const QUIC_SEND_WINDOW_MIN: u64 = 64 * 1024;

/// How long a connection on which nothing comes stands. A client that says that it is there is ended by [`IDLE_TIME`].
pub const QUIC_IDLE_TIME: Duration = Duration::from_secs(30);

/// Connections whose first packet waits for a turn, and what may be kept for each until then: a hello takes two packets.
pub const QUIC_INCOMING_MAX: usize = 256;
/// Bytes of those packets.
pub const QUIC_INCOMING_LEN: usize = 16 * 1024;

/// Handshakes under way, beyond which clients have to show first that they receive at their address.
pub const QUIC_HANDSHAKES_FREE: usize = 64;

/// Priorities of requests that have not come (RFC 9218 §7.2).
pub const QUIC_EARLY_PRIORITIES: usize = 8;

/// How long datagrams wait that the interface or the kernel does not take, until it is asked again.
pub const QUIC_ROOM_PAUSE: Duration = Duration::from_millis(1);

/// How often it is looked what has waited for too long.
pub const QUIC_LOOK_TIME: Duration = Duration::from_secs(1);

/// The length of datagrams that each path takes which carries QUIC (RFC 9000 §14).
pub const QUIC_DATAGRAM_LEN: u16 = 1200;

/// The longest datagrams on sockets of the kernel's, where the path is found to take them: what Ethernet takes of either family.
pub const QUIC_DATAGRAM_LEN_MAX: u16 = 1452;

/// Bytes of packets that are no datagram's: the headers of IPv6, which are longer than those of IPv4, and of UDP.
pub const QUIC_HEADERS_LEN: usize = 40 + 8;

/// Datagrams of one connection that are made at once: of full packets, what a link may take as one.
pub const QUIC_SEGMENTS_MAX: usize = 40;

/// Bytes that QUIC is given in one piece: it counts all of a piece as unacknowledged until nothing of it is.
pub const QUIC_PIECE_LEN: usize = 16 * 1024;

/// A part of a body up to this length is copied beside its frame's head, which costs less than a piece of its own.
pub const QUIC_COPIED_LEN_MAX: usize = 2048;

/// Field sections of responses that are kept: of as many documents, where they are asked for often. A hundred kilobytes or so.
pub const QUIC_SECTIONS_MAX: usize = 256;
/// The longest header block whose section is kept: longer ones are an application's, and others each time.
pub const QUIC_SECTION_LEN_MAX: usize = 1024;

/// Datagrams that are taken in a turn: others have their turn then.
pub const QUIC_DATAGRAMS_PER_TURN: usize = 256;

/// Datagrams that answer what is of no connection (Retry, refusals, resets) and wait to leave: those of a turn.
pub const QUIC_ANSWERS_MAX: usize = QUIC_DATAGRAMS_PER_TURN;

/// Calls that read datagrams from a socket of the kernel's in a turn: as many datagrams, or more, where several come as one.
pub const QUIC_CALLS_PER_TURN: usize = QUIC_DATAGRAMS_PER_TURN / 8;

/// Bytes that wait for a socket of QUIC, in the kernel in each direction, or in our stack.
pub const QUIC_SOCKET_LEN: usize = 2 * 1024 * 1024;
