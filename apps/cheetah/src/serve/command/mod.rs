//! The command `exos serve`: what it takes, whether that can be, what it says as it starts, and how it is put together.
//!
//! [`run`](run::run) goes through it: [`options`] with the configuration file, [`check`] for `--check`, then the server
//! on packets, or [`on_sockets`]; [`announce`] says what is served and where. [`help`] puts the options in sections.

mod announce;
mod check;
mod help;
mod interfaces;
mod on_sockets;
mod options;
mod run;

pub use help::in_section;
pub use options::ServeArgs;
pub use run::run;
