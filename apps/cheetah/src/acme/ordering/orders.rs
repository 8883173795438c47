//! Orders that are under way, each on a thread of its own. One of them speaks with the authority at a time; while it waits for the program that
//! answers in DNS, and that takes long, the next begins: a program that hangs for one name holds no other up.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::order::Authority;
use crate::acme::challenges::{Challenge, Kind};
use crate::acme::hook::is_same_record;
use crate::acme::obstacle::Failed;
use crate::acme::state::{Acme, lock};
use crate::acme::store::Lock;
use crate::acme::wanted::Wanted;
use crate::limits::{ACME_ORDERS_MAX, ACME_PATIENCE};

/// What an order comes to.
type Made = Result<(), Failed>;

/// The orders of a process.
#[derive(Debug)]
pub(in crate::acme) struct Orders {
    under_way: Vec<(Arc<Order>, JoinHandle<Made>)>,
    /// How long those under way are waited for before another begins.
    patience: Duration,
}

/// One of them.
#[derive(Debug)]
pub(in crate::acme) struct Order {
    pub(in crate::acme) name: String,
    pub(in crate::acme) kind: Kind,
    pub(in crate::acme) wanted: Arc<Wanted>,
    /// Challenges that it has go first, until that is done: of a process that was killed.
    leftovers: Mutex<Vec<Challenge>>,
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
    pub(in crate::acme) fn are_over(&self) -> bool {
        self.under_way.is_empty()
    }

    /// One of this name is under way, of whatever folder, or one that sets or takes away the same record in DNS: what ends one of two would
    /// take away what the other has set.
    pub(in crate::acme) fn have(&self, name: &str) -> bool {
        let is_of = |(it, _): &(Arc<Order>, _)| {
            let is_same = |other: &str| is_same_record(other, name);
            is_same(&it.name) || lock(&it.leftovers).iter().any(|left| is_same(&left.name))
        };
        self.under_way.iter().any(is_of)
    }

    /// Another may begin: those under way have taken long, if there are any.
    pub(in crate::acme) fn may_begin(&self) -> bool {
        let mut all = self.under_way.iter();
        self.under_way.len() < ACME_ORDERS_MAX
            && all.all(|(it, _)| it.begun.elapsed() >= self.patience)
    }

    /// The lock of this folder, where an order in it is under way.
    pub(in crate::acme) fn lock(&self, wanted: &Wanted) -> Option<Arc<Lock>> {
        let mut all = self.under_way.iter();
        let found = all.find(|(it, _)| it.wanted.store == wanted.store);
        found.map(|(it, _)| it.lock.clone())
    }

    /// Begins one, and has it take away what a process has left that was killed: challenges of its own record, and those of names that are not
    /// wanted any more, which no other order would take away.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or there is no thread to be had.
    pub(in crate::acme) fn begin(
        &mut self,
        acme: &Arc<Acme>,
        wanted: &Arc<Wanted>,
        (name, kind): (&str, Kind),
        lock: Arc<Lock>,
    ) -> Result<(), Failed> {
        let leftovers = self.leftovers(wanted, name).map_err(Failed::of_folder)?;
        let order = Order {
            name: name.to_owned(),
            kind,
            wanted: wanted.clone(),
            leftovers: Mutex::new(leftovers),
            lock,
            begun: Instant::now(),
        };
        let (acme, order) = (acme.clone(), Arc::new(order));
        let made = order.clone();
        let work = move || {
            let Order {
                name,
                kind,
                wanted,
                leftovers,
                lock,
                ..
            } = &*made;
            Authority::of(&acme, wanted).order(name, *kind, leftovers, lock)
        };
        let thread = Builder::new().name("acme-order".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Failed::here(format!("cannot begin an order: {e}")))?;
        self.under_way.push((order, thread));
        Ok(())
    }

    /// What an order of this name takes away before it begins, its own first.
    fn leftovers(&self, wanted: &Wanted, name: &str) -> io::Result<Vec<Challenge>> {
        let is_own = |it: &Challenge| is_same_record(&it.name, name);
        let is_wanted = |it: &Challenge| {
            wanted
                .names
                .iter()
                .any(|other| is_same_record(&it.name, &other.name))
        };
        let mut all = wanted.store.challenges()?;
        // Those of names that are under way stay for another time.
        all.retain(|it| is_own(it) || !is_wanted(it) && !self.have(&it.name));
        all.sort_by_key(|it| !is_own(it));
        Ok(all)
    }

    /// Takes out one that has ended, with what it came to.
    pub(in crate::acme) fn take_ended(&mut self) -> Option<(Arc<Order>, Made)> {
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
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::config::Config;

    /// Has an order of a name be under way until what this gives is dropped.
    fn begin(orders: &mut Orders, wanted: &Arc<Wanted>, name: &str) -> Sender<()> {
        begin_with(orders, wanted, (name, Vec::new()))
    }

    fn begin_with(
        orders: &mut Orders,
        wanted: &Arc<Wanted>,
        (name, leftovers): (&str, Vec<Challenge>),
    ) -> Sender<()> {
        let (end, ends) = channel();
        let order = Order {
            name: name.to_owned(),
            kind: Kind::Dns,
            wanted: wanted.clone(),
            leftovers: Mutex::new(leftovers),
            lock: Arc::new(wanted.store.lock().unwrap().unwrap()),
            begun: Instant::now(),
        };
        let wait = move || {
            let _ = ends.recv();
            Ok(())
        };
        let thread = std::thread::spawn(wait);
        orders.under_way.push((Arc::new(order), thread));
        end
    }

    /// What a process has left that was killed.
    fn left(name: &str) -> Challenge {
        Challenge {
            kind: Kind::Dns,
            name: name.to_owned(),
            token: name.replace(['.', '*'], "_"),
            key_authorization: "value".to_owned(),
        }
    }

    /// What is wanted of a folder for each authority.
    fn wanted(folder: &std::path::Path, authority: usize) -> Arc<Wanted> {
        let text = format!(
            "[acme]\nstate = \"state\"\ndirectory = \"https://{authority}.test/\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]"
        );
        let config = Config::parse(&folder.join("serve.toml"), &text).unwrap();
        let wanted = Wanted::of(&config).unwrap();
        wanted.store.make(&config.user).unwrap();
        Arc::new(wanted)
    }

    #[test]
    fn as_many_are_under_way_as_may_be_where_each_takes_long() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = Orders::default();
        let first = begin(&mut orders, &wanted(folder.path(), 0), "0.test");
        assert!(!orders.may_begin(), "it has not taken long yet");
        orders.patience = Duration::ZERO;
        let mut ends = vec![first];
        while orders.may_begin() {
            let count = ends.len();
            let name = format!("{count}.test");
            ends.push(begin(&mut orders, &wanted(folder.path(), count), &name));
        }
        assert_eq!(ends.len(), ACME_ORDERS_MAX);
        ends.remove(3);
        let ended = loop {
            match orders.take_ended() {
                Some((order, made)) => break (order.name.clone(), made.is_ok()),
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(ended, ("3.test".to_owned(), true));
        assert!(orders.may_begin());
    }

    /// Of a name one is under way at a time, whatever authority it is of: the end of one would take away what the other has set.
    #[test]
    fn orders_of_one_record_are_not_under_way_together() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = Orders::default();
        let before = wanted(folder.path(), 0);
        let _end = begin(&mut orders, &before, "*.a.test");
        assert!(orders.have("*.a.test") && orders.have("a.test"));
        assert!(!orders.have("b.a.test"));
        assert!(orders.lock(&before).is_some());
        let now = wanted(folder.path(), 1);
        assert!(orders.lock(&now).is_none(), "another folder");
        let _end = begin_with(&mut orders, &now, ("d.test", vec![left("c.test")]));
        assert!(orders.have("c.test"), "what a process has left is cleared");
        lock(&orders.under_way[1].0.leftovers).clear();
        assert!(!orders.have("c.test"), "that is done");
    }

    /// A program that hangs for one name holds up orders of that name, and no others that are wanted.
    #[test]
    fn an_order_takes_away_what_is_left_of_its_own_and_of_what_nobody_wants() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[acme]\nstate = \"state\"\ndns_hook = \"/bin/true\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\", \"*.a.test\", \"b.test\"]";
        let config = Config::parse(&folder.path().join("serve.toml"), text).unwrap();
        let wanted = Arc::new(Wanted::of(&config).unwrap());
        wanted.store.make(&config.user).unwrap();
        for name in ["a.test", "b.test", "old.test", "*.a.test", "older.test"] {
            let left = left(name);
            wanted.store.add_challenge(&left).unwrap();
        }
        let mut orders = Orders::default();
        let names = |orders: &Orders, name| {
            let all = orders.leftovers(&wanted, name).unwrap();
            all.into_iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&orders, "*.a.test"),
            ["*.a.test", "a.test", "old.test", "older.test"]
        );
        let _end = begin_with(&mut orders, &wanted, ("a.test", vec![left("old.test")]));
        assert_eq!(names(&orders, "b.test"), ["b.test", "older.test"]);
    }
}
