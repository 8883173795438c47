//! Certificates by ACME.

use std::time::Duration;

/// How often the thread of ACME looks whether there is something to do, and which challenges there are of other processes.
pub const ACME_TIME: Duration = Duration::from_secs(1);

/// How often it is looked whether an order that waits is still wanted, and whether the program that it waits for has ended.
pub const ACME_LOOK_TIME: Duration = Duration::from_millis(50);

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

/// When an authority is asked again what has become of an order, where it has not answered.
pub const ACME_ASK_AGAIN_TIME: Duration = Duration::from_secs(5);

/// The longest answer of an authority: a chain of certificates has some kilobytes.
pub const ACME_ANSWER_LEN_MAX: u64 = 1 << 20;

/// The longest file in the folder of ACME that is not a certificate.
pub const ACME_FILE_LEN_MAX: u64 = 64 * 1024;

/// Bytes for which there has to be room on the disk before a certificate is ordered: a key and a long chain, and what is kept beside.
pub const ACME_CERTIFICATE_ROOM: usize = 64 * 1024;

/// How long the program may take that sets a record in DNS: some name servers take minutes until all of a zone have it.
pub const ACME_HOOK_TIME: Duration = Duration::from_secs(10 * 60);

/// How long the orders under way are waited for before another begins: programs that set records in DNS are not called for several names at once
/// while they do not take long.
pub const ACME_PATIENCE: Duration = Duration::from_secs(60);

/// Orders that are under way at once, where each takes longer than that.
pub const ACME_ORDERS_MAX: usize = 8;

/// Over which time orders and accounts are counted, as Let's Encrypt does.
pub const ACME_BUDGET_TIME: Duration = Duration::from_secs(3 * 3600);

/// Orders that are begun in that time, of all processes of a folder: Let's Encrypt allows an account 300, and those that are under way when it is
/// looked come on top.
pub const ACME_ORDERS_BEGUN_MAX: usize = 250;

/// Accounts that are made in that time: Let's Encrypt allows 10 of an address, which others of the host may have, too.
pub const ACME_ACCOUNTS_MAX: usize = 5;

/// Certificates of one name that an authority is asked to sign, and that are not kept, until it has to forget one: Let's Encrypt signs 5 of the
/// same names in 7 days, of all accounts.
pub const ACME_SIGNED_MAX: u32 = 5;

/// In which time it forgets one after the other, as Let's Encrypt does.
pub const ACME_SIGNED_TIME: Duration = Duration::from_secs(34 * 3600);

/// How long no name is ordered when an authority has said of one that it was asked too often: it may have meant all of the account.
pub const ACME_RATE_LIMITED_REST: Duration = Duration::from_secs(60);

/// Challenges that are answered at once: some are asked for, and others may have been left behind.
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
