//! Orders that are under way, each on a thread of its own. One of them speaks with the authority at a time; while it waits for the program that
//! answers in DNS, and that takes long, the next begins: a program that hangs for one name holds no other up.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::challenges::Kind;
use super::keeper::{Acme, Wanted};
use super::order::Failed;
use super::store::Lock;
use crate::limits::{ACME_ORDERS_MAX, ACME_PATIENCE};

/// That an order may do something, which one may at a time.
pub(super) struct Turn<'a> {
    turns: &'a Mutex<()>,
    held: Cell<Option<MutexGuard<'a, ()>>>,
}

impl<'a> Turn<'a> {
    /// Waits for it.
    pub(super) fn of(turns: &'a Mutex<()>) -> Self {
        Self {
            turns,
            held: Cell::new(Some(lock(turns))),
        }
    }

    /// Waits for another program, while others may do something.
    pub(super) fn aside<R>(&self, wait: impl FnOnce() -> R) -> R {
        drop(self.held.take());
        let waited = wait();
        self.held.set(Some(lock(self.turns)));
        waited
    }
}

fn lock(turns: &Mutex<()>) -> MutexGuard<'_, ()> {
    turns.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The orders of a process.
#[derive(Debug)]
pub(super) struct Orders {
    under_way: Vec<(Order, JoinHandle<Result<(), Failed>>)>,
    /// How long those under way are waited for before another begins.
    patience: Duration,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) wanted: Arc<Wanted>,
    /// No other process orders while there is one in this folder.
    lock: Arc<Lock>,
    begun: Instant,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            under_way: Vec::new(),
            patience: ACME_PATIENCE,
        }
    }
}

impl Orders {
    /// None is under way.
    pub(super) fn are_over(&self) -> bool {
        self.under_way.is_empty()
    }

    /// One of this name is under way.
    pub(super) fn have(&self, name: &str) -> bool {
        self.under_way.iter().any(|(it, _)| it.name == name)
    }

    /// Another may begin: those under way have taken long, if there are any.
    pub(super) fn may_begin(&self) -> bool {
        let mut all = self.under_way.iter();
        self.under_way.len() < ACME_ORDERS_MAX
            && all.all(|(it, _)| it.begun.elapsed() >= self.patience)
    }

    /// The lock of this folder, where an order in it is under way.
    pub(super) fn lock(&self, wanted: &Wanted) -> Option<Arc<Lock>> {
        let mut all = self.under_way.iter();
        let found = all.find(|(it, _)| it.wanted.store == wanted.store);
        found.map(|(it, _)| it.lock.clone())
    }

    /// Begins one.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub(super) fn begin(
        &mut self,
        acme: &Arc<Acme>,
        wanted: &Arc<Wanted>,
        (name, kind): (&str, Kind),
        lock: Arc<Lock>,
    ) -> Result<(), Failed> {
        let is_first = self.are_over();
        let work = {
            let (acme, wanted, name) = (acme.clone(), wanted.clone(), name.to_owned());
            let lock = lock.clone();
            move || acme.shop(&wanted).order(&name, kind, is_first, &lock)
        };
        let thread = Builder::new().name("acme-order".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Failed::here(format!("cannot begin an order: {e}")))?;
        let order = Order {
            name: name.to_owned(),
            kind,
            wanted: wanted.clone(),
            lock,
            begun: Instant::now(),
        };
        self.under_way.push((order, thread));
        Ok(())
    }

    /// Takes out one that has ended, with what it came to.
    pub(super) fn take_ended(&mut self) -> Option<(Order, Result<(), Failed>)> {
        let mut all = self.under_way.iter();
        let at = all.position(|(_, thread)| thread.is_finished())?;
        let (order, thread) = self.under_way.remove(at);
        // An error of this program is the keeper's, too.
        let made = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        Some((order, made))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// While one waits for its program, another does something; and none while one does.
    #[test]
    fn one_has_its_turn_while_another_waits() {
        let turns = Mutex::new(());
        let turn = Turn::of(&turns);
        assert!(turns.try_lock().is_err());
        std::thread::scope(|threads| {
            let (say, hear) = channel();
            let turns = &turns;
            let other = threads.spawn(move || {
                let _turn = Turn::of(turns);
                say.send(()).unwrap();
            });
            turn.aside(|| hear.recv().unwrap());
            other.join().unwrap();
        });
        assert!(turns.try_lock().is_err(), "it has it again");
        drop(turn);
        assert!(turns.try_lock().is_ok());
    }
}
