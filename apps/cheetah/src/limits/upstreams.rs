//! Servers that requests are passed on to.

use std::time::Duration;

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

/// The longest host of a request that a field tells of: names have 253 bytes (RFC 1035 §2.3.4).
pub const HOST_LEN_MAX: usize = 255;

/// Names and values of the fields that a rule sets in requests, together, with all that they may tell of a request: less than the 8 KiB that servers take for a head of requests.
pub const UPSTREAM_FIELDS_LEN_MAX: usize = 4096;

/// Answers of 1xx before the last one: a server sends one or two.
pub const INTERIM_ANSWERS_MAX: usize = 16;
