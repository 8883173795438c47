//! Field sections (RFC 9204), strings coded as in HTTP/2. Ends of connections leave their peers no table to fill, and name none of its
//! entries; who looks at a connection of others follows that of each side ([`dynamic`]).

pub mod decoder;
pub mod dynamic;
pub mod encoder;
mod table;

pub use table::STATIC;
