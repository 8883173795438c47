//! Reads a capture, of whichever format.

use std::io::Read;

use super::classic::Classic;
use super::error::FileError;
use super::input::Input;
use super::pcapng::{SECTION_HEADER, Sections};
use crate::packet::Packet;

/// Reads a capture packet by packet.
pub struct CaptureReader<R> {
    input: Input<R>,
    format: Format,
}

enum Format {
    Classic(Classic),
    Pcapng(Sections),
}

impl<R: Read> CaptureReader<R> {
    /// Reads the beginning, which says what the file is.
    ///
    /// # Errors
    /// When it is neither pcapng nor pcap, or pcap of another link type than Ethernet.
    pub fn new(from: R) -> Result<Self, FileError> {
        let mut input = Input::new(from);
        let magic = input.array::<4>("the beginning")?;
        let format = if magic == SECTION_HEADER.to_le_bytes() {
            Format::Pcapng(Sections::begin(&mut input)?)
        } else {
            Format::Classic(Classic::begin(magic, &mut input)?)
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
