//! What experiments stand on: cores, processes, wires, servers and clients to compare with.
//!
//! | | |
//! |---|---|
//! | `session` | [`Stage`]: two cores, programs that are started on them and ended, what they said, notes on what distorts the numbers |
//! | `args` | what the user may choose of every experiment |
//! | `process`, `scratch`, `helper` | programs, their files, and parts of this program in processes of their own |
//! | `cpu`, `calls`, `memory` | what was used of the machine |
//! | `link`, `daemon` | the wire, and the daemon that shares it |
//! | `echo` | an echo service and its clients, on Linux's sockets |
//! | `web` | web servers in a lab, their documents, and wrk |
//! | `exchange` | frames without any protocol: what the wire can exchange |
//! | `packets` | the client that writes packets itself |

pub(crate) mod args;
pub(crate) mod calls;
pub(crate) mod cpu;
pub(crate) mod daemon;
pub(crate) mod echo;
pub(crate) mod exchange;
pub(crate) mod helper;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod packets;
pub(crate) mod process;
pub(crate) mod request;
pub(crate) mod scratch;
mod session;
pub(crate) mod web;

pub(crate) use session::{Stage, Started, check_left_behind, lab_up, mac_of, now_ns};
