//! The configuration: what a file or the command line says is to be served, checked as a whole.
//!
//! A file is TOML: [`schema`] has its tables, which are read past errors ([`tables`]), the checks turn them into a [`Config`].
//! Every error names the line and says what to write; all are told at once. The command line says the same things for
//! one site, so there is one kind of configuration, and `docs/serve.md` describes it.

mod access;
mod acme;
mod answers;
mod applications;
mod cache;
mod checks;
mod file;
mod lines;
mod placement;
mod proxy;
mod request_fields;
mod rules;
mod schema;
mod site;
mod stack;
mod tls;
mod units;
mod upstreams;
mod watch;

pub use acme::{AcmeArgs, AcmeConfig};
pub use applications::{ApplicationArg, add_args};
pub use cache::CacheSize;
pub use exos_program::config::{ConfigError, ConfigErrors};
pub use file::{Config, DEFAULT_PORT};
pub use lines::Lines;
pub use site::{Managed, Root, SiteConfig};
pub use stack::{LinkConfig, TcpConfig};
pub use tls::{Clients, TlsArgs, TlsConfig};
