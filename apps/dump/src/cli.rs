//! The command line of `exos dump`.

use std::path::PathBuf;

use clap::ArgAction;
use exos_filter::{Filter, ParseError};
use exos_host::Error;
use exos_program::names::look_up;

use crate::decrypt::KeyFile;
use crate::limits::SNAPLEN_MAX;
use crate::sink::Form;
use crate::stamp::Stamps;
use crate::text::{Printer, Rows, Style};

/// Show packets of ExOS programs, which tcpdump cannot see (XDP and AF_XDP), or of a capture file.
///
/// Prints packets in tcpdump's format: those of all programs that run as this user, with or without a daemon; root sees
/// those of all users. Packets that the kernel answers or forwards for a program (--syn-handler, --in-kernel) do not
/// reach it and are not shown.
#[derive(clap::Args, Debug)]
pub struct DumpArgs {
    /// Packets to show, as a tcpdump filter, such as "tcp port 80 and host 192.0.2.7"; a host's name stands for its
    /// addresses when the program starts [default: all]
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    filter: Vec<String>,
    /// Only packets of programs on this interface
    #[arg(short, long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Only packets of this process
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) pid: Option<u32>,
    /// Also packets of other users' programs and of the host on the daemon's interfaces, if the policy allows it; root
    /// sees them without this option
    #[arg(long)]
    pub(crate) all: bool,
    /// Read a pcapng or pcap file instead; - for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["interface", "pid", "all"])]
    pub(crate) read: Option<String>,
    /// Write a pcapng file instead of text; - for standard output
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "hex", "hex_ascii"])]
    pub(crate) write: Option<String>,
    /// Decrypt TLS and QUIC with the keys in this file, to which browsers, curl, OpenSSL and exos append them (SSLKEYLOGFILE);
    /// with -w all of them are written into the capture, for exos dump -r and Wireshark
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Exit after this many packets
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Capture at most this many bytes of each packet; 0: all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    snaplen: u32,
    /// More detail: the program, what became of the packet, IP headers and checksums; -vv and -vvv: still more
    #[arg(short, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Show Ethernet headers
    #[arg(short = 'e')]
    link_header: bool,
    /// Show absolute sequence numbers, not relative to the connection's first
    #[arg(short = 'S')]
    absolute_seq: bool,
    /// Show each packet's bytes in hexadecimal; -xx: with the Ethernet header
    #[arg(short = 'x', action = ArgAction::Count)]
    hex: u8,
    /// Show each packet's bytes in hexadecimal and ASCII; -XX: with the Ethernet header
    #[arg(short = 'X', action = ArgAction::Count, conflicts_with = "hex")]
    hex_ascii: u8,
    /// No time; -tt: seconds since 1970; -ttt: since the last packet; -tttt: date and time; -ttttt: since the first
    /// packet
    #[arg(short = 't', action = ArgAction::Count)]
    time: u8,
    /// Numbers in place of names, which is always so
    #[arg(short = 'n', action = ArgAction::Count, hide = true)]
    numeric: u8,
    /// Lines at once, which is always so
    #[arg(short = 'l', hide = true)]
    lines: bool,
    /// Print one line of JSON per packet
    #[arg(long)]
    json: bool,
    /// Only watch the daemon at this socket [default: the daemon at $EXOS_XOKD, else /run/exos/xokd.sock, and all
    /// programs that run without it]
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
        Filter::parse(&text).map_err(not_understood)
    }

    /// Puts addresses in the place of hosts' names, which are looked up over the kernel's sockets: others who are given the filter are
    /// not to look them up too. A filter without names stays as it is written.
    pub(crate) fn look_up_names(&mut self) -> Result<(), Error> {
        let text = self.filter_text();
        if Filter::parse(&text).is_ok() {
            return Ok(());
        }
        let hosts = |name: &str| look_up("dump", name).map_err(|error| error.to_string());
        let filter = Filter::parse_with_hosts(&text, &hosts).map_err(not_understood)?;
        self.filter = vec![filter.to_string()];
        Ok(())
    }

    /// Bytes taken of each packet.
    pub(crate) fn snaplen(&self) -> u32 {
        match self.snaplen {
            0 => SNAPLEN_MAX,
            snaplen => snaplen.min(SNAPLEN_MAX),
        }
    }

    /// The key log. Of a live capture it may be made later.
    pub(crate) fn key_file(&self) -> Result<Option<KeyFile>, Error> {
        let Some(path) = &self.keys else {
            return Ok(None);
        };
        let what = || format!("cannot read the keys in {}", path.display());
        let keys = KeyFile::open(path, self.read.is_some()).map_err(|e| Error::io(what(), e))?;
        if self.read.is_some() && !keys.exists() {
            return Err(Error::new(format!("{}: there is no such file", what())));
        }
        Ok(Some(keys))
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

    pub(crate) fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => Form::Text(Stamps::new(self.time)),
        }
    }
}

fn not_understood(error: ParseError) -> Error {
    Error::new(format!("the filter is not understood: {error}"))
        .mend("write it as for tcpdump, such as \"tcp port 80 and host 192.0.2.7\"")
}
