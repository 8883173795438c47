//! The limits of the web server, each with its reason.
//!
//! | file | limits of |
//! |---|---|
//! | `access` | rules, rates and passwords |
//! | `acme` | certificates by ACME |
//! | `answers` | answers of those that are kept |
//! | `applications` | FastCGI and shared buffers |
//! | `documents` | documents in memory, on disk and while they change |
//! | `log` | the access log |
//! | `loops` | stopping, accepting, reloading and telling |
//! | `quic` | QUIC and HTTP/3 |
//! | `requests` | one client and its requests |
//! | `tls` | sessions and certificates |
//! | `upstreams` | servers behind a proxy |

mod access;
mod acme;
mod answers;
mod applications;
mod documents;
mod log;
mod loops;
mod quic;
mod requests;
mod tls;
mod upstreams;

pub use access::*;
pub use acme::*;
pub use answers::*;
pub use applications::*;
pub use documents::*;
pub use log::*;
pub use loops::*;
pub use quic::*;
pub use requests::*;
pub use tls::*;
pub use upstreams::*;
