//! Values that headers hold, and that are spoken of beside them: addresses, prefixes, sequence numbers.

mod mac;
pub mod prefix;
mod seq;

pub use mac::{Mac, MacParseError};
pub use prefix::Prefix;
pub use seq::SeqNumber;
