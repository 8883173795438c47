//! What experiments stand on: cores, processes, wires, servers and clients to compare with.
//!
//! | | |
//! |---|---|
//! | `session` | [`Stage`]: two cores, programs that are started on them and ended, what they said, notes on what distorts the numbers |
//! | `lab_stage` | [`LabStage`]: that and a plain wire |
//! | `args` | what the user may choose of every experiment |
//! | `process`, `scratch`, `helper` | programs, their files, and parts of this program in processes of their own |
//! | `cpu`, `calls`, `memory`, `bound` | what was used of the machine, and how much may be |
//! | `crypto` | what the cryptography of TLS takes by itself |
//! | `link`, `daemon` | the wire, and the daemon that shares it |
//! | `xdp`, `frames` | programs of XDP that send frames back, and frames that are made once |
//! | `echo` | an echo service and its clients, on Linux's sockets |
//! | `web` | web servers in a lab, their documents, and wrk |
//! | `exchange` | frames without any protocol: what the wire can exchange |
//! | `packets` | the client that writes packets itself |

pub(crate) mod args;
pub(crate) mod bound;
pub(crate) mod calls;
pub(crate) mod cpu;
pub(crate) mod crypto;
pub(crate) mod daemon;
pub(crate) mod echo;
pub(crate) mod exchange;
pub(crate) mod frames;
pub(crate) mod helper;
mod lab_stage;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod packets;
pub(crate) mod process;
pub(crate) mod request;
pub(crate) mod scratch;
mod session;
pub(crate) mod web;
pub(crate) mod xdp;

pub(crate) use lab_stage::LabStage;
pub(crate) use session::{Stage, Started, check_left_behind, lab_up, mac_of, now_ns};
