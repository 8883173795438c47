//! Web servers in a lab: the server on one core, its client on the other, and one load of one server.
//!
//! `stage` is what all stand on, `server` says what servers there are, `setup` starts one and `check` sees that it answers rightly; `under_load`
//! is what is done with one that runs: `wrk`, `h2load`, `exos_load` and the client
//! of packets ([`super::packets`]) load them, the former three by a `load`, and `seen` is what they saw; `limit` is what the link could
//! carry of such a load. `application` starts FastCGI applications behind them, of which `responder` is one of ours, and `upstream` another web server.

mod application;
mod args;
mod check;
mod exos_load;
pub(crate) mod h2load;
mod limit;
mod load;
mod responder;
mod seen;
mod server;
mod setup;
mod stage;
mod tls;
mod under_load;
mod upstream;
pub(crate) mod wrk;

pub use application::Application;
pub(crate) use application::{Behind, Reached};
pub use args::{ReceiveOn, WebArgs, WireArgs};
pub(crate) use check::await_document;
pub(crate) use exos_load::LoadReport;
pub(crate) use h2load::H2load;
pub(crate) use limit::{bare as bare_calls, measure as packet_limit};
pub(crate) use load::{Carried, WebLoad, whole};
pub(crate) use responder::Responder;
pub(crate) use seen::Seen;
pub use server::Server;
pub(crate) use server::available;
pub(crate) use setup::{DOCUMENTS, Lent, NGINX_CONF, Serving, Setup};
pub(crate) use stage::WebStage;
pub(crate) use tls::AGREED;
pub(crate) use under_load::{Used, until_answered};
pub(crate) use upstream::haproxy_has;
pub(crate) use wrk::Measured;
