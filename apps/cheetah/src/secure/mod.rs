//! HTTPS: TLS between what carries a connection and HTTP.
//!
//! What carries connections has all of a loop's; those that came to a port of TLS have a session each in [`Sessions`]. For the
//! time of a turn [`Secured`] is both together, and is to HTTP what any [`Transport`](crate::connections::Transport)
//! is: it tells of plaintext, takes plaintext, and counts in bytes of plaintext. Other connections pass through.
//!
//! Plaintext that is sent stays what it was, slices of documents, until the connection has room for its records; then it is
//! encrypted straight from there into what leaves.
//!
//! | file | what is in it |
//! |---|---|
//! | [`acceptor`] | what all cores share: certificates, policy, tickets |
//! | [`reading`] | certificates and keys in files, put together to what sessions begin with |
//! | [`stamps`] | whether the files of these have changed |
//! | [`signing`] | what signatures take |
//! | [`names`] | which certificate a client gets |
//! | [`link`] | one connection: its session, what waits to be encrypted, what is under way |
//! | [`sessions`] | all of a loop |
//! | [`secured`] | the transport |
//! | [`facts`] | what may be told of a session |
//! | [`counters`] | handshakes, and why they failed |

pub mod acceptor;
mod counters;
pub mod facts;
mod link;
pub mod named;
mod names;
mod reading;
mod secured;
mod sessions;
mod signing;
mod stamps;
#[cfg(test)]
mod tests;

pub use acceptor::Acceptor;
pub use facts::Fact;
pub use secured::Secured;
pub use sessions::Sessions;
