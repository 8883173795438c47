//! The thread that gets certificates and renews them, and what is shown of it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::{Error, clock};
use exos_host::affinity;
use exos_tls::certificate::{UnixSecs, Validity, validity};
use exos_tls::files;

use super::challenges::{Challenges, Kind};
use super::order::{Failed, Shop};
use super::schedule::{Failure, renew_at, wait_after};
use super::store::{Record, Store};
use crate::config::{AcmeConfig, Config, Managed};
use crate::limits::{ACME_FAILURES_FORGIVEN, ACME_ORDERS_APART, ACME_TIME};

/// What all of a process have of its certificates that come by themselves.
#[derive(Debug)]
pub struct Acme {
    challenges: Challenges,
    wanted: Mutex<Arc<Wanted>>,
    shown: Mutex<Vec<Shown>>,
    orders: AtomicU64,
    failures: AtomicU64,
}

/// What is to be had, by the configuration.
#[derive(Debug)]
struct Wanted {
    config: AcmeConfig,
    names: Vec<Managed>,
    store: Store,
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
}

impl Wanted {
    fn of(config: &Config) -> Option<Wanted> {
        let acme = config.acme.clone()?;
        Some(Wanted {
            names: config.managed().cloned().collect(),
            store: acme.store(),
            config: acme,
        })
    }
}

impl Acme {
    /// Of a configuration, if that wants certificates to come by themselves. Makes the folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or written.
    pub fn of(config: &Config) -> Result<Option<Arc<Acme>>, Error> {
        let Some(wanted) = Wanted::of(config) else {
            return Ok(None);
        };
        wanted.store.make(&config.user)?;
        Ok(Some(Arc::new(Acme {
            challenges: Challenges::default(),
            wanted: Mutex::new(Arc::new(wanted)),
            shown: Mutex::default(),
            orders: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })))
    }

    /// What the authority asks now.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    /// Wants what another configuration says, from now on.
    ///
    /// # Errors
    ///
    /// Its folder cannot be made or written.
    pub fn reload(&self, config: &Config) -> Result<(), Error> {
        let Some(wanted) = Wanted::of(config) else {
            return Ok(());
        };
        // Privilege was given up, if it was to be.
        wanted.store.make(&Default::default())?;
        *lock(&self.wanted) = Arc::new(wanted);
        Ok(())
    }

    /// All certificates that come by themselves, as the thread has seen them last.
    pub fn shown(&self) -> Vec<Shown> {
        lock(&self.shown).clone()
    }

    /// Orders, those that failed, and questions of the authority that were answered, by name.
    pub fn counters(&self) -> [(&'static str, u64); 3] {
        [
            ("acme_orders", self.orders.load(Ordering::Relaxed)),
            ("acme_orders_failed", self.failures.load(Ordering::Relaxed)),
            ("acme_challenges_answered", self.challenges.answered()),
        ]
    }

    /// Has a thread on these cores get what is wanted, for as long as anybody has this. `take` is called when a certificate has
    /// come.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn start(
        self: &Arc<Self>,
        cores: &[usize],
        take: impl Fn() + Send + 'static,
    ) -> Result<(), Error> {
        let acme = Arc::downgrade(self);
        let keep = move || {
            let mut keeper = Keeper::default();
            while let Some(acme) = acme.upgrade() {
                if acme.turn(&mut keeper) {
                    take();
                }
                drop(acme);
                std::thread::sleep(ACME_TIME);
            }
        };
        let started = affinity::spawn("acme", cores, keep);
        let what = "cannot start getting certificates";
        started.map(drop).map_err(|e| Error::io(what, e))
    }

    /// Does what is due; true when a certificate has come.
    fn turn(&self, keeper: &mut Keeper) -> bool {
        let wanted = lock(&self.wanted).clone();
        if let Ok(challenges) = wanted.store.challenges() {
            self.challenges.set(challenges);
        }
        keeper.know(&wanted);
        *lock(&self.shown) = keeper.shown();
        let now = now();
        let Some(name) = keeper.due(now).map(|entry| entry.shown.name.clone()) else {
            return false;
        };
        let has_come = match wanted.store.lock() {
            Ok(Some(lock)) => {
                // Another process may have done it, or have failed, meanwhile.
                keeper.look(&wanted, &name, false);
                let is_due = keeper.due(now).is_some_and(|it| it.shown.name == name);
                is_due && self.order(keeper, &wanted, &name, &lock)
            }
            // Another process orders.
            Ok(None) => false,
            Err(error) => {
                let failed = Failed::here(format!("cannot lock the folder: {error}"));
                keeper.fail(&wanted, &name, &failed);
                false
            }
        };
        *lock(&self.shown) = keeper.shown();
        has_come
    }

    /// Orders a certificate; true when it has come.
    fn order(
        &self,
        keeper: &mut Keeper,
        wanted: &Wanted,
        name: &str,
        lock: &super::store::Lock,
    ) -> bool {
        let shop = Shop {
            config: &wanted.config,
            store: &wanted.store,
            challenges: &self.challenges,
            _lock: lock,
        };
        let kind = keeper.kind(&wanted.config, name);
        self.orders.fetch_add(1, Ordering::Relaxed);
        match shop.order(name, kind) {
            Ok(()) => {
                keeper.succeed(wanted, name, kind);
                true
            }
            Err(failed) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                keeper.fail(wanted, name, &failed);
                false
            }
        }
    }
}

/// What the thread knows of each name.
#[derive(Debug, Default)]
struct Keeper {
    entries: HashMap<String, Entry>,
    /// Of what that is known.
    store: Option<Store>,
    /// For numbers that no other process has.
    random: RandomState,
}

#[derive(Debug, Default)]
struct Entry {
    shown: Shown,
    /// How the authority asked last without finding this server.
    not_found_by: Option<Kind>,
    /// As they are written, those first that come first.
    place: usize,
    is_wanted: bool,
}

impl Keeper {
    /// Looks at names that are wanted and not known yet, and forgets others.
    fn know(&mut self, wanted: &Wanted) {
        if self.store.as_ref() != Some(&wanted.store) {
            // Another authority, or another folder of one.
            self.entries.clear();
            self.store = Some(wanted.store.clone());
        }
        self.entries
            .values_mut()
            .for_each(|it| it.is_wanted = false);
        for (place, managed) in wanted.names.iter().enumerate() {
            if !self.entries.contains_key(&managed.name) {
                self.look(wanted, &managed.name, true);
            }
            if let Some(entry) = self.entries.get_mut(&managed.name) {
                (entry.is_wanted, entry.place) = (true, place);
            }
        }
        self.entries.retain(|_, it| it.is_wanted);
    }

    /// Sees what there is of a name on the disk. At a start a few failures are forgiven.
    fn look(&mut self, wanted: &Wanted, name: &str, is_start: bool) {
        let validity = validity_of(&wanted.store, name);
        let record = wanted.store.record(name);
        let at = validity.map_or(0, |it| renew_at(it, self.spread(name, it.until)));
        let is_forgiven = is_start && record.failures <= ACME_FAILURES_FORGIVEN;
        let next_order = match is_forgiven {
            true => at,
            false => at.max(record.next_try),
        };
        let entry = self.entries.entry(name.to_owned()).or_default();
        entry.shown = Shown {
            name: name.to_owned(),
            expires: validity.map(|it| it.until),
            next_order,
            failures: record.failures,
            error: (record.failures > 0).then_some(record.error),
        };
        entry.not_found_by = record.not_found_by;
    }

    /// The first that is to be ordered now, by when it was to be.
    fn due(&self, now: UnixSecs) -> Option<&Entry> {
        let due = self
            .entries
            .values()
            .filter(|it| it.shown.next_order <= now);
        due.min_by_key(|it| (it.shown.next_order, it.place))
    }

    /// How the authority is to ask: as the configuration says; else by what our ports are, and by the other where it did not find
    /// this server so.
    fn kind(&self, config: &AcmeConfig, name: &str) -> Kind {
        let failed = self.entries.get(name).and_then(|it| it.not_found_by);
        let first = failed.map_or(config.first, Kind::other);
        config.challenge.unwrap_or(first)
    }

    fn succeed(&mut self, wanted: &Wanted, name: &str, kind: Kind) {
        if let Err(error) = wanted.store.set_record(name, &Record::default()) {
            exos_program::warn!("exos serve: cannot forget what has failed for {name}: {error}");
        }
        self.look(wanted, name, false);
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let (now, shown) = (now(), &mut entry.shown);
        // By a clock that goes wrong it may be due at once.
        shown.next_order = shown
            .next_order
            .max(now + ACME_ORDERS_APART.as_secs() as UnixSecs);
        let until = |at: UnixSecs| length((at - now).max(0));
        exos_program::info!(
            "exos serve: a certificate of {name} has come, by {}; it is valid for {}, and is renewed in {}",
            kind.name(),
            until(shown.expires.unwrap_or(now)),
            until(shown.next_order),
        );
    }

    fn fail(&mut self, wanted: &Wanted, name: &str, failed: &Failed) {
        let kind = self.kind(&wanted.config, name);
        let entry = self.entries.get(name);
        let failures = entry.map_or(0, |it| it.shown.failures).saturating_add(1);
        let not_found_by = match failed.failure {
            Failure::NotFound => Some(kind),
            _ => entry.and_then(|it| it.not_found_by),
        };
        let now = now();
        let spread = self.spread(name, now);
        let wait = wait_after(failures, failed.failure, failed.wait, spread).as_secs() as i64;
        let record = Record {
            failures,
            next_try: now + wait,
            error: failed.what.clone(),
            not_found_by,
        };
        exos_program::warn!(
            "exos serve: no certificate for {name}: {}; the next attempt is in {}",
            failed.what,
            length(wait)
        );
        if let Err(error) = wanted.store.set_record(name, &record) {
            exos_program::warn!("exos serve: cannot keep what has failed for {name}: {error}");
        }
        if let Some(entry) = self.entries.get_mut(name) {
            entry.shown.failures = failures;
            entry.shown.next_order = record.next_try;
            entry.shown.error = Some(record.error);
            entry.not_found_by = not_found_by;
        }
    }

    /// Some number, the same one for the same things.
    fn spread(&self, name: &str, at: UnixSecs) -> u64 {
        self.random.hash_one((name, at))
    }

    fn shown(&self) -> Vec<Shown> {
        let mut all: Vec<&Entry> = self.entries.values().collect();
        all.sort_by_key(|it| it.place);
        all.into_iter().map(|it| it.shown.clone()).collect()
    }
}

/// How long the certificate of a name is valid; nothing where there is none that can be used.
fn validity_of(store: &Store, name: &str) -> Option<Validity> {
    let file = store.certificate(name);
    let certificates = files::certificates(&file).ok()?;
    validity(certificates.first()?)
}

fn now() -> UnixSecs {
    clock::unix_secs() as UnixSecs
}

/// A length of time for people.
fn length(secs: i64) -> String {
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use exos_program::UserArgs;
    use exos_tls::self_signed;

    use super::*;

    const DAY: UnixSecs = 24 * 3600;

    /// A folder, and what is wanted there.
    fn wanted(names: &[&str]) -> (tempfile::TempDir, Wanted) {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let text = format!(
            "[acme]\nstate = \"{}\"\n[[site]]\nroot = \"a\"\nnames = [{}]",
            folder.path().join("state").display(),
            names.join(", ")
        );
        let config = Config::parse("/x/serve.toml".as_ref(), &text).unwrap();
        let wanted = Wanted::of(&config).unwrap();
        wanted.store.make(&UserArgs::default()).unwrap();
        (folder, wanted)
    }

    /// A certificate comes that is valid for a year, since yesterday.
    fn certify(wanted: &Wanted, name: &str) {
        let (certificate, _) = self_signed::certificate(&[name.to_owned()]).unwrap();
        let text = BASE64_STANDARD.encode(&certificate);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        wanted.store.set_certificate(name, pem.as_bytes()).unwrap();
    }

    fn failed(failure: Failure) -> Failed {
        Failed {
            what: "of this test".to_owned(),
            failure,
            wait: None,
        }
    }

    #[test]
    fn names_without_a_certificate_come_first_and_others_in_time() {
        let (_folder, wanted) = wanted(&["a.test", "b.test", "c.test"]);
        certify(&wanted, "a.test");
        let mut keeper = Keeper::default();
        keeper.know(&wanted);
        let due = |keeper: &Keeper, at| keeper.due(at).map(|it| it.shown.name.clone());
        assert_eq!(due(&keeper, now()).as_deref(), Some("b.test"));
        certify(&wanted, "b.test");
        keeper.succeed(&wanted, "b.test", Kind::Http);
        assert_eq!(due(&keeper, now()).as_deref(), Some("c.test"));
        certify(&wanted, "c.test");
        keeper.succeed(&wanted, "c.test", Kind::Http);
        assert_eq!(due(&keeper, now() + 200 * DAY), None);
        assert!(
            due(&keeper, now() + 250 * DAY).is_some(),
            "two thirds are over"
        );
        assert!(keeper.shown().iter().all(|it| it.error.is_none()));
        // Another authority has given none of them.
        let other = Wanted {
            names: wanted.names.clone(),
            config: wanted.config.clone(),
            store: Store::of(&wanted.config.state, "https://other.test/dir"),
        };
        keeper.know(&other);
        assert_eq!(due(&keeper, now()).as_deref(), Some("a.test"));
        // A name that is wanted no more is forgotten, and so is what cannot be read.
        let fewer = Wanted {
            names: wanted.names[1..].to_vec(),
            config: wanted.config.clone(),
            store: wanted.store.clone(),
        };
        keeper.know(&fewer);
        assert_eq!(keeper.shown().len(), 2);
        wanted.store.set_certificate("a.test", b"broken").unwrap();
        keeper.know(&wanted);
        assert_eq!(due(&keeper, now()).as_deref(), Some("a.test"));
    }

    #[test]
    fn failures_are_forgiven_at_a_start_and_many_are_not() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Keeper::default();
        for failures in 1..=5 {
            keeper.know(&wanted);
            assert!(keeper.due(now()).is_some() || failures > 1);
            keeper.fail(&wanted, "a.test", &failed(Failure::Refused));
            assert!(keeper.due(now()).is_none(), "it waits");
            let shown = keeper.shown().remove(0);
            assert_eq!(shown.failures, failures);
            assert_eq!(shown.error.as_deref(), Some("of this test"));
            let mut started = Keeper::default();
            started.know(&wanted);
            let is_due = started.due(now()).is_some();
            assert_eq!(is_due, failures <= ACME_FAILURES_FORGIVEN, "{failures}");
            // Another process that has the lock next sees it.
            started.look(&wanted, "a.test", false);
            assert!(started.due(now()).is_none());
        }
        certify(&wanted, "a.test");
        keeper.succeed(&wanted, "a.test", Kind::Http);
        assert_eq!(keeper.shown()[0].failures, 0);
        assert_eq!(wanted.store.record("a.test"), Record::default());
    }

    #[test]
    fn the_other_way_is_taken_where_the_authority_did_not_find_us() {
        let (_folder, wanted) = wanted(&["a.test"]);
        let mut keeper = Keeper::default();
        keeper.know(&wanted);
        for (failure, next) in [
            (Failure::Unreached, Kind::Http),
            (Failure::Refused, Kind::Http),
            (Failure::NotFound, Kind::TlsAlpn),
            (Failure::Unreached, Kind::TlsAlpn),
            (Failure::NotFound, Kind::Http),
        ] {
            keeper.fail(&wanted, "a.test", &failed(failure));
            assert_eq!(keeper.kind(&wanted.config, "a.test"), next, "{failure:?}");
        }
        let mut config = wanted.config.clone();
        config.challenge = Some(Kind::TlsAlpn);
        assert_eq!(keeper.kind(&config, "a.test"), Kind::TlsAlpn, "as is said");
    }

    #[test]
    fn times_are_for_people() {
        for (secs, text) in [
            (90, "90 s"),
            (300, "5 min"),
            (3 * 3600, "3 h"),
            (60 * DAY, "60 days"),
        ] {
            assert_eq!(length(secs), text);
        }
    }
}
