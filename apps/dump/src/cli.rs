//! The command line of `exos dump`.

use std::path::PathBuf;

use clap::ArgAction;
use exos_filter::Filter;
use exos_host::Error;

use crate::limits::SNAPLEN_MAX;
use crate::stamp::{Form, Stamps};
use crate::text::{Printer, Rows, Style};

/// Show packets that XDP takes and AF_XDP sends, which tcpdump cannot see; or a capture file's.
///
/// Packets are shown as tcpdump shows them: of every program that runs as this user, with a daemon or without; root sees
/// those of all. What a program has the kernel answer or forward by itself (--syn-handler, --in-kernel) does not reach it
/// and is not shown.
#[derive(clap::Args, Debug)]
pub struct DumpArgs {
    /// Which packets, in tcpdump's language, such as "tcp port 80 and host 192.0.2.7"
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    filter: Vec<String>,
    /// Packets of programs on this interface; on any when left out
    #[arg(short, long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Packets of this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// Packets of all users' programs and of the host on the daemon's interfaces, where its policy allows that; root sees
    /// them without
    #[arg(long)]
    pub(crate) all: bool,
    /// Read a pcapng or pcap file, - for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["interface", "pid", "all"])]
    pub(crate) read: Option<String>,
    /// Write a pcapng file, - for standard output, in place of text
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "hex", "hex_ascii"])]
    pub(crate) write: Option<String>,
    /// End after this many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Take this many bytes of each packet at most, 0 for all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    snaplen: u32,
    /// Say more: program and verdict, IP headers, checksums; twice and thrice: still more
    #[arg(short, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Show Ethernet headers
    #[arg(short = 'e')]
    link_header: bool,
    /// Show sequence numbers as they are, not relative to the connection's first
    #[arg(short = 'S')]
    absolute_seq: bool,
    /// Show each packet's bytes; twice: with the Ethernet header
    #[arg(short = 'x', action = ArgAction::Count)]
    hex: u8,
    /// Show each packet's bytes as characters too; twice: with the Ethernet header
    #[arg(short = 'X', action = ArgAction::Count, conflicts_with = "hex")]
    hex_ascii: u8,
    /// No time; -tt since 1970, -ttt since the last packet, -tttt with date, -ttttt since the first
    #[arg(short = 't', action = ArgAction::Count)]
    time: u8,
    /// Numbers in place of names, which is always so
    #[arg(short = 'n', action = ArgAction::Count, hide = true)]
    numeric: u8,
    /// Lines at once, which is always so
    #[arg(short = 'l', hide = true)]
    lines: bool,
    /// JSON, an object on a line for each packet
    #[arg(long)]
    pub(crate) json: bool,
    /// What the daemon of this socket shows, and nothing else; without it that of $EXOS_XOKD, else /run/exos/xokd.sock, is
    /// asked, and every program that attaches directly
    #[arg(long, value_name = "PATH")]
    pub(crate) xokd: Option<PathBuf>,
}

impl DumpArgs {
    /// The filter as it was written.
    pub(crate) fn filter_text(&self) -> String {
        self.filter.join(" ")
    }

    /// The filter's meaning.
    pub(crate) fn filter(&self) -> Result<Filter, Error> {
        let text = self.filter_text();
        if text.trim().is_empty() {
            return Ok(Filter::everything());
        }
        Filter::parse(&text).map_err(|e| {
            Error::new(format!("the filter is not understood: {e}"))
                .mend("write it as for tcpdump, such as \"tcp port 80 and host 192.0.2.7\"")
        })
    }

    /// Bytes taken of each packet.
    pub(crate) fn snaplen(&self) -> u32 {
        match self.snaplen {
            0 => SNAPLEN_MAX,
            snaplen => snaplen.min(SNAPLEN_MAX),
        }
    }

    pub(crate) fn printer(&self) -> Printer {
        let rows = |count: u8, characters| {
            (count > 0).then_some(Rows {
                link_header: count > 1,
                characters,
            })
        };
        Printer::new(Style {
            verbosity: self.verbose,
            link_header: self.link_header,
            absolute_seq: self.absolute_seq,
            rows: rows(self.hex_ascii, true).or(rows(self.hex, false)),
        })
    }

    pub(crate) fn stamps(&self) -> Stamps {
        Stamps::new(Form::from_count(self.time))
    }
}
