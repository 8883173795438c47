//! Header compression (RFC 7541).
//!
//! What comes is decoded by all that the RFC allows. What leaves is encoded without a table first, so that the header block of a
//! document is made once ([`encoder`]), and made shorter for each connection by what its peer has in its table
//! ([`DynamicEncoder`]). The kept crates for it decode each coded string by hash tables that they make for that
//! string, or do not bound what a block comes to and how the table's size changes; one of them is the oracle of the tests.

mod decoder;
mod dynamic;
pub mod encoder;
pub mod huffman;
mod sent_table;
mod table;

pub use decoder::{Decoder, HpackError};
pub use dynamic::DynamicEncoder;
pub use table::{ENTRY_OVERHEAD, STATIC, find_static};
