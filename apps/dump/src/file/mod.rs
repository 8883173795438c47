//! Captures in files and pipes: pcapng is written, pcapng and classic pcap are read.
//!
//! A file is input like a packet: every length is checked before it is believed, memory is bounded by
//! [`crate::limits`], and an error says at which byte of the file something is wrong.

mod classic;
mod input;
pub mod pcapng;

use std::fmt;
use std::io::Read;

use crate::packet::Packet;
use input::Input;

/// The link type of Ethernet, the only one that is read and written.
pub const LINKTYPE_ETHERNET: u16 = 1;

/// Why a file cannot be read further.
#[derive(Debug)]
pub enum FileError {
    /// The system's answer.
    Io(std::io::Error),
    /// What is in the file is not a capture, or a damaged one.
    Bad {
        /// Where, in bytes from the beginning.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Bad { at, what } => write!(f, "at byte {at}: {what}"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads a capture packet by packet.
pub struct CaptureReader<R> {
    input: Input<R>,
    format: Format,
}

enum Format {
    Classic(classic::Classic),
    Pcapng(pcapng::Sections),
}

impl<R: Read> CaptureReader<R> {
    /// Reads the beginning, which says what the file is.
    ///
    /// # Errors
    /// When it is neither pcapng nor pcap, or pcap of another link type than Ethernet.
    pub fn new(from: R) -> Result<Self, FileError> {
        let mut input = Input::new(from);
        let magic = input.array::<4>("the beginning")?;
        let format = if magic == pcapng::SECTION_HEADER.to_le_bytes() {
            Format::Pcapng(pcapng::Sections::begin(&mut input)?)
        } else {
            Format::Classic(classic::Classic::begin(magic, &mut input)?)
        };
        Ok(Self { input, format })
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// When the file is damaged here. What came before was good; nothing after it can be read.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, FileError> {
        match &mut self.format {
            Format::Classic(classic) => classic.next_packet(&mut self.input),
            Format::Pcapng(sections) => sections.next_packet(&mut self.input),
        }
    }

    /// Packets that the capture lost, as far as the file said so up to here.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.format {
            Format::Classic(_) => 0,
            Format::Pcapng(sections) => sections.lost(),
        }
    }
}
