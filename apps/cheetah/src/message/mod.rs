//! What HTTP messages are made of, whatever is served: requests, statuses, dates, targets and codings (RFC 9110, RFC 9112).
//!
//! [`request`] reads a head, or says what is wrong with it as a [`fault::Fault`]; [`target`] makes a path of its target;
//! [`accept`] reads which [`coding`]s a client takes. A response begins with a [`status`] and has [`date`]s.

pub mod accept;
pub mod coding;
pub mod date;
pub mod fault;
pub(crate) mod http2;
pub(crate) mod http3;
pub mod request;
pub mod status;
pub mod target;
pub(crate) mod text;
pub mod version;

pub use coding::Coding;
pub use fault::Fault;
pub use status::Status;
pub use version::Version;
