//! The folder of one authority's account, certificates and challenges.
//!
//! ```text
//!   STATE/acme-v02.api.letsencrypt.org-directory/    0700
//!     lock                        locked by the process that orders (flock)
//!     account.json                the account and its key
//!     contact.json                what the authority was told of its owner
//!     budget.json                 what it was asked for lately, which it counts
//!     certificates/NAME.pem       the key, its certificate, and those of its issuers
//!     certificates/NAME.failed    why the last attempts have failed, and when the next is
//!     certificates/NAME.ask       how many were asked for lately and not kept, which it counts
//!     challenges/TOKEN            what the authority may ask now
//! ```
//!
//! Files are 0600, and each is written beside its place and renamed: who reads one gets all of it, also after a power failure. Key
//! and certificate are one file, so that they never belong to two.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

use exos::Error;
use exos_program::UserArgs;
use exos_tls::certificate::UnixSecs;
use rustix::process::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::budget::{Asked, Budget, Signed};
use super::challenges::{Challenge, Kind};
use super::disk::{
    STICKY, absent, beside, is_of, make_folder, may_others_replace, read_json, write, write_over,
};
use crate::limits::{ACME_CERTIFICATE_ROOM, ACME_CHALLENGES_MAX};

/// How a file's name ends that counts certificates: it is no longer than that of a certificate, so that there is one wherever that can be.
const SIGNED: &str = "ask";

/// The folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Store {
    folder: PathBuf,
}

/// Held by the process that orders.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock is the open file")] File);

/// What has failed for a name.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Record {
    /// How often in a row.
    pub failures: u32,
    /// When it is tried again, in seconds since 1970.
    pub next_try: UnixSecs,
    /// Why, for people.
    pub error: String,
    /// How the authority asked last without finding this server.
    #[serde(default)]
    pub not_found_by: Option<Kind>,
}

/// What an authority was told of an account's owner.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Contact {
    /// Addresses of mail.
    pub mail: Vec<String>,
    /// When its terms of service were agreed to, in seconds since 1970, if that is known.
    pub agreed_at: Option<UnixSecs>,
    /// It has refused to take these.
    #[serde(default)]
    pub is_refused: bool,
}

impl Store {
    /// The folder of an authority, by the URL of its directory. It is not made.
    pub fn of(state: &Path, directory: &str) -> Store {
        Store {
            folder: state.join(folder_name(directory)),
        }
    }

    /// Makes what is not there, for the user who serves.
    ///
    /// # Errors
    ///
    /// It cannot be made or written.
    pub fn make(&self, user: &UserArgs) -> Result<(), Error> {
        let folders = ["certificates", "challenges"].map(|name| self.folder.join(name));
        let make = || folders.iter().try_for_each(|folder| make_folder(folder));
        let state = self.folder.parent().unwrap_or(&self.folder);
        let fail = |e: io::Error| {
            let what = format!("cannot make the folder of certificates {}", state.display());
            let who = user.user.as_ref();
            let who = who.map_or("the user who starts the program", |user| &user.name);
            Error::io(what, e).mend(format!("make it, for {who} alone, or name another"))
        };
        let made = user.as_user(|| Ok(make()))?;
        match (&user.user, made) {
            (Some(account), Err(error)) if error.kind() == ErrorKind::PermissionDenied => {
                // In /var/lib, say: who may do that makes it and gives it away.
                make_folder(state).map_err(fail)?;
                chown(state, Some(account.uid), Some(account.gid)).map_err(fail)?;
                user.as_user(|| make().map_err(fail))?;
            }
            (_, made) => made.map_err(fail)?,
        }
        user.as_user(|| self.open_lock().map(drop).map_err(fail))?;
        let owner = user.user.as_ref().map(|user| user.uid);
        let owner = owner.unwrap_or_else(|| geteuid().as_raw());
        // In the outermost, too: who can rename what is in it puts another folder there.
        for folder in [state, &self.folder, &folders[0], &folders[1]] {
            let about = user.as_user(|| folder.metadata().map_err(fail))?;
            let in_it = user.as_user(|| self.folder.symlink_metadata().map_err(fail))?;
            let in_it = (folder == state).then(|| in_it.uid());
            if !may_others_replace((about.mode(), about.uid(), about.gid()), in_it, owner) {
                continue;
            }
            let command = match in_it.is_some() && about.mode() & STICKY != 0 {
                false => format!("chmod go-w {}", folder.display()),
                true if is_of(about.uid(), owner) => {
                    format!("chown {owner} {}", self.folder.display())
                }
                true => format!("chown {owner} {}", folder.display()),
            };
            let folder = folder.display();
            return Err(Error::new(format!(
                "others can replace what is in {folder}, where keys of certificates are"
            ))
            .mend(format!("do: {command}")));
        }
        Ok(())
    }

    fn open_lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(self.folder.join("lock"))
    }

    /// The lock of those who order, if no other process has it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn lock(&self) -> io::Result<Option<Lock>> {
        let file = self.open_lock()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    // Accounts.

    /// The account, if there is one that can be read.
    ///
    /// # Errors
    ///
    /// It is there, and cannot be read.
    pub fn account<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        read_json(&self.folder.join("account.json"))
    }

    /// Keeps an account.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_account(&self, account: &impl Serialize) -> io::Result<()> {
        write(&self.folder, "account.json", &serde_json::to_vec(account)?)
    }

    /// What the authority was told of the account's owner, if that is known.
    pub fn contact(&self) -> Option<Contact> {
        // One that cannot be read is as none: the authority is told again.
        read_json(&self.folder.join("contact.json")).ok().flatten()
    }

    /// Keeps what the authority was told.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_contact(&self, contact: &Contact) -> io::Result<()> {
        write(&self.folder, "contact.json", &serde_json::to_vec(contact)?)
    }

    /// What was asked lately.
    pub fn budget(&self) -> Budget {
        // One that cannot be read is as none: the authority says when it was too much.
        let read = read_json(&self.folder.join("budget.json"));
        read.ok().flatten().unwrap_or_default()
    }

    /// Counts what is asked; for who has the lock.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn spend(&self, what: Asked, now: UnixSecs) -> io::Result<()> {
        let mut budget = self.budget();
        budget.spend(what, now);
        write(&self.folder, "budget.json", &serde_json::to_vec(&budget)?)
    }

    /// Puts an account aside that the authority does not know.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn put_account_aside(&self) -> io::Result<()> {
        let account = self.folder.join("account.json");
        fs::rename(account, self.folder.join("account.unknown.json"))
    }

    // Certificates.

    /// Where the certificate of a name is, with its key.
    pub fn certificate(&self, name: &str) -> PathBuf {
        self.about(name, "pem")
    }

    /// Sees that there will be room for a certificate of this name, and holds it until that is kept.
    ///
    /// # Errors
    ///
    /// There is none, or the folder cannot be written.
    pub fn make_room(&self, name: &str) -> io::Result<()> {
        let beside = self.beside_certificate(name);
        let written = write_over(&beside, &[b'\n'; ACME_CERTIFICATE_ROOM]);
        if written.is_err() {
            self.give_room_back(name);
        }
        written
    }

    /// Holds no more room for a certificate of this name.
    pub fn give_room_back(&self, name: &str) {
        // Where that cannot be, the next one is written over it.
        let _ = fs::remove_file(self.beside_certificate(name));
    }

    fn beside_certificate(&self, name: &str) -> PathBuf {
        let file = format!("{}.pem", plain(name));
        beside(&self.folder.join("certificates"), &file)
    }

    /// Keeps a key and its certificates (PEM).
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_certificate(&self, name: &str, pem: &[u8]) -> io::Result<()> {
        let folder = self.folder.join("certificates");
        write(&folder, &format!("{}.pem", plain(name)), pem)
    }

    /// The certificates of a name that the authority was asked for lately.
    pub fn signed(&self, name: &str) -> Signed {
        // As of what else was asked.
        let read = read_json(&self.signed_file(name));
        read.ok().flatten().unwrap_or_default()
    }

    /// Keeps that; nothing where there are none.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_signed(&self, name: &str, signed: Signed) -> io::Result<()> {
        if signed == Signed::default() {
            return absent(fs::remove_file(self.signed_file(name)));
        }
        let bytes = serde_json::to_vec(&signed)?;
        let folder = self.folder.join("certificates");
        write(&folder, &format!("{}.{SIGNED}", plain(name)), &bytes)
    }

    /// Where that is.
    pub fn signed_file(&self, name: &str) -> PathBuf {
        self.about(name, SIGNED)
    }

    /// What has failed for a name.
    pub fn record(&self, name: &str) -> Record {
        // One that cannot be read is as none: the next attempt writes another.
        let read = read_json(&self.about(name, "failed"));
        read.ok().flatten().unwrap_or_default()
    }

    /// Keeps what has failed for a name; nothing where nothing has.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_record(&self, name: &str, record: &Record) -> io::Result<()> {
        if record.failures == 0 {
            return absent(fs::remove_file(self.about(name, "failed")));
        }
        let folder = self.folder.join("certificates");
        let bytes = serde_json::to_vec(record)?;
        write(&folder, &format!("{}.failed", plain(name)), &bytes)
    }

    fn about(&self, name: &str, what: &str) -> PathBuf {
        let file = format!("{}.{what}", plain(name));
        self.folder.join("certificates").join(file)
    }

    // Challenges.

    /// All challenges that there are; those that cannot be read are none.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn challenges(&self) -> io::Result<Vec<Challenge>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.folder.join("challenges"))? {
            let entry = entry?;
            if !is_token(&entry.file_name().to_string_lossy()) {
                continue; // One that is being written.
            }
            if let Ok(Some(challenge)) = read_json(&entry.path()) {
                all.push(challenge);
            }
            if all.len() == ACME_CHALLENGES_MAX {
                break;
            }
        }
        all.sort_by(|a: &Challenge, b| a.token.cmp(&b.token));
        Ok(all)
    }

    /// Keeps a challenge.
    ///
    /// # Errors
    ///
    /// It cannot be written, or its token is none.
    pub fn add_challenge(&self, challenge: &Challenge) -> io::Result<()> {
        if !is_token(&challenge.token) {
            return Err(io::Error::other("the authority's token is none"));
        }
        let folder = self.folder.join("challenges");
        write(&folder, &challenge.token, &serde_json::to_vec(challenge)?)
    }

    /// Removes what is no challenge, and the oldest ones where another would be one too many; gives those. For who has the lock, and the turn: what
    /// is being written would go, too.
    pub(super) fn make_room_for_challenge(&self) -> io::Result<Vec<Challenge>> {
        let mut all = Vec::new();
        let is_broken = |kind| matches!(kind, ErrorKind::InvalidData | ErrorKind::UnexpectedEof);
        for entry in fs::read_dir(self.folder.join("challenges"))? {
            let entry = entry?;
            match read_json::<Challenge>(&entry.path()) {
                Ok(Some(it)) if *it.token == *entry.file_name() => {
                    all.push((entry.metadata()?.modified()?, it));
                }
                Err(error) if !is_broken(error.kind()) => {}
                // What cannot be removed is no harm either.
                _ => drop(fs::remove_file(entry.path())),
            }
        }
        all.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.token.cmp(&other.token)));
        all.truncate((all.len() + 1).saturating_sub(ACME_CHALLENGES_MAX));
        let oldest: Vec<_> = all.into_iter().map(|(_, it)| it).collect();
        oldest.iter().try_for_each(|it| self.remove_challenge(it))?;
        Ok(oldest)
    }

    /// Removes a challenge.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn remove_challenge(&self, challenge: &Challenge) -> io::Result<()> {
        let file = self.folder.join("challenges").join(&challenge.token);
        absent(fs::remove_file(file))
    }
}

/// The name of an authority's folder: its host, and what is behind it.
fn folder_name(directory: &str) -> String {
    let rest = directory.strip_prefix("https://").unwrap_or(directory);
    let plain = |c: char| match c {
        'a'..='z' | '0'..='9' | '.' | '-' | '_' => c,
        'A'..='Z' => c.to_ascii_lowercase(),
        _ => '-',
    };
    let name: String = rest.trim_end_matches('/').chars().map(plain).collect();
    // No hidden folder, nor one that is another.
    let name = name.trim_start_matches('.');
    name.chars().take(200).collect()
}

/// A name without its star, for which no shell looks: an underline is in no host's name.
fn plain(name: &str) -> String {
    name.replacen('*', "_", 1)
}

/// RFC 8555 §8.3: a token is of base64url's alphabet, so that it is a file's name, too.
fn is_token(text: &str) -> bool {
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=200).contains(&text.len()) && text.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::limits::ACME_FILE_LEN_MAX;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let store = Store::of(&state, "https://ca.test:14000/dir");
        store.make(&UserArgs::default()).unwrap();
        (folder, store)
    }

    fn mode(file: &Path) -> u32 {
        file.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_are_for_their_owner_alone() {
        let (folder, store) = store();
        let state = folder.path().join("state");
        store.set_certificate("a.test", b"pem").unwrap();
        store.set_account(&"account").unwrap();
        let own = state.join("ca.test-14000-dir");
        for folder in [&state, &own, &own.join("certificates")] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        for file in [store.certificate("a.test"), own.join("account.json")] {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
        assert_eq!(fs::read(store.certificate("a.test")).unwrap(), b"pem");
        assert_eq!(store.account::<String>().unwrap().unwrap(), "account");
        store.put_account_aside().unwrap();
        assert_eq!(store.account::<String>().unwrap(), None);
        assert_eq!(store.contact(), None);
        let contact = Contact {
            mail: vec!["a@b.test".to_owned()],
            agreed_at: Some(7),
            is_refused: true,
        };
        store.set_contact(&contact).unwrap();
        assert_eq!(store.contact(), Some(contact));
    }

    /// Others that could write there would choose the keys.
    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let (_folder, store) = store();
        let state = store.folder.parent().unwrap();
        for folder in [&store.folder.join("certificates"), &store.folder, state] {
            // As root's the group is nobody else's.
            let is_root = folder.metadata().unwrap().gid() == 0;
            for (mode, is_good) in [(0o777, false), (0o770, is_root), (0o755, true)] {
                fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
                let made = store.make(&UserArgs::default());
                assert_eq!(made.is_ok(), is_good, "{mode:o}");
                if let Err(error) = made {
                    assert!(error.to_string().contains("chmod go-w"), "{error}");
                }
            }
        }
        // As /tmp.
        fs::set_permissions(state, fs::Permissions::from_mode(0o1777)).unwrap();
        store.make(&UserArgs::default()).unwrap();
    }

    #[test]
    fn what_cannot_be_kept_leaves_nothing_behind() {
        let (_folder, store) = store();
        let count = || {
            fs::read_dir(store.folder.join("certificates"))
                .unwrap()
                .count()
        };
        store.set_certificate("a.test", b"first").unwrap();
        store.make_room("a.test").unwrap();
        assert_eq!(count(), 2, "room is held");
        store.set_certificate("a.test", b"second").unwrap();
        assert_eq!(fs::read(store.certificate("a.test")).unwrap(), b"second");
        assert_eq!(mode(&store.certificate("a.test")), 0o600);
        store.make_room("a.test").unwrap();
        store.give_room_back("a.test");
        assert_eq!(count(), 1);
        // Something else is in its place.
        fs::create_dir_all(store.certificate("b.test").join("c")).unwrap();
        store.set_certificate("b.test", b"third").unwrap_err();
        assert_eq!(count(), 2, "no key is left beside it");
    }

    #[test]
    fn one_process_orders_at_a_time() {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        assert!(lock.is_some());
        assert!(store.lock().unwrap().is_none());
        drop(lock);
        assert!(store.lock().unwrap().is_some());
    }

    #[test]
    fn failures_are_remembered_until_one_succeeds() {
        let (_folder, store) = store();
        assert_eq!(store.record("a.test"), Record::default());
        let record = Record {
            failures: 2,
            next_try: 77,
            error: "why".to_owned(),
            not_found_by: Some(Kind::TlsAlpn),
        };
        store.set_record("a.test", &record).unwrap();
        assert_eq!(store.record("a.test"), record);
        for _ in 0..2 {
            store.set_record("a.test", &Record::default()).unwrap();
            assert_eq!(store.record("a.test"), Record::default());
        }
    }

    #[test]
    fn challenges_are_found_by_others_and_names_lead_nowhere_else() {
        let (_folder, store) = store();
        let challenge = |token: &str| Challenge {
            kind: Kind::Http,
            name: "a.test".to_owned(),
            token: token.to_owned(),
            key_authorization: "x".to_owned(),
        };
        store.add_challenge(&challenge("tok-en_1")).unwrap();
        let cut = store.folder.join("challenges/half");
        fs::write(cut, b"{\"kind\":").unwrap();
        assert_eq!(store.challenges().unwrap(), [challenge("tok-en_1")]);
        for token in ["", "../account.json", "a/b", ".a.new", &"a".repeat(201)] {
            store.add_challenge(&challenge(token)).unwrap_err();
        }
        for _ in 0..2 {
            store.remove_challenge(&challenge("tok-en_1")).unwrap();
        }
        assert_eq!(store.challenges().unwrap(), []);
    }

    /// What others may have written there is not read for ever.
    #[test]
    fn what_is_in_the_folder_is_bounded() {
        let (_folder, store) = store();
        let account = "a".repeat(ACME_FILE_LEN_MAX as usize - 2);
        store.set_account(&account).unwrap();
        assert_eq!(store.account::<String>().unwrap(), Some(account.clone()));
        store.set_account(&(account + "a")).unwrap();
        store.account::<String>().unwrap_err();
        for token in 0..ACME_CHALLENGES_MAX + 7 {
            let challenge = Challenge {
                kind: Kind::Http,
                name: "a.test".to_owned(),
                token: token.to_string(),
                key_authorization: "x".to_owned(),
            };
            store.add_challenge(&challenge).unwrap();
        }
        assert_eq!(store.challenges().unwrap().len(), ACME_CHALLENGES_MAX);
        // The oldest are forgotten, and no more than have to be; what is no challenge goes.
        for (age, token) in [(9, "30"), (8, "2"), (7, "70")] {
            let file = File::open(store.folder.join("challenges").join(token)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            file.set_modified(then).unwrap();
        }
        for broken in ["half", ".0.new", "other"] {
            let file = store.folder.join("challenges").join(broken);
            fs::write(file, b"{\"kind\":").unwrap();
        }
        let gone = store.make_room_for_challenge().unwrap();
        let gone: Vec<_> = gone.iter().map(|it| &*it.token).collect();
        assert_eq!((gone.len(), &gone[..3]), (8, &["30", "2", "70"][..]));
        let left = fs::read_dir(store.folder.join("challenges")).unwrap();
        assert_eq!(left.count(), ACME_CHALLENGES_MAX - 1);
        assert!(store.make_room_for_challenge().unwrap().is_empty());
        store.make_room("a.test").unwrap();
        let room = store.beside_certificate("a.test").metadata().unwrap();
        assert_eq!(room.len(), ACME_CERTIFICATE_ROOM as u64);
    }

    /// A restart does not forget what was asked.
    #[test]
    fn what_was_asked_is_kept() {
        let (_folder, store) = store();
        store.spend(Asked::Order, 1000).unwrap();
        while store.budget().wait(Asked::Account, 1000) == 0 {
            store.spend(Asked::Account, 1000).unwrap();
        }
        let after = Store::of(store.folder.parent().unwrap(), "https://ca.test:14000/dir");
        assert_eq!(after.budget(), store.budget());
        assert!(after.budget().wait(Asked::Account, 1000) > 0);
        assert_eq!(after.budget().wait(Asked::Order, 1000), 0);
    }

    #[test]
    fn each_authority_has_a_folder() {
        for (directory, name) in [
            (
                "https://acme-v02.api.letsencrypt.org/directory",
                "acme-v02.api.letsencrypt.org-directory",
            ),
            ("https://[::1]:14000/dir/", "---1--14000-dir"),
            ("https://../../x", "-..-x"),
        ] {
            assert_eq!(folder_name(directory), name);
        }
    }
}
