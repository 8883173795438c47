//! Requests that applications answer, over FastCGI, over HTTP or over buffers that both share: what is asked, what comes back, and the connections to them.
//!
//! All but [`pool`] performs nothing: bytes of a client and of an application in, bytes for them out.
//!
//! | file | what is in it |
//! |---|---|
//! | [`application`], [`rules`] | an application as it is configured, and which requests are for it |
//! | [`record`] | the records of FastCGI 1.0: written, and read wherever they are cut |
//! | [`passing`] | which fields of a request go on |
//! | [`variables`] | a request as variables of CGI/1.1 (RFC 3875) |
//! | [`proxy`] | requests over HTTP, and answers to them |
//! | [`upload`], [`chunks`] | a request's body on its way to the application; chunked bodies |
//! | [`trailers`] | fields behind a body, which go on or do not |
//! | [`head`], [`reply`] | what an application answers, as HTTP |
//! | [`heads`] | heads that come again and again |
//! | [`hearing`] | what is heard of an answer, in any of the languages |
//! | [`encryption`] | upstreams by HTTPS |
//! | [`pool`] | connections to applications, over the kernel's sockets, and links over shared buffers |

pub mod application;
pub mod chunks;
pub mod encryption;
pub mod head;
pub mod heads;
pub mod hearing;
mod passing;
pub mod pool;
pub mod proxy;
pub mod record;
pub mod reply;
pub mod rules;
pub mod trailers;
pub mod upload;
pub mod variables;

pub use application::{Address, Application, Place};
pub use pool::{AllPermits, Applications};
pub use rules::{Asked, Rules};
