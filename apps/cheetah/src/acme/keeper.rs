//! The thread that gets certificates and renews them, and what is shown of it; and the one that takes up challenges meanwhile.

use std::io;
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
use super::orders::{Order, Orders, Turn};
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
    turns: Mutex<()>,
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

    /// Has no other process order in the folder; nothing where one does.
    fn lock(&self) -> io::Result<Option<Arc<Lock>>> {
        Ok(self.store.lock()?.map(Arc::new))
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
            turns: Mutex::default(),
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
            let (mut known, mut orders) = (Known::default(), Orders::default());
            while let Some(acme) = acme.upgrade() {
                let turn = AssertUnwindSafe(|| acme.turn(&mut known, &mut orders));
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
    fn turn(self: &Arc<Self>, known: &mut Known, orders: &mut Orders) -> bool {
        let wanted = lock(&self.wanted).clone();
        if known.know(&wanted) {
            self.show_account(&wanted);
        }
        let mut has_come = false;
        while let Some((order, made)) = orders.take_ended() {
            has_come |= self.take(known, &wanted, &order, made);
        }
        self.show(known);
        let due = known.due(now(), |name| orders.have(name));
        match due.map(|it| it.shown.name.clone()) {
            Some(name) if orders.may_begin() => self.begin_if_free(known, orders, &wanted, &name),
            None if orders.are_over() => self.ask_advice(known, &wanted),
            _ => {}
        }
        self.show(known);
        has_come
    }

    /// Begins to order a certificate, unless another process orders.
    fn begin_if_free(
        self: &Arc<Self>,
        known: &mut Known,
        orders: &mut Orders,
        wanted: &Arc<Wanted>,
        name: &str,
    ) {
        let begun = match orders
            .lock(wanted)
            .map_or_else(|| wanted.lock(), |lock| Ok(Some(lock)))
        {
            Ok(Some(lock)) => {
                // Another process may have done it, or have failed, meanwhile.
                known.look(wanted, name, false);
                let due = known.due(now(), |name| orders.have(name));
                if due.is_none_or(|it| it.shown.name != name) {
                    return;
                }
                let kind = known.kind(&wanted.config, name);
                self.orders.fetch_add(1, Ordering::Relaxed);
                orders.begin(self, wanted, (name, kind), lock)
            }
            Ok(None) => Ok(()),
            Err(error) => Err(Failed::here(format!("cannot lock the folder: {error}"))),
        };
        if let Err(failed) = begun {
            known.fail(wanted, name, &failed);
        }
    }

    /// Takes what an order came to; true when a certificate has come.
    fn take(
        &self,
        known: &mut Known,
        wanted: &Wanted,
        order: &Order,
        made: Result<(), Failed>,
    ) -> bool {
        self.failures
            .fetch_add(u64::from(made.is_err()), Ordering::Relaxed);
        self.show_account(wanted);
        let has_come = made.is_ok();
        if order.wanted.store == wanted.store {
            match made {
                Ok(()) => known.succeed(wanted, &order.name, order.kind),
                Err(failed) => known.fail(wanted, &order.name, &failed),
            }
        }
        has_come
    }

    /// Asks the authority when to renew one of the certificates for which that is due.
    fn ask_advice(&self, known: &mut Known, wanted: &Wanted) {
        if let Some(name) = known.to_ask_about(now()) {
            let advised = self.shop(wanted).advice(&name);
            known.advise(wanted, &name, advised);
        }
    }

    /// What an order is made with, when it has its turn.
    pub(super) fn shop<'a>(&'a self, wanted: &'a Wanted) -> Shop<'a> {
        Shop {
            config: &wanted.config,
            store: &wanted.store,
            challenges: &self.challenges,
            ways: &self.ways,
            turn: Turn::of(&self.turns),
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
