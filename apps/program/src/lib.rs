//! What our programs have in common beside the library: the options that say where packets come
//! from ([`LinkArgs`]) and how TCP behaves ([`TcpArgs`]), reports that never wait for their reader ([`Printer`]), and the counters'
//! form in them ([`counters`]).

#![forbid(unsafe_code)]

pub mod counters;
mod link;
mod place;
mod printer;
mod tcp;

pub use link::LinkArgs;
pub use place::{inside_hint, reachable_addresses};
pub use printer::{Printer, Stream};
pub use tcp::TcpArgs;
