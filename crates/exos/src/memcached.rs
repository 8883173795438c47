//! A cache that speaks memcached's classic text protocol over UDP and TCP (memcached's `doc/protocol.txt`), all commands but `gat`, `gats`,
//! `verbosity` and those of its administration (`stats` has no argument). The meta commands (`mg`, `ms` ...) are not among them. A value has
//! up to 1 MiB, where memcached's limit is a little less, and a command is answered with 2 MiB of values at most.
//!
//! Over UDP a forged source is answered, too, with as much: that is for networks whose hosts are known.
//!
//! Without more it is a map that the program's loop asks. After [`Cache::download`] the kernel answers a `get` of one key over UDP where it
//! arrives, and after [`Cache::answer_connections_in_kernel`] over TCP, from tables that the cache keeps; all else comes to the program as
//! before: other commands, several keys or commands at once, keys that there are not, answers that are too long, and what expires.
//!
//! The cache performs nothing but that: datagrams and bytes of connections are given to it, with the time, and it says what to answer.

mod answers;
mod connections;
mod protocol;
mod store;

use std::collections::HashMap;

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
            answers: None,
            connections: None,
        }
    }

    /// Has the kernel answer what it can of what comes to this port, from now on.
    ///
    /// # Errors
    ///
    /// As [`Exos::download_into_kernel`]; or the kernel does not tell when a row is out of use (`membarrier`, on machines with `nohz_full`).
    pub fn download(&mut self, exos: &mut Exos, port: u16, shape: Shape) -> Result<(), Error> {
        let mut answers = Answers::download(exos, port, shape)?;
        // What is about to go is for the program.
        let items = self.items.iter().filter(|_| self.flush.is_none());
        for (key, kept) in items {
            answers.put(key, &kept.item);
        }
        self.answers = Some(answers);
        Ok(())
    }

    /// Has the kernel answer what it can of what comes to this listener's connections, from now on, and as the cache does when it was told
    /// ([`tell_kernel`](Self::tell_kernel)). It takes a link of the program's own; [`download`](Self::download) comes after it. The kernel's part
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
        self.tell_kernel(exos);
        Ok(())
    }

    /// Has the kernel answer connections as the cache does by now: after commands were handled, before their answers leave ([`Exos::send`]), and
    /// once a second at least, without which nothing is answered there.
    pub fn tell_kernel(&mut self, exos: &mut Exos) {
        if let Some(connections) = &mut self.connections {
            connections.tell(exos, &self.items, self.flush.is_some());
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
        let kept = self.items.get(key)?;
        // What is about to go is for the program.
        if self.flush.is_none() {
            if let Some(answers) = &mut self.answers {
                answers.put_if_missing(key, &kept.item);
            }
            if let Some(connections) = &mut self.connections {
                connections.note(key);
            }
        }
        Some(kept)
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
        if self.flush.is_none() {
            if let Some(answers) = &mut self.answers {
                answers.put(key, &item);
            }
            if let Some(connections) = &mut self.connections {
                connections.note(key);
            }
        }
        self.bytes += bytes;
        self.unique += 1;
        let unique = self.unique;
        self.items.insert(key.to_vec(), Kept { item, unique });
        Ok(())
    }

    /// Takes an item out; whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some(kept) = self.items.remove(key) else {
            return false;
        };
        self.bytes -= size(key, &kept.item);
        self.take_out(key);
        true
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
            kept.item.expires = expires;
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

/// What the kernel answers to a `get` of a key, if that is not longer than the bytes given. The longest, and what expires, is for the program.
fn answer(key: &[u8], item: &Item, bytes_max: usize) -> Option<Vec<u8>> {
    if key.len() > KEY_MAX || item.expires.is_some() || item.value.len() > bytes_max {
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
