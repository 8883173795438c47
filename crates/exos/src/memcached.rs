//! A cache that speaks memcached's text protocol, `get`, `set` and `delete`, over UDP and TCP
//! (memcached's `doc/protocol.txt`).
//!
//! Without more it is a map that the program's loop asks. After [`Cache::download`] the kernel answers a `get` of one key over UDP where it
//! arrives, from a table that the cache keeps; all else comes to the program as before: other commands, several keys, keys that there are
//! not, answers longer than a row, and what expires.
//!
//! The cache performs nothing but that: datagrams and bytes of connections are given to it, with the time, and it says what to answer.

mod answers;
mod protocol;

use std::collections::HashMap;

use crate::memcached::answers::Answers;
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
    items: HashMap<Vec<u8>, Item>,
    bytes: usize,
    bytes_max: usize,
    answers: Option<Answers>,
}

impl Cache {
    /// An empty one, for keys and values of this many bytes together, counting 100 more for each item.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            items: HashMap::new(),
            bytes: 0,
            bytes_max,
            answers: None,
        }
    }

    /// Has the kernel answer what it can of what comes to this port, from now on.
    ///
    /// # Errors
    ///
    /// As [`Exos::download`]; or the kernel does not tell when a row is out of use (`membarrier`, on machines with `nohz_full`).
    pub fn download(&mut self, exos: &mut Exos, port: u16, shape: Shape) -> Result<(), Error> {
        let mut answers = Answers::download(exos, port, shape)?;
        for (key, item) in &self.items {
            answers.put(key, item);
        }
        self.answers = Some(answers);
        Ok(())
    }

    /// Items that there are, those that have expired counted until they are asked for.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Items that the kernel answers with.
    pub fn in_kernel(&self) -> usize {
        self.answers.as_ref().map_or(0, Answers::len)
    }

    /// The item under a key, now, in seconds since 1970. One that the kernel had no room for before may find some.
    pub fn get(&mut self, key: &[u8], now: u64) -> Option<&Item> {
        let expires = self.items.get(key)?.expires;
        if expires.is_some_and(|end| end <= now) {
            self.delete(key);
            return None;
        }
        let item = self.items.get(key)?;
        if let Some(answers) = &mut self.answers {
            answers.put_if_missing(key, item);
        }
        Some(item)
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
        if let Some(answers) = &mut self.answers {
            answers.put(key, &item);
        }
        self.bytes += bytes;
        self.items.insert(key.to_vec(), item);
        Ok(())
    }

    /// Takes an item out; whether there was one.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let Some(item) = self.items.remove(key) else {
            return false;
        };
        self.bytes -= size(key, &item);
        if let Some(answers) = &mut self.answers {
            answers.take_out(key);
        }
        true
    }
}

fn size(key: &[u8], item: &Item) -> usize {
    key.len() + item.value.len() + ITEM_BYTES
}

/// What a `get` is answered with for one key.
fn write_value(to: &mut Vec<u8>, key: &[u8], item: &Item) {
    to.extend(b"VALUE ");
    to.extend(key);
    to.extend(format!(" {} {}\r\n", item.flags, item.value.len()).bytes());
    to.extend(&item.value);
    to.extend(b"\r\n");
}

fn invalid(what: &'static str) -> Error {
    Error::new(what).of_kind(ErrorKind::Invalid)
}
