//! TLS 1.3 and 1.2 without I/O, for a server and a client: sessions that know neither sockets nor HTTP.
//!
//! A [`Session`] is one connection's TLS. What was received goes into [`Session::receive`], which says how much of it was taken,
//! and appends to a vector what is to be sent to the peer at once: handshake messages and alerts. It takes whole
//! records, of which the longest has [`limits::RECORD_LEN_MAX`] bytes, and holds none itself: what it has not taken is given again when
//! more has come, and when plaintext was consumed. Plaintext lies in [`Session::readable`] until [`Session::consume`]. [`Session::seal`] appends records
//! of plaintext pieces, each of which is copied once, to where it is encrypted in place. [`Session::close`] appends the
//! last alert. When a call fails and the session is over, the alert that tells the peer is appended already, where there is
//! one: send it, and end the connection.
//!
//! ```no_run
//! # fn main() -> Result<(), exos_tls::TlsError> {
//! # let (config, received): (std::sync::Arc<rustls::ServerConfig>, &[u8]) = unimplemented!();
//! use exos_tls::Session;
//! let mut session = Session::server(config)?; // Or `Session::client(config, name)`.
//! let mut out = Vec::new();
//! let taken = session.receive(received, &mut out)?; // The rest is given again, with what comes behind it.
//! // Send `out`, then look whether there is plaintext, and answer it once the session is established:
//! if session.is_established() {
//!     let asked = session.readable().len();
//!     session.consume(asked);
//!     let mut out = Vec::new();
//!     session.seal(&[b"head", b"body"], &mut out)?;
//! }
//! # Ok(()) }
//! ```
//!
//! A server that wants to ([`tickets`]) takes early data, with which a client begins that has a ticket (RFC 8446 §4.2.10): while
//! [`Session::is_early`], plaintext may come and go before the session is established. A client whose configuration allows it seals
//! its early data behind its hello; what the server does not take is sent again when the handshake is over.
//!
//! The handshake is rustls'. When it is over, its traffic keys come here ([`record`]), and rustls' connection goes: what is left
//! of an idle session are two keys, and the secret of which the next keys are made. So slices are encrypted straight into what
//! leaves, where rustls would copy them twice.
//!
//! | file | what is in it |
//! |---|---|
//! | [`session`] | one connection's TLS, from its first byte to its end |
//! | [`handshake`] | its beginning, by rustls |
//! | [`traffic`] | what follows: records in, records out, changes of keys, alerts |
//! | [`record`] | one record: its header, its nonce, its encryption |
//! | [`client`] | a client: whom it trusts, tickets with which it resumes |
//! | [`files`] | certificates and keys in files, with errors for people |
//! | [`certificate`] | what is read in a certificate: how long it is valid |
//! | `hmac` | how keys of TLS 1.3 follow from secrets |
//! | [`policy`] | versions and suites by name, and the cryptographic provider |
//! | [`keylog`] | logs of secrets, read and written |
//! | [`observer`] | the TLS of others, decrypted by such a log |
//! | [`self_signed`] | a certificate for trying |
//! | [`tickets`] | tickets of a server that are good once, for early data |

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod error;
pub mod files;
mod handshake;
mod hmac;
pub mod keylog;
pub mod limits;
pub mod observer;
pub mod policy;
mod record;
pub mod self_signed;
pub mod session;
pub mod tickets;
mod traffic;

pub use error::TlsError;
pub use session::{About, Session};
