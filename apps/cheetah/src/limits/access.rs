//! Who may ask for what: rules, rates and passwords.

use std::time::Duration;

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
