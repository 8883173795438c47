//! Field sections without a dynamic table (RFC 9204): those that name entries of one are refused, for the settings of a server leave
//! no room for it. Strings are coded as in HTTP/2.

pub mod decoder;
pub mod encoder;
mod table;

pub use table::STATIC;
