//! What others may see of a program: its sockets, when they ask (`sockets`), and copies of its packets, what it takes in and sends,
//! while somebody watches.
//!
//! What AF_XDP takes and sends passes no packet socket. So every program that attaches directly keeps memory that anyone who
//! may look into the process finds and opens ([`exos_host::user_memory`]): its user, and root. A watcher ([`Watcher`])
//! writes there what it wants to see; the program's [`Offer`] looks for that once a turn, which is four loads while nobody
//! watches, and copies what matches into a ring. It never waits, makes no system call for a packet, and counts what had no
//! room. A watcher is there as long as it holds the lock of its place, so that one that was killed is noticed.
//!
//! ```text
//! words   0  magic, flags, interface's index and name, program's name, requests of all places; one page
//!       512  PLACES times: counters, snap length, filter; two pages and the ring
//! ```
//!
//! A request is odd while somebody watches, and never the one before. A record in a ring is four words and the bytes,
//! padded to words; it goes on at the ring's beginning where its end is reached.
//!
//! Each side takes what the other one wrote for input: a bad counter or length is an error or no room, never an access
//! beyond the ring.

mod answer;
mod holders;
mod layout;
mod name;
mod offer;
mod question;
mod sockets;
mod telling;
mod watcher;

use std::os::unix::fs::MetadataExt as _;

use exos_host::user_memory;

pub(crate) use answer::Answers;
pub use exos_filter::gate::Direction;
pub use holders::{Holder, Holders};
pub(crate) use name::program_name;
pub(crate) use offer::Offer;
pub use question::{Askable, Askables, Question, askable};
pub use sockets::{Known, Protocol, Socket};
pub use watcher::{Record, Watchable, Watcher, watchable};

/// Gives the packets and sockets of this process to another user to watch, who the process is about to become. Where it may not, root
/// alone can watch them.
pub fn give_to(uid: u32, gid: u32) {
    let own = Some(std::process::id());
    let packets = user_memory::find(layout::NAME, own);
    for memory in packets
        .into_iter()
        .chain(user_memory::find(sockets::NAME, own))
    {
        let is_its = std::fs::metadata(&memory.path).is_ok_and(|file| file.uid() == uid);
        if !is_its {
            let _ = std::os::unix::fs::chown(&memory.path, Some(uid), Some(gid));
        }
    }
}
