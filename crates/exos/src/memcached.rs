//! A cache that speaks memcached's classic text protocol over UDP and TCP (memcached's `doc/protocol.txt`), all commands but `gat`, `gats`,
//! `verbosity` and those of its administration (`stats` has no argument). The meta commands (`mg`, `ms` ...) are not among them. A value has
//! up to 1 MiB, where memcached's limit is a little less, and a command is answered with 2 MiB of values at most.
//!
//! Over UDP a forged source is answered, too, with as much: that is for networks whose hosts are known.
//!
//! Without more it is a map that the program's loop asks. After [`Cache::download`] the kernel answers a `get` of one key over UDP where it
//! arrives, and after [`Cache::answer_connections_in_kernel`] over TCP, from tables that the cache keeps; all else comes to the program as
//! before: other commands, several keys or commands at once, keys that there are not, answers that are too long, and what expires within two
//! seconds: the kernel's part has no clock, and an item that expires is taken out before, where the program [says the
//! time](Cache::tell_kernel).
//!
//! The cache performs nothing but that: datagrams and bytes of connections are given to it, with the time, and it says what to answer.

mod answers;
mod connections;
mod protocol;
mod store;

use std::collections::{BTreeSet, HashMap};

use exos_inet::tcp::ListenerId;

use crate::memcached::answers::Answers;
use crate::memcached::connections::Connections;
use crate::node::Exos;
use crate::{Error, ErrorKind};

pub use answers::Shape;
pub use protocol::{Reply, Session};

/// Bytes of a key.
pub const KEY_MAX: usize = 250;
/// Bytes of a value.
pub const VALUE_MAX: usize = 1 << 20;
/// What an item is counted as besides its key and value: what keeps it takes about as much.
const ITEM_BYTES: usize = 100;
/// How many seconds before an item expires the kernel does not answer with it any more: so long may pass between two turns of the program.
const AHEAD: u64 = 2;

/// A value, and what its client wants to know with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// A number of the client's.
    pub flags: u32,
    /// When it is no more, in seconds since 1970.
    pub expires: Option<u64>,
    /// The bytes.
    pub value: Vec<u8>,
}

/// The cache is as full as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFull;

/// Items under keys.
#[derive(Debug)]
pub struct Cache {
    items: HashMap<Vec<u8>, Kept>,
    bytes: usize,
    bytes_max: usize,
    /// The last number that an item was given.
    unique: u64,
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
struct Kept {
    item: Item,
    /// Another one after each change.
    unique: u64,
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
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

    fn find(&mut self, key: &[u8], now: u64) -> Option<&Kept> {
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

    /// Keeps an item under a key of 1 to [`KEY_MAX`] bytes, in place of the one before. Where it has no room, the one before is gone, too:
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
    fn clear_at(&mut self, when: u64) {
        self.flush = Some(when);
        let keys: Vec<_> = self.items.keys().cloned().collect();
        keys.iter().for_each(|key| self.take_out(key));
    }

    fn clear_if_due(&mut self, now: u64) {
        if self.flush.is_some_and(|when| when <= now) {
            self.clear();
        }
    }

    /// An item that there is goes at another time, or does not.
    fn expire_at(&mut self, key: &[u8], expires: Option<u64>) {
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

/// What a `get` is answered with for one key.
fn write_value(to: &mut Vec<u8>, key: &[u8], item: &Item, unique: Option<u64>) {
    to.extend(b"VALUE ");
    to.extend(key);
    to.extend(format!(" {} {}", item.flags, item.value.len()).bytes());
    to.extend(
        unique
            .iter()
            .flat_map(|unique| format!(" {unique}").into_bytes()),
    );
    to.extend(b"\r\n");
    to.extend(&item.value);
    to.extend(b"\r\n");
}

/// What the kernel answers to a `get` of a key, if that is not longer than the bytes given. The longest is for the program.
fn answer(key: &[u8], item: &Item, bytes_max: usize) -> Option<Vec<u8>> {
    if key.len() > KEY_MAX || item.value.len() > bytes_max {
        return None;
    }
    let mut answer = Vec::new();
    write_value(&mut answer, key, item, None);
    answer.extend(b"END\r\n");
    (answer.len() <= bytes_max).then_some(answer)
}

fn invalid(what: &'static str) -> Error {
    Error::new(what).of_kind(ErrorKind::Invalid)
}
