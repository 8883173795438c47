//! What a forwarder is to do: the command line, the file, names of servers, and what contradicts itself.

pub(crate) mod config;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod rehearsal;
pub(crate) mod setup;
pub(crate) mod wanted;
