//! The thread that gets certificates and renews them, and what is shown of it; and the one that takes up challenges meanwhile.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exos::Error;
use exos_host::affinity;
use exos_tls::certificate::UnixSecs;

use super::calls::{Desk, Ways};
use super::challenges::Challenges;
use super::known::{Known, now};
use super::order::{Failed, Shop};
use super::store::{Contact, Lock, Store};
use crate::config::{AcmeConfig, Config, Managed};
use crate::limits::ACME_TIME;

/// What all of a process have of its certificates that come by themselves.
#[derive(Debug)]
pub struct Acme {
    challenges: Challenges,
    wanted: Mutex<Arc<Wanted>>,
    shown: Mutex<Vec<Shown>>,
    account: Mutex<Option<Account>>,
    ways: Arc<Ways>,
    orders: AtomicU64,
    failures: AtomicU64,
}

/// What is to be had, by the configuration.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) config: AcmeConfig,
    pub(super) names: Vec<Managed>,
    pub(super) store: Store,
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

impl Wanted {
    pub(super) fn of(config: &Config) -> Option<Wanted> {
        let acme = config.acme.clone()?;
        Some(Wanted {
            names: config.managed().cloned().collect(),
            store: acme.store(),
            config: acme,
        })
    }
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
    /// As of [`Acme::of`].
    pub fn reload(&self, config: &Config) -> Result<(), Error> {
        let Some(wanted) = Wanted::of(config) else {
            return Ok(());
        };
        // Privilege was given up, if it was to be.
        wanted.config.check_hook(&Default::default())?;
        wanted.store.make(&Default::default())?;
        *lock(&self.wanted) = Arc::new(wanted);
        Ok(())
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
        let fail = |e| Error::io("cannot start getting certificates", e);
        // What is asked of others is answered while this one waits for an authority.
        let listening = acme.clone();
        let listen = move || {
            while let Some(acme) = listening.upgrade() {
                acme.hear_challenges();
                drop(acme);
                std::thread::sleep(ACME_TIME);
            }
        };
        affinity::spawn("acme-challenges", cores, listen).map_err(fail)?;
        let keep = move || {
            let mut known = Known::default();
            while let Some(acme) = acme.upgrade() {
                let turn = AssertUnwindSafe(|| acme.turn(&mut known));
                match panic::catch_unwind(turn) {
                    Ok(true) => take(),
                    Ok(false) => {}
                    // What it was about may lead there again.
                    Err(_) => {
                        exos_program::error!(
                            "exos serve: the thread that gets certificates has failed, by an error of this program; nothing is renewed until a restart"
                        );
                        return;
                    }
                }
                drop(acme);
                std::thread::sleep(ACME_TIME);
            }
        };
        let started = affinity::spawn("acme", cores, keep);
        started.map(drop).map_err(fail)
    }

    /// Takes up what the authority asks any process of this folder.
    fn hear_challenges(&self) {
        let wanted = lock(&self.wanted).clone();
        // Where the folder cannot be read, an order says so.
        let _ = self.challenges.take_up(|| wanted.store.challenges());
    }

    /// Does what is due; true when a certificate has come.
    fn turn(&self, known: &mut Known) -> bool {
        let wanted = lock(&self.wanted).clone();
        if known.know(&wanted) {
            self.show_account(&wanted);
        }
        self.show(known);
        let now = now();
        let has_come = match known.due(now).map(|it| it.shown.name.clone()) {
            Some(name) => self.order_if_free(known, &wanted, &name),
            None => {
                self.ask_advice(known, &wanted);
                false
            }
        };
        self.show(known);
        has_come
    }

    /// Orders a certificate, unless another process orders; true when it has come.
    fn order_if_free(&self, known: &mut Known, wanted: &Wanted, name: &str) -> bool {
        match wanted.store.lock() {
            Ok(Some(lock)) => {
                // Another process may have done it, or have failed, meanwhile.
                known.look(wanted, name, false);
                let is_due = known.due(now()).is_some_and(|it| it.shown.name == name);
                is_due && self.order(known, wanted, name, &lock)
            }
            Ok(None) => false,
            Err(error) => {
                let failed = Failed::here(format!("cannot lock the folder: {error}"));
                known.fail(wanted, name, &failed);
                false
            }
        }
    }

    /// Orders a certificate; true when it has come.
    fn order(&self, known: &mut Known, wanted: &Wanted, name: &str, lock: &Lock) -> bool {
        let shop = self.shop(wanted);
        let kind = known.kind(&wanted.config, name);
        self.orders.fetch_add(1, Ordering::Relaxed);
        let made = shop.order(name, kind, lock);
        self.show_account(wanted);
        match made {
            Ok(()) => {
                known.succeed(wanted, name, kind);
                true
            }
            Err(failed) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                known.fail(wanted, name, &failed);
                false
            }
        }
    }

    /// Asks the authority when to renew one of the certificates for which that is due.
    fn ask_advice(&self, known: &mut Known, wanted: &Wanted) {
        if let Some(name) = known.to_ask_about(now()) {
            let advised = self.shop(wanted).advice(&name);
            known.advise(wanted, &name, advised);
        }
    }

    fn shop<'a>(&'a self, wanted: &'a Wanted) -> Shop<'a> {
        Shop {
            config: &wanted.config,
            store: &wanted.store,
            challenges: &self.challenges,
            ways: &self.ways,
        }
    }

    fn show(&self, known: &Known) {
        *lock(&self.shown) = known.shown();
    }

    fn show_account(&self, wanted: &Wanted) {
        *lock(&self.account) = Some(Account {
            directory: wanted.config.directory.clone(),
            contact: wanted.store.contact().filter(|it| !it.is_refused),
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
