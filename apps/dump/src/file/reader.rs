//! Reads a capture, of whichever format.

use std::io::Read;

use super::classic::Classic;
use super::error::FileError;
use super::input::Input;
use super::pcapng::{SECTION_HEADER, Sections};
use crate::packet::Packet;

/// What a capture has.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// Lines of a key log of TLS, for packets behind.
    Secrets(&'a [u8]),
}

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

    /// The next packet, or secrets that stand before it; `None` at the end.
    ///
    /// # Errors
    /// When the file is damaged here. What came before was good; nothing after it can be read.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, FileError> {
        match &mut self.format {
            Format::Classic(classic) => {
                let packet = classic.next_packet(&mut self.input)?;
                Ok(packet.map(Item::Packet))
            }
            Format::Pcapng(sections) => sections.next(&mut self.input),
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
