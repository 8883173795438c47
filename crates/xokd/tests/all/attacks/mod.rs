//! What hostile programs and hosts try, and that it fails.
//!
//! Each case is a hostile program against a real daemon on a wire of its own. The program is a process without
//! privilege (user 65534, no capability) with a slot that it came by honestly; it has the daemon's protocol and its
//! rings in its own hands, and does with them what no library of ours would. The case then shows three things: it
//! did not work, a counter says so, and the others (the host at the end of the wire, the program beside it) have
//! seen nothing of it.
//!
//! How a case is written: [`world::case`] is given two pieces of code. The first is the attack and runs in the hostile
//! process: this very executable, started again. The second runs here, as root, with the world in its hands. They
//! talk by lines over a socket ([`attacker`]). Nothing waits for a time to pass to show that something did *not*
//! happen: behind everything that must not arrive something is sent that must, over the same queue.
//!
//! | file | who is attacked |
//! |---|---|
//! | `asking` | what others were granted, by what is asked |
//! | `crowding` | users whom the policy names, by being many |
//! | `dying` | what a program leaves behind |
//! | `filters` | what others have, by filters that are claimed |
//! | `fuzzed` | what others have, by packets of any form against filters that are in force |
//! | `handlers` | others' packets and the machine, by code that is downloaded |
//! | `handlers::requests` | others' packets and the machine, by the memory of the handler that answers requests |
//! | `histories` | all of them, by requests of every kind in any order, through deaths of the daemon |
//! | `keeping` | the machine's memory, by what is kept of slots that are given back |
//! | `reading` | others' packets, and the memory that all read |
//! | `revoking` | what is asked back, by cutting it up and handing it on |
//! | `rings` | the kernel, by what is written to memory that it shares |
//! | `sending` | others' addresses, by what is sent |
//! | `sharing` | who shares a port with others of the same user |
//! | `sockets` | the machine's log, by what a packet socket can be asked for |
//! | `talking` | the daemon, by how it is spoken to |
//! | `turns` | the others' time, by asking for what takes the daemon long |
//! | `wire` | programs and the daemon, by what comes from outside |
//!
//! Needs root, and says that it was skipped otherwise. One case runs at a time.

mod asking;
mod crowding;
mod dying;
mod filters;
mod fuzzed;
mod handlers;
mod harness;
mod histories;
mod keeping;
mod reading;
mod revoking;
mod rings;
mod sending;
mod sharing;
mod sockets;
mod talking;
mod turns;
mod wire;

use harness::{attacker, far_end, games, program, raw_rings, world};
