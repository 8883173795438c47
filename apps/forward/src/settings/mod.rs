//! What a forwarder is to do: the command line, the file, names of servers, and what contradicts itself.
//!
//! | file | what is in it |
//! |---|---|
//! | `written` | listeners and servers as they are written |
//! | `links` | links as they are written |
//! | `wanted` | all that a forwarder is told |
//! | `options`, `config` | the command line and the file, which say it |
//! | `names` | the addresses of servers that are named |
//! | `setup` | what is wanted, made for the link |
//! | `check`, `rehearsal` | whether a forwarder would start, and a successor |

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod rehearsal;
pub(crate) mod setup;
pub(crate) mod wanted;
pub(crate) mod written;
