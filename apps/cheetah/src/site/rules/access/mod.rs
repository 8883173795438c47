//! Who may have what: rules by path about the networks of clients ([`networks`]), their requests a second ([`rate`]) and passwords
//! ([`users`]).
//!
//! A rule says something about one of these or several. Of the rules that match a path, the most specific one that says something
//! about networks decides about networks, and so on: as with header fields, a rule about `/open/*` may take away what one
//! about `*` says. First networks are asked, which costs nothing; then the rate, so that it holds for guessed passwords too; then passwords.
//!
//! A directory is answered with its index document, so both paths have to let a request pass.

mod hashes;
pub mod networks;
pub(crate) mod peer;
pub mod rate;
mod rules;
pub mod users;

pub(crate) use rules::client_of;
pub use rules::{AccessRule, AccessRules, Asks, Verdict, is_password};
