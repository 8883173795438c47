//! Captures in files and pipes: pcapng is written, pcapng and classic pcap are read.
//!
//! A file is input like a packet: every length is checked before it is believed, memory is bounded by
//! [`crate::limits`], and an error says at which byte of the file something is wrong.

mod classic;
mod error;
mod input;
mod order;
pub mod pcapng;
mod reader;

pub use classic::LINKTYPE_ETHERNET;
pub use error::FileError;
pub use reader::{CaptureReader, Item};
