//! Values that headers hold, and that are spoken of beside them: addresses, prefixes, sequence numbers, the states of a
//! checksum.

mod mac;
pub mod offload;
pub mod prefix;
mod seq;

pub use mac::{Mac, MacParseError};
pub use offload::{RxChecksum, TxChecksum};
pub use prefix::Prefix;
pub use seq::SeqNumber;
