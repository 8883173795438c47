//! Hashes of passwords, of the kinds that are made to be slow: bcrypt and SHA-crypt.

use bcrypt::HashParts;
use sha_crypt::{PasswordHashRef, PasswordVerifier as _, ShaCrypt};

use crate::limits::{BCRYPT_COST_MAX, SHA_ROUNDS_MAX};

/// Whether a hash is of a kind that is known, and takes no longer than it may.
pub(super) fn is_verifiable(hash: &str) -> bool {
    let is_bcrypt = || {
        let parts = hash.parse::<HashParts>();
        parts.is_ok_and(|parts| parts.get_cost() <= BCRYPT_COST_MAX)
    };
    let is_sha = || {
        let parameters = hash.strip_prefix("$5$").or(hash.strip_prefix("$6$"));
        let rounds = parameters.and_then(|rest| rest.strip_prefix("rounds="));
        let rounds = rounds.and_then(|rest| rest.split('$').next());
        let is_bounded =
            rounds.is_none_or(|rounds| rounds.parse().is_ok_and(|n: u32| n <= SHA_ROUNDS_MAX));
        parameters.is_some() && is_bounded && PasswordHashRef::new(hash).is_ok()
    };
    is_bcrypt() || is_sha()
}

/// Whether a password is the one that a hash was made of. Takes long.
pub(super) fn is_password(hash: &str, password: &[u8]) -> bool {
    if hash.starts_with("$2") {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    let hash = PasswordHashRef::new(hash);
    hash.is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok())
}
