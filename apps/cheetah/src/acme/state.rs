//! What all of a process have of its certificates that come by themselves: what is wanted, what was done, and what is shown of it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::Error;
use exos_tls::certificate::UnixSecs;

use super::calls::{Desk, Ways};
use super::challenges::Challenges;
use super::store::{Contact, Store};
use super::wanted::Wanted;
use crate::config::Config;

/// What all of a process have of its certificates that come by themselves.
#[derive(Debug)]
pub struct Acme {
    challenges: Challenges,
    wanted: Mutex<Arc<Wanted>>,
    pub(super) shown: Mutex<Vec<Shown>>,
    pub(super) account: Mutex<Option<Account>>,
    pub(super) ways: Arc<Ways>,
    /// Held by the order that speaks with the authority.
    pub(super) turns: Mutex<()>,
    pub(super) orders: AtomicU64,
    pub(super) failures: AtomicU64,
}

/// The account with the authority, as it is now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// The URL of the authority's directory.
    pub directory: String,
    /// What it was told of the owner; nothing where there is no account yet.
    pub contact: Option<Contact>,
}

/// A certificate that comes by itself, as it is now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shown {
    /// The host.
    pub name: String,
    /// When the certificate ends, where there is one; in seconds since 1970.
    pub expires: Option<UnixSecs>,
    /// When the next is ordered, in seconds since 1970.
    pub next_order: UnixSecs,
    /// How often that has failed in a row.
    pub failures: u32,
    /// Why the last order has failed.
    pub error: Option<String>,
    /// When the authority advises to renew it, from and until, in seconds since 1970.
    pub advised: Option<(UnixSecs, UnixSecs)>,
    /// Where it says why.
    pub explanation: Option<String>,
}

impl Acme {
    /// Of a configuration, if that wants certificates to come by themselves. Makes the folder. The authority is asked by the stack
    /// of a loop that looks at the [desk](Acme::desk), or by the host's sockets alone.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written, or the program that answers in DNS not started.
    pub fn of(config: &Config, has_stack: bool) -> Result<Option<Arc<Acme>>, Error> {
        let Some(wanted) = Wanted::of(config) else {
            return Ok(None);
        };
        wanted.config.check_hook(&config.user)?;
        wanted.store.make(&config.user)?;
        let desk = has_stack.then(Desk::new).transpose()?;
        Ok(Some(Arc::new(Acme {
            challenges: Challenges::default(),
            wanted: Mutex::new(Arc::new(wanted)),
            shown: Mutex::default(),
            account: Mutex::default(),
            ways: Arc::new(Ways::by(desk.map(Arc::new))),
            turns: Mutex::default(),
            orders: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })))
    }

    /// What the authority asks now.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    /// What another configuration wants, and the folder for it. It has to be [wanted](Acme::want), too.
    ///
    /// # Errors
    ///
    /// As of [`Acme::of`].
    pub(crate) fn prepare(&self, config: &Config) -> Result<Option<Wanted>, Error> {
        let Some(wanted) = Wanted::of(config) else {
            return Ok(None);
        };
        // Privilege was given up, if it was to be.
        wanted.config.check_hook(&Default::default())?;
        wanted.store.make(&Default::default())?;
        Ok(Some(wanted))
    }

    /// Wants this from now on. Orders under way that are for nothing of it end.
    pub(crate) fn want(&self, wanted: Wanted) {
        *lock(&self.wanted) = Arc::new(wanted);
    }

    /// What is wanted now.
    pub(super) fn wanted(&self) -> Arc<Wanted> {
        lock(&self.wanted).clone()
    }

    /// A certificate of this name is wanted, in this folder.
    pub(super) fn wants(&self, store: &Store, name: &str) -> bool {
        lock(&self.wanted).has(store, name)
    }

    /// All certificates that come by themselves, as the thread has seen them last.
    pub fn shown(&self) -> Vec<Shown> {
        lock(&self.shown).clone()
    }

    /// The account with the authority, as the thread has seen it last.
    pub fn account(&self) -> Option<Account> {
        lock(&self.account).clone()
    }

    /// Where calls of the authority wait for a loop that has a stack, if one is to make them.
    pub(crate) fn desk(&self) -> Option<&Arc<Desk>> {
        self.ways.desk.as_ref()
    }

    /// What was done, by name.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        let (by_stack, by_host) = self.ways.counts();
        [
            ("acme_requests_by_stack", by_stack),
            ("acme_requests_by_host", by_host),
            ("acme_orders", self.orders.load(Ordering::Relaxed)),
            ("acme_orders_failed", self.failures.load(Ordering::Relaxed)),
            ("acme_challenges_answered", self.challenges.answered()),
        ]
    }

    /// Takes up what the authority asks any process of the folder that is wanted.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub(super) fn hear_challenges(&self) -> io::Result<()> {
        self.challenges.take_up(|| self.wanted().store.challenges())
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use exos_program::UserArgs;
    use exos_tls::self_signed;

    use super::*;
    use crate::secure::Acceptor;

    /// A reload says what is wanted, but not one that fails: orders go on by the configuration that is served by.
    #[test]
    fn what_a_reload_cannot_take_is_not_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let config = |name: &str, more: &str| {
            let text = format!(
                "[acme]\nstate = \"state\"\n[[site]]\nroot = \"a\"\nnames = [\"{name}\"]\n{more}"
            );
            Config::parse(&folder.path().join("serve.toml"), &text).unwrap()
        };
        let before = config("a.test", "");
        let acme = Acme::of(&before, false).unwrap().unwrap();
        let store = Wanted::of(&before).unwrap().store;
        let acceptor = Acceptor::of(&before, Some(acme.clone())).unwrap().unwrap();
        let wants = |name| acme.wants(&store, name);
        let broken = "[[site]]\nroot = \"a\"\nnames = [\"c.test\"]\n[[site.certificate]]\nfile = \"none\"\nkey = \"none\"";
        acceptor.reload(&config("b.test", broken)).unwrap_err();
        assert!(wants("a.test") && !wants("b.test"));
        acceptor.reload(&config("b.test", "")).unwrap();
        assert!(!wants("a.test") && wants("b.test"));
        let other = Store::of(&folder.path().join("state"), "https://other.test/dir");
        assert!(!acme.wants(&other, "b.test"), "of another authority");
    }

    /// Where this program's user cannot read a file, what else a reload says is wanted, and sessions begin with it as soon as that is mended.
    #[test]
    fn what_a_reload_cannot_read_yet_is_taken_later() {
        let folder = tempfile::tempdir().unwrap();
        let chmod = |file: &Path, mode| {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        };
        chmod(folder.path(), 0o755);
        // Root can read everything.
        let is_root = rustix::process::geteuid().is_root();
        let user = UserArgs {
            user: is_root.then(|| "nobody".parse().unwrap()),
        };
        let config = |name: &str, more: &str| {
            let text = format!(
                "[acme]\nstate = \"state\"\n[[site]]\nroot = \"a\"\nnames = [\"{name}\"]\n{more}"
            );
            let config = Config::parse(&folder.path().join("serve.toml"), &text);
            Config {
                user: user.clone(),
                ..config.unwrap()
            }
        };
        let before = config("a.test", "");
        let acme = Acme::of(&before, false).unwrap().unwrap();
        let store = Wanted::of(&before).unwrap().store;
        let acceptor = Acceptor::of(&before, Some(acme.clone())).unwrap().unwrap();
        let (certificate, key) = self_signed::certificate(&["c.test".to_owned()]).unwrap();
        let pem = |label: &str, der: &[u8]| {
            let text = BASE64_STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
        };
        let file = folder.path().join("pem");
        let both = pem("CERTIFICATE", &certificate) + &pem("PRIVATE KEY", key.secret_der());
        fs::write(&file, both).unwrap();
        chmod(&file, 0);
        let own = "[[site]]\nroot = \"a\"\nnames = [\"c.test\"]\n[[site.certificate]]\nfile = \"pem\"\nkey = \"pem\"";
        let after = config("b.test", own);
        let first = acceptor.config();
        user.as_user(|| acceptor.reload(&after)).unwrap();
        let is_first = || Arc::ptr_eq(&acceptor.config(), &first);
        assert!(acme.wants(&store, "b.test") && is_first());
        // Times of files go by ticks.
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            chmod(&file, 0o644);
            let look = || {
                acceptor.look_again(false);
                Ok(())
            };
            user.as_user(look).unwrap();
            if !is_first() {
                return;
            }
        }
        panic!("it is never read");
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_no_folder_without_challenges() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[acme]\nstate = \"state\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]";
        let config = Config::parse(&folder.path().join("serve.toml"), text).unwrap();
        let acme = Acme::of(&config, false).unwrap().unwrap();
        acme.hear_challenges().unwrap();
        fs::rename(folder.path().join("state"), folder.path().join("away")).unwrap();
        acme.hear_challenges().unwrap_err();
    }
}
