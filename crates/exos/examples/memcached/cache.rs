//! The items, and what the kernel answers of them.

use std::collections::{BTreeSet, HashMap};

use exos::inet::tcp::ListenerId;
use exos::{Error, Exos};

use super::answers::{Answers, Shape};
use super::connections::Connections;
use super::item::Item;

/// What an item is counted as besides its key and value: what keeps it takes about as much.
const ITEM_BYTES: usize = 100;
/// How many seconds before an item expires the kernel does not answer with it any more: so long may pass between two turns of the program.
const AHEAD: u64 = 2;

/// The cache is as full as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFull;

/// Items under keys.
#[derive(Debug)]
pub struct Cache {
    pub(super) items: HashMap<Vec<u8>, Kept>,
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    /// The last number that an item was given.
    pub(super) unique: u64,
    /// When all that there is then goes.
    flush: Option<u64>,
    /// Keys of items that expire, by when, but for those that are about to.
    expiring: BTreeSet<(u64, Vec<u8>)>,
    /// The time that the program last said for the kernel's part.
    told: Option<u64>,
    answers: Option<Answers>,
    connections: Option<Connections>,
}

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) item: Item,
    /// Another one after each change.
    pub(super) unique: u64,
}

impl Cache {
    /// An empty one, for keys and values of this many bytes together, counting 100 more for each item.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            items: HashMap::new(),
            bytes: 0,
            bytes_max,
            unique: 0,
            flush: None,
            expiring: BTreeSet::new(),
            told: None,
            answers: None,
            connections: None,
        }
    }

    /// Has the kernel answer what it can of what comes to this port, from now on; with items that expire once it was [told](Self::tell_kernel)
    /// the time, and they are asked for.
    ///
    /// # Errors
    ///
    /// As [`Exos::download_into_kernel`]; or the kernel does not tell when a row is out of use (`membarrier`, on machines with `nohz_full`).
    pub fn download(&mut self, exos: &mut Exos, port: u16, shape: Shape) -> Result<(), Error> {
        let mut answers = Answers::download(exos, port, shape)?;
        for (key, kept) in &self.items {
            if self.is_for_kernel(&kept.item) {
                answers.put(key, &kept.item);
            }
        }
        self.answers = Some(answers);
        Ok(())
    }

    /// Has the kernel answer what it can of what comes to this listener's connections, from now on, and as the cache does when it was told
    /// ([`tell_kernel`](Self::tell_kernel)). [`download`](Self::download) comes after it. The kernel's part
    /// and the stack have together as many connections as the stack may have now.
    ///
    /// # Errors
    ///
    /// As [`Exos::answer_requests_in_kernel`].
    pub fn answer_connections_in_kernel(
        &mut self,
        exos: &mut Exos,
        listener: ListenerId,
        shape: Shape,
    ) -> Result<(), Error> {
        let mut connections = Connections::answer(exos, listener, shape)?;
        for key in self.items.keys() {
            connections.note(key);
        }
        self.connections = Some(connections);
        Ok(())
    }

    /// Has the kernel answer connections as the cache does by now, in seconds since 1970: after commands were handled, before their answers
    /// leave ([`Exos::send`]), and once a second at least, without which nothing is answered there. Neither there nor over UDP an item is answered with that has expired, unless
    /// more than two seconds pass between two calls.
    pub fn tell_kernel(&mut self, exos: &mut Exos, now: u64) {
        if self.told.is_some_and(|told| now < told) {
            // The clock was set back.
            let all = |(key, kept): (&Vec<u8>, &Kept)| Some((kept.item.expires?, key.clone()));
            self.expiring = self.items.iter().filter_map(all).collect();
        }
        self.told = Some(now);
        while self
            .expiring
            .first()
            .is_some_and(|(end, _)| *end <= now + AHEAD)
        {
            let due = self.expiring.pop_first();
            due.iter().for_each(|(_, key)| self.take_out(key));
        }
        if let Some(mut connections) = self.connections.take() {
            connections.tell(exos, |key| {
                let kept = self.items.get(key)?;
                self.is_for_kernel(&kept.item).then_some(&kept.item)
            });
            self.connections = Some(connections);
        }
    }

    /// Items that there are, those that have expired counted until they are asked for.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Items that the kernel answers with over UDP.
    pub fn in_kernel(&self) -> usize {
        self.answers.as_ref().map_or(0, Answers::len)
    }

    /// How many `get`s of connections the kernel has answered, as far as it was told lately.
    pub fn connection_gets(&self) -> u64 {
        self.connections.as_ref().map_or(0, Connections::hits)
    }

    /// The item under a key, now, in seconds since 1970. One that the kernel had no room for before may find some.
    pub fn get(&mut self, key: &[u8], now: u64) -> Option<&Item> {
        self.find(key, now).map(|kept| &kept.item)
    }

    pub(super) fn find(&mut self, key: &[u8], now: u64) -> Option<&Kept> {
        self.clear_if_due(now);
        let expires = self.items.get(key)?.item.expires;
        if expires.is_some_and(|end| end <= now) {
            self.delete(key);
            return None;
        }
        self.offer(key, Answers::put_if_missing);
        self.items.get(key)
    }

    /// What is about to go is for the program.
    fn is_for_kernel(&self, item: &Item) -> bool {
        let lasts = |end| self.told.is_some_and(|told| end > told + AHEAD);
        self.flush.is_none() && item.expires.is_none_or(lasts)
    }

    /// The kernel may answer with the item under a key.
    fn offer(&mut self, key: &[u8], put: fn(&mut Answers, &[u8], &Item)) {
        let Some(kept) = self.items.get(key) else {
            return;
        };
        if !self.is_for_kernel(&kept.item) {
            return;
        }
        if let Some(answers) = &mut self.answers {
            put(answers, key, &kept.item);
        }
        if let Some(connections) = &mut self.connections {
            connections.note(key);
        }
    }

    /// Keeps an item under a key of 1 to [`KEY_MAX`](super::item::KEY_MAX) bytes, in place of the one before. Where it has no room, the one before is gone, too:
    /// nobody is to be answered with what has been replaced.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn set(&mut self, key: &[u8], item: Item) -> Result<(), CacheFull> {
        self.delete(key);
        let bytes = size(key, &item);
        if self.bytes + bytes > self.bytes_max {
            return Err(CacheFull);
        }
        self.bytes += bytes;
        self.unique += 1;
        let (expires, unique) = (item.expires, self.unique);
        self.items.insert(key.to_vec(), Kept { item, unique });
        self.note_expiry(key, expires);
        self.offer(key, Answers::put);
        Ok(())
    }

    /// Takes an item out; whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some(kept) = self.items.remove(key) else {
            return false;
        };
        self.bytes -= size(key, &kept.item);
        self.forget_expiry(key, kept.item.expires);
        self.take_out(key);
        true
    }

    fn note_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let one = expires.map(|end| (end, key.to_vec()));
        self.expiring.extend(one);
    }

    fn forget_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let one = expires.map(|end| (end, key.to_vec()));
        one.iter().for_each(|one| {
            self.expiring.remove(one);
        });
    }

    /// The kernel does not answer it any more.
    fn take_out(&mut self, key: &[u8]) {
        if let Some(answers) = &mut self.answers {
            answers.take_out(key);
        }
        if let Some(connections) = &mut self.connections {
            connections.note(key);
        }
    }

    /// Takes all items out.
    pub fn clear(&mut self) {
        self.flush = None;
        self.expiring.clear();
        for (key, _) in std::mem::take(&mut self.items) {
            self.take_out(&key);
        }
        self.bytes = 0;
    }

    /// Takes out what there is at a time, in seconds since 1970. The kernel answers with nothing until then.
    pub(super) fn clear_at(&mut self, when: u64) {
        self.flush = Some(when);
        let keys: Vec<_> = self.items.keys().cloned().collect();
        keys.iter().for_each(|key| self.take_out(key));
    }

    pub(super) fn clear_if_due(&mut self, now: u64) {
        if self.flush.is_some_and(|when| when <= now) {
            self.clear();
        }
    }

    /// An item that there is goes at another time, or does not.
    pub(super) fn expire_at(&mut self, key: &[u8], expires: Option<u64>) {
        if let Some(kept) = self.items.get_mut(key) {
            let before = std::mem::replace(&mut kept.item.expires, expires);
            self.forget_expiry(key, before);
            self.note_expiry(key, expires);
            self.take_out(key);
        }
    }
}

fn size(key: &[u8], item: &Item) -> usize {
    key.len() + item.value.len() + ITEM_BYTES
}
