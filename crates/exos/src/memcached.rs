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
mod cache;
mod connections;
mod item;
mod protocol;
mod store;
mod words;

pub use answers::Shape;
pub use cache::{Cache, CacheFull};
pub use item::{Item, KEY_MAX, VALUE_MAX};
pub use protocol::{Reply, Session};
