//! Writing pcapng: one section, little-endian, times in nanoseconds.

use std::io::{self, Write};

use super::format::{
    BLOCK_FRAME, BYTE_ORDER_MAGIC, DECRYPTION_SECRETS, ENHANCED_PACKET, EPB_FLAGS, EPB_VERDICT,
    IF_FILTER, IF_NAME, IF_TSRESOL, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, ISB_FILTERACCEPT,
    ISB_OSDROP, ISB_USRDELIV, OPT_COMMENT, SECRETS_TLS_KEY_LOG, SECTION_HEADER, SHB_OS,
    SHB_USERAPPL, VERDICT_BY_TC, VERDICT_BY_XDP, padding,
};
use super::{comment, options};
use crate::file::LINKTYPE_ETHERNET;
use crate::packet::{Direction, Packet, Verdict};

/// `if_tsresol` of nanoseconds: 10 to the power of minus this.
const NANOSECONDS: u8 = 9;

/// XDP_DROP, XDP_PASS and XDP_REDIRECT of `linux/bpf.h`.
const XDP: [u64; 3] = [1, 2, 4];
/// TC_ACT_SHOT and TC_ACT_REDIRECT of `linux/pkt_cls.h`.
const TC: [u64; 2] = [2, 7];

/// An interface to be described.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes captured of each packet at most; 0 for all.
    pub snaplen: u32,
    /// The filter, as its user wrote it; empty for none.
    pub filter: &'a str,
}

/// Writes a capture. Nothing is buffered here: each block is one `write_all`.
pub struct Writer<W> {
    out: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            interfaces: 0,
            block: Vec::new(),
        };
        writer.block(SECTION_HEADER, |body| {
            body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
            body.extend([1, 0, 0, 0]);
            // The section's length is not known yet.
            body.extend([0xff; 8]);
            options::put(body, SHB_OS, std::env::consts::OS.as_bytes());
            let program = concat!("exos dump ", env!("CARGO_PKG_VERSION"));
            options::put(body, SHB_USERAPPL, program.as_bytes());
            options::end(body);
        })?;
        Ok(writer)
    }

    /// Describes an interface and returns its number, by which packets name it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn interface(&mut self, interface: Interface<'_>) -> io::Result<u32> {
        self.block(INTERFACE_DESCRIPTION, |body| {
            body.extend(LINKTYPE_ETHERNET.to_le_bytes());
            body.extend([0, 0]);
            body.extend(interface.snaplen.to_le_bytes());
            options::put(body, IF_NAME, interface.name.as_bytes());
            options::put(body, IF_TSRESOL, &[NANOSECONDS]);
            if !interface.filter.is_empty() {
                options::put(
                    body,
                    IF_FILTER,
                    &[&[0], interface.filter.as_bytes()].concat(),
                );
            }
            options::end(body);
        })?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a packet of the interface with this number.
    ///
    /// # Errors
    /// Those of the output.
    ///
    /// # Panics
    /// When the interface has not been described.
    pub fn packet(&mut self, interface: u32, packet: &Packet<'_>) -> io::Result<()> {
        assert!(
            interface < self.interfaces,
            "interface {interface} is described first"
        );
        self.block(ENHANCED_PACKET, |body| {
            body.extend(interface.to_le_bytes());
            body.extend(((packet.time_ns >> 32) as u32).to_le_bytes());
            body.extend((packet.time_ns as u32).to_le_bytes());
            body.extend((packet.bytes.len() as u32).to_le_bytes());
            body.extend((packet.len as u32).to_le_bytes());
            body.extend(packet.bytes);
            body.extend(&[0; 3][..padding(packet.bytes.len())]);
            packet_options(packet, body);
        })
    }

    /// Writes lines of a key log of TLS: readers decrypt packets behind with them.
    ///
    /// # Errors
    /// Those of the output.
    pub fn secrets(&mut self, lines: &[u8]) -> io::Result<()> {
        self.block(DECRYPTION_SECRETS, |body| {
            body.extend(SECRETS_TLS_KEY_LOG.to_le_bytes());
            body.extend((lines.len() as u32).to_le_bytes());
            body.extend(lines);
            body.extend(&[0; 3][..padding(lines.len())]);
        })
    }

    /// Writes what became of an interface's packets.
    ///
    /// # Errors
    /// Those of the output.
    pub fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        captured: u64,
        lost: u64,
    ) -> io::Result<()> {
        self.block(INTERFACE_STATISTICS, |body| {
            body.extend(interface.to_le_bytes());
            body.extend(((time_ns >> 32) as u32).to_le_bytes());
            body.extend((time_ns as u32).to_le_bytes());
            options::put(
                body,
                ISB_FILTERACCEPT,
                &captured.saturating_add(lost).to_le_bytes(),
            );
            options::put(body, ISB_OSDROP, &lost.to_le_bytes());
            options::put(body, ISB_USRDELIV, &captured.to_le_bytes());
            options::end(body);
        })
    }

    /// Hands what was written on to the one that reads.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]);
        fill(&mut self.block);
        let len = self.block.len() + BLOCK_FRAME - 8;
        debug_assert!(len.is_multiple_of(4));
        let len = (len as u32).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend(len);
        self.out.write_all(&self.block)
    }
}

fn packet_options(packet: &Packet<'_>, body: &mut Vec<u8>) {
    let origin = &packet.origin;
    if let Some(comment) = comment::write(origin) {
        options::put(body, OPT_COMMENT, comment.as_bytes());
    }
    if let Some(direction) = origin.direction {
        let flags: u32 = match direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        options::put(body, EPB_FLAGS, &flags.to_le_bytes());
        if let Some(verdict) = &origin.verdict {
            let (by, code) = return_code(direction, verdict);
            let mut value = vec![by];
            value.extend(code.to_le_bytes());
            options::put(body, EPB_VERDICT, &value);
        }
    }
    options::end(body);
}

/// What the program in the kernel returned: that on the way in is an XDP program, that on the way out
/// one at a traffic control hook.
fn return_code(direction: Direction, verdict: &Verdict) -> (u8, u64) {
    let to_host = verdict.name == "host";
    match direction {
        Direction::In if verdict.is_drop => (VERDICT_BY_XDP, XDP[0]),
        Direction::In if to_host => (VERDICT_BY_XDP, XDP[1]),
        Direction::In => (VERDICT_BY_XDP, XDP[2]),
        Direction::Out if verdict.is_drop => (VERDICT_BY_TC, TC[0]),
        Direction::Out => (VERDICT_BY_TC, TC[1]),
    }
}
