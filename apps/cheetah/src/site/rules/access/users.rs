//! Basic authentication (RFC 7617): a file of names and hashed passwords, and what is known of passwords that were sent.
//!
//! A hash takes a processor some 100 ms, on purpose. So none is computed by a loop: what is not known yet is verified on a
//! thread ([`Users::verify`]), and the request waits as for a document. What was found is kept, as a keyed hash of what was
//! sent: of each user the password that was right, and some that were wrong, so that a request with a known password costs
//! a microsecond. What a change of the file makes untrue is forgotten with it ([`Users::follow`]).

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, Metadata};
use std::hash::BuildHasher as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::hashes::{is_password, is_verifiable};
use crate::limits::{
    CREDENTIALS_LEN_MAX, PASSWORD_FILE_LEN_MAX, PASSWORD_FILE_REST_TIME, WRONG_PASSWORDS_MAX,
};

type Digest = [u8; 32];

/// Users and their passwords.
pub struct Users {
    file: PathBuf,
    realm: String,
    /// For digests: nobody else can say what they stand for.
    key: [u64; 2],
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_name: HashMap<Vec<u8>, User>,
    wrong: HashSet<Digest>,
    /// The version of the file that was read last, or that there was none.
    seen: Option<Version>,
}

/// Changes with whatever is written to a file, and with another file by its name.
type Version = ([u64; 3], [[i64; 2]; 2]);

struct User {
    hash: String,
    right: Option<Digest>,
}

/// What is known of a request's password.
#[derive(Debug, PartialEq, Eq)]
pub enum Login {
    /// It is this user's.
    Right(Box<[u8]>),
    /// There is none, or it is wrong.
    Refused,
    /// It has to be verified: the user and the password as they were sent.
    Unknown(Vec<u8>),
}

impl Users {
    /// The users of a file that `htpasswd` makes: `NAME:HASH` in each line, or `NAME:HASH:COMMENT`, with bcrypt or SHA-crypt. There are
    /// none before it was [read](Users::read).
    pub fn of(file: &Path, realm: &str) -> Users {
        let keys = [RandomState::new(), RandomState::new()];
        Users {
            file: file.into(),
            realm: realm.to_owned(),
            key: keys.map(|state| state.hash_one(0)),
            known: Mutex::default(),
        }
    }

    /// Their file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file. When that fails, the users are who they were.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn read(&self) -> Result<(), String> {
        let file = self.file.display();
        let unreadable = |e: std::io::Error| {
            let how = match e.kind() {
                std::io::ErrorKind::NotFound => format!("make it: htpasswd -B -c {file} NAME"),
                _ => "name a file that the server's user may read".to_owned(),
            };
            format!("cannot read {file}: {e}; {how}")
        };
        let about = fs::metadata(&self.file).map_err(unreadable)?;
        lock(&self.known).seen = Some(version(&about));
        if !about.is_file() || about.len() > PASSWORD_FILE_LEN_MAX {
            let most = PASSWORD_FILE_LEN_MAX >> 10;
            return Err(format!("{file} is no file of at most {most} KiB"));
        }
        let bytes = fs::read(&self.file).map_err(unreadable)?;
        // Comments may be in any encoding.
        self.take(&String::from_utf8_lossy(&bytes))
            .map_err(|e| format!("{file}:{e}"))
    }

    /// Reads the file if it is another than the one that was read last, and nobody is writing to it. An error is told once.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn follow(&self) -> Result<(), String> {
        let about = fs::metadata(&self.file);
        let now = about.as_ref().map_or(Version::default(), version);
        let is_written_to = about.is_ok_and(|about| {
            let age = about.modified().map(|at| at.elapsed());
            // One of the future is none that somebody writes now.
            age.is_ok_and(|age| age.is_ok_and(|age| age < PASSWORD_FILE_REST_TIME))
        });
        if is_written_to || lock(&self.known).seen == Some(now) {
            return Ok(());
        }
        let outcome = self.read();
        lock(&self.known).seen = Some(now);
        outcome
    }

    /// Takes the text of such a file in. An error begins with its line.
    fn take(&self, text: &str) -> Result<(), String> {
        let mut by_name = HashMap::new();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // What is behind another colon is a comment, as Apache and nginx have it: no hash has one.
            let user = line.split_once(':');
            let user = user.map(|(name, rest)| (name, rest.split(':').next().unwrap_or(rest)));
            let Some((name, hash)) = user.filter(|(_, hash)| is_verifiable(hash)) else {
                return Err(format!(
                    "{}: this is no NAME:HASH with bcrypt or SHA-crypt that takes at most a second; make it with \
                     htpasswd -B, or with openssl passwd -6",
                    at + 1
                ));
            };
            if name.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!(
                    "{}: the name is not in UTF-8, in which clients send it; save the file in UTF-8",
                    at + 1
                ));
            }
            let (hash, right) = (hash.to_owned(), None);
            by_name.insert(name.as_bytes().to_vec(), User { hash, right });
        }
        let mut known = lock(&self.known);
        for (name, user) in &mut by_name {
            let before = known.by_name.get(name);
            user.right = before.filter(|b| b.hash == user.hash).and_then(|b| b.right);
        }
        (known.by_name, known.wrong) = (by_name, HashSet::new());
        Ok(())
    }

    /// The field that asks for a password.
    pub fn challenge(&self) -> String {
        format!(
            "WWW-Authenticate: Basic realm=\"{}\", charset=\"UTF-8\"\r\n",
            self.realm
        )
    }

    /// What is known of the password in an Authorization field.
    pub fn login(&self, authorization: Option<&[u8]>) -> Login {
        match authorization.and_then(credentials) {
            Some(sent) => self.look_up(&self.digest(&sent), sent),
            None => Login::Refused,
        }
    }

    fn look_up(&self, digest: &Digest, sent: Vec<u8>) -> Login {
        let known = lock(&self.known);
        let right = known.by_name.get(name(&sent)).and_then(|user| user.right);
        if right.is_some_and(|right| is_same(&right, digest)) {
            return Login::Right(name(&sent).into());
        }
        match known.wrong.contains(digest) {
            true => Login::Refused,
            false => Login::Unknown(sent),
        }
    }

    /// Finds out whether a password is right, and keeps that. Takes long.
    pub fn verify(&self, sent: &[u8]) {
        let digest = self.digest(sent);
        // Another core may have asked meanwhile.
        if !matches!(self.look_up(&digest, sent.to_vec()), Login::Unknown(_)) {
            return;
        }
        let hash = {
            let known = lock(&self.known);
            let user = known.by_name.get(name(sent));
            // A name that nobody has takes as long as one that somebody has.
            let user = user.or(known.by_name.values().next());
            user.map(|user| user.hash.clone())
        };
        let password = sent.get(name(sent).len() + 1..).unwrap_or_default();
        let is_right = hash
            .as_ref()
            .is_some_and(|hash| is_password(hash, password));
        let mut known = lock(&self.known);
        match known.by_name.get_mut(name(sent)) {
            // The file may have changed: then it is looked at again when it is asked about again.
            Some(user) if Some(&user.hash) != hash.as_ref() => {}
            Some(user) if is_right => user.right = Some(digest),
            _ => {
                if known.wrong.len() >= WRONG_PASSWORDS_MAX {
                    known.wrong.clear();
                }
                known.wrong.insert(digest);
            }
        }
    }

    fn digest(&self, sent: &[u8]) -> Digest {
        let [a, b] = self.key.map(u64::to_le_bytes);
        Sha256::new()
            .chain_update(a)
            .chain_update(b)
            .chain_update(sent)
            .finalize()
            .into()
    }
}

/// Nothing of passwords gets into a message.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.file.display())
    }
}

fn version(about: &Metadata) -> Version {
    let written = [about.mtime(), about.mtime_nsec()];
    let changed = [about.ctime(), about.ctime_nsec()];
    ([about.dev(), about.ino(), about.len()], [written, changed])
}

/// `NAME:PASSWORD` of an Authorization field, if that is what it has.
fn credentials(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = value.trim_ascii().split_at_checked(6)?;
    let rest = rest.trim_ascii();
    if !scheme.eq_ignore_ascii_case(b"basic ") || rest.len() > CREDENTIALS_LEN_MAX {
        return None;
    }
    let sent = STANDARD.decode(rest).ok()?;
    sent.contains(&b':').then_some(sent)
}

/// The name in `NAME:PASSWORD`.
fn name(sent: &[u8]) -> &[u8] {
    sent.split(|&b| b == b':').next().unwrap_or_default()
}

/// Compares in a time that does not depend on where they differ.
fn is_same(a: &Digest, b: &Digest) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Nothing is left half done when a thread panics with the lock.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
