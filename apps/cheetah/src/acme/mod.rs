//! Certificates by themselves: got from an authority and renewed in time, by ACME (RFC 8555).
//!
//! A thread of its own does all of it, so no loop waits for an authority. It writes into a folder, and what follows the files of
//! certificates ([`secure`](crate::secure)) takes them from there as any others. The authority asks this server whether it is the one
//! that a name leads to; the answers are in [`Challenges`], which the loops look at: a document below
//! `/.well-known/acme-challenge/` (http-01), or a certificate in a handshake that is for nothing else (tls-alpn-01, RFC 8737). Or it
//! asks name servers, which a program of the operator's tells the answer (dns-01).
//!
//! What goes to the authority goes by the server's own stack, where it has one that leads to others, and else by the host's sockets
//! ([`calls`]); what the authority asks comes as any client's requests come.
//!
//! Several processes may serve the same names out of one folder: one of them orders at a time ([`store`] has the lock), and all answer, for
//! challenges are in the folder too.
//!
//! | file | what is in it |
//! |---|---|
//! | [`challenges`] | what the authority asks, and the answers |
//! | [`schedule`] | when to renew, and when to try again |
//! | [`store`] | the folder: account, certificates, challenges, failures, the lock |
//! | [`disk`] | its files, each as a whole |
//! | [`calls`] | requests to the authority: what carries them |
//! | [`hook`] | the program that answers in DNS |
//! | [`client`] | requests to the authority: what is said |
//! | [`problem`] | what it says when something is wrong |
//! | [`obstacle`] | what stands in the way of an order |
//! | [`budget`] | how much is asked that the authority counts |
//! | [`ordering`] | one certificate, from the account to its chain, and those that are under way |
//! | [`advice`] | when the authority advises to renew one |
//! | [`wanted`] | what is to be had, by the configuration |
//! | [`known`] | what is known of each name, and what is due |
//! | [`put_off`] | names that have lost certificates |
//! | [`state`] | what all of the process have of it, and what is shown |
//! | [`keeper`] | the thread |

mod advice;
mod budget;
mod calls;
pub mod challenges;
mod client;
mod disk;
mod hook;
mod keeper;
mod known;
mod obstacle;
mod ordering;
mod problem;
mod put_off;
pub mod schedule;
mod state;
pub mod store;
mod wanted;

pub(crate) use calls::{Caller, TOKEN};
pub use challenges::Challenges;
pub use state::{Account, Acme, Shown};
