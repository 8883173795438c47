//! Every bound of this crate, with its reason.

use exos_inet::Duration;

/// Octets of a name as text: RFC 1035 §2.3.4 allows 255 on the wire, of which the first length and the root take two.
pub const NAME_BYTES_MAX: usize = 253;

/// Octets of a label (RFC 1035 §2.3.4): the two top bits of its length mean something else.
pub const LABEL_BYTES_MAX: usize = 63;

/// Name servers that are used; resolv.conf(5) calls this MAXNS, and says that further ones are ignored.
pub const SERVERS_MAX: usize = 3;

/// Domains of the search list. glibc has no bound since 2.26; each costs two queries for every name that does not exist.
pub const SEARCH_DOMAINS_MAX: usize = 32;

/// The highest `ndots` (resolv.conf(5): "silently capped to 15").
pub const NDOTS_MAX: u8 = 15;

/// The longest `timeout`, in seconds (resolv.conf(5): "silently capped to 30").
pub const TIMEOUT_S_MAX: u64 = 30;

/// The most `attempts` (resolv.conf(5): "silently capped to 5").
pub const ATTEMPTS_MAX: u8 = 5;

/// Bytes read of one file. Lists of names to block are put into `/etc/hosts` and come to some MB.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// The datagram that servers may send us (DNS flag day 2020): it passes nearly every path without being cut into
/// fragments, which could be forged (RFC 9715).
pub const UDP_PAYLOAD_BYTES: u16 = 1232;

/// Aliases followed from the name asked to the one that has addresses. Real chains have three or four.
pub const ALIASES_MAX: usize = 16;

/// Addresses of one family that are tried to connect to a name: of an answer all are told, which has room for some four
/// thousand over TCP, but the last of these is tried 16 seconds after the first.
pub const TRIED_ADDRESSES_MAX: usize = 64;

/// Lookups under way. Each has at most two queries, each with a socket: half of the usual 1,024 descriptors.
pub const LOOKUPS_MAX: usize = 256;

/// Answers in the cache; with two addresses each they take less than half a megabyte, and 70 MB where each fills a message of
/// 64 KB.
pub const CACHE_ENTRIES_MAX: usize = 1024;

/// The longest time that addresses are kept, whatever the answer says: a day, as unbound's `cache-max-ttl`. There is no
/// lower bound: what has a TTL of 0 is not kept.
pub const TTL_S_MAX: u32 = 86_400;

/// The longest time that "no such name" and "no such record" are kept: an hour, as unbound's `cache-max-negative-ttl`; RFC 2308
/// §5 finds one to three hours sensible.
pub const NEGATIVE_TTL_S_MAX: u32 = 3600;

/// How long a name that no server could look up is not asked for again (RFC 9520 §3.2: at least one second). Short, for
/// someone may be mending the network.
pub const FAILURE_TTL_S: u32 = 1;

/// How long a server that did not answer is asked after the others.
pub const SILENT_SERVER: Duration = Duration::from_secs(60);

/// Ports tried for one query when the caller says that a port is in use.
pub const PORT_TRIES_MAX: u8 = 8;

/// Messages with a wrong identifier or question that may come to one query before it is repeated over TCP: a server and an old
/// query's late answer account for one or two, a forger who knows the port needs thousands.
pub const GUESSES_MAX: u8 = 16;

/// RFC 8305 §3: how long IPv4 addresses wait for IPv6 ones.
pub const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// RFC 8305 §5: how long an attempt to connect runs before the next begins beside it.
pub const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
