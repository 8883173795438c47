//! The thread that gets certificates and renews them; and the one that takes up challenges meanwhile.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exos::Error;
use exos_host::affinity;

use super::budget::Asked;
use super::known::Known;
use super::obstacle::Failed;
use super::ordering::{Authority, Order, Orders};
use super::schedule::{Failure, length, now};
use super::state::{Account, Acme, lock};
use super::wanted::Wanted;
use crate::limits::{ACME_ORDERS_BEGUN_MAX, ACME_TIME};

impl Acme {
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
                // Where the folder cannot be read, an order says so.
                let _ = acme.hear_challenges();
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

    /// Does what is due; true when a certificate has come.
    fn turn(self: &Arc<Self>, known: &mut Known, orders: &mut Orders) -> bool {
        let wanted = self.wanted();
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
        let held = orders.lock(wanted);
        let begun = match held.map_or_else(|| wanted.lock(), |lock| Ok(Some(lock))) {
            Ok(Some(lock)) => {
                // Another process may have done it, or have failed, meanwhile.
                known.look(wanted, name, false);
                let due = known.due(now(), |name| orders.have(name));
                if due.is_none_or(|it| it.shown.name != name) {
                    return;
                }
                if known.put_off(wanted, name) {
                    return;
                }
                let wait = wanted.store.budget().wait(Asked::Order, now());
                if wait > 0 {
                    known.rest(wait);
                    exos_program::warn!(
                        "exos serve: {ACME_ORDERS_BEGUN_MAX} certificates were ordered of {} lately, and it bounds that; the next is ordered in {}",
                        wanted.config.directory,
                        length(wait)
                    );
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
        self.show_account(wanted);
        let has_come = made.is_ok();
        let is_wanted = wanted.has(&order.wanted.store, &order.name);
        match made {
            Ok(()) if is_wanted => known.succeed(wanted, &order.name, order.kind),
            Ok(()) => exos_program::info!(
                "exos serve: a certificate of {} has come from {}, and is kept, though the configuration wants none any more",
                order.name,
                order.wanted.config.directory
            ),
            Err(failed) if failed.failure == Failure::Unwanted => exos_program::info!(
                "exos serve: the order of a certificate of {} from {} has ended, for the configuration wants none any more",
                order.name,
                order.wanted.config.directory
            ),
            // Also of one that is not wanted any more: the authority counts it.
            Err(failed) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                known.fail(&order.wanted, &order.name, &failed);
            }
        }
        has_come
    }

    /// Asks the authority when to renew one of the certificates for which that is due.
    fn ask_advice(&self, known: &mut Known, wanted: &Wanted) {
        if let Some(name) = known.to_ask_about(now()) {
            let advised = Authority::of(self, wanted).advice(&name);
            known.advise(wanted, &name, advised);
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
