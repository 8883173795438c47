//! Where packets go: text, JSON or pcapng, to standard output or a file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::rc::Rc;

use exos_tls::keylog::holds_secret;
use schemars::JsonSchema;
use serde::Serialize;

use crate::decrypt::KeyFile;
use crate::file::pcapng::{Interface, Writer};
use crate::packet::{Origin, Packet, Verdict};
use crate::stamp::Stamps;
use crate::text::{Printer, escape};

/// An output. Dropping it writes nothing: [`Sink::finish`] ends it.
pub(crate) enum Sink {
    /// A line for each packet.
    Text(Box<Text>),
    /// A capture file.
    Pcapng(Box<Pcapng>),
}

/// What a line is.
pub(crate) enum Form {
    /// Text, with its time in front.
    Text(Stamps),
    /// A JSON object.
    Json,
}

/// Lines.
pub(crate) struct Text {
    out: BufWriter<io::Stdout>,
    printer: Printer,
    form: Form,
    verbosity: u8,
    line: String,
}

/// A capture file, with its interfaces described as packets of them come.
pub(crate) struct Pcapng {
    writer: Writer<BufWriter<Box<dyn Write>>>,
    snaplen: u32,
    filter: String,
    /// The number of each, and how many packets it had.
    interfaces: HashMap<Option<Rc<str>>, (u32, u64)>,
    /// Written along, before the packets that they decrypt.
    keys: Option<KeyFile>,
    /// Of the packet before which these were looked for last.
    keys_time_ns: u64,
    /// Of the last packet.
    time_ns: u64,
}

impl Text {
    /// Lines to standard output.
    pub(crate) fn new(printer: Printer, form: Form, verbosity: u8) -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
            printer,
            form,
            verbosity,
            line: String::new(),
        }
    }

    fn write(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.line.clear();
        let Form::Text(stamps) = &mut self.form else {
            return self.write_json(packet);
        };
        self.line += &stamps.text(packet.time_ns);
        self.line += &origin_text(&packet.origin, self.verbosity);
        self.printer.print(packet, &mut self.line);
        self.line.push('\n');
        self.out.write_all(self.line.as_bytes())
    }

    fn write_json(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.printer.print(packet, &mut self.line);
        let origin = &packet.origin;
        let verdict = origin.verdict.as_ref();
        let line = Line {
            time_ns: packet.time_ns,
            interface: origin.interface.as_deref(),
            direction: origin.direction.map(|d| d.to_string().to_lowercase()),
            slot: origin.slot,
            program: origin.program.as_deref(),
            verdict: verdict.map(|v| v.name.as_ref()),
            dropped: verdict.map(|v| v.is_drop),
            length: packet.len,
            captured: packet.bytes.len(),
            text: &self.line,
        };
        let object = serde_json::to_value(line).expect("numbers and texts");
        writeln!(self.out, "{object}")
    }
}

/// A packet, as an object on a line of its own.
#[derive(Serialize, JsonSchema)]
pub struct Line<'a> {
    /// When, since 1970-01-01 00:00 UTC.
    time_ns: u64,
    /// The interface's name; `null` when the capture does not say.
    interface: Option<&'a str>,
    /// `"in"` from the wire, `"out"` to it; `null` when it is not known.
    direction: Option<String>,
    /// The program's number with the daemon; `null` for packets of the host and of programs without the daemon.
    slot: Option<u16>,
    /// The program's name, of its own choosing; with its process for one without the daemon: `serve[4711]`.
    program: Option<&'a str>,
    /// What the daemon decided: `"slot"` given to the program, `"host"`, `"daemon"`, `"wire"`; for a drop the counter's name.
    verdict: Option<&'a str>,
    /// It went no further; `null`, as the verdict, without the daemon.
    dropped: Option<bool>,
    /// Bytes of the packet.
    length: usize,
    /// Bytes of it that were captured.
    captured: usize,
    /// The line that is shown without `--json`, without its time.
    text: &'a str,
}

/// What is known of where a packet comes from, before its text: the direction always, the rest with
/// `-v`, and a drop with its reason always.
fn origin_text(origin: &Origin, verbosity: u8) -> String {
    let mut text = String::new();
    if let Some(direction) = origin.direction {
        text += &format!("{direction:3} ");
    }
    let dropped = origin
        .verdict
        .as_ref()
        .is_some_and(|verdict| verdict.is_drop);
    if verbosity == 0 && !dropped {
        return text;
    }
    let mut parts = Vec::new();
    if verbosity > 0 {
        parts.extend(origin.interface.as_deref().map(escape));
    }
    parts.extend(origin.program.as_deref().map(escape));
    if let (true, Some(slot)) = (verbosity > 0, origin.slot) {
        parts.push(format!("slot {slot}"));
    }
    if let Some(Verdict { name, is_drop }) = &origin.verdict {
        let word = if *is_drop { "dropped: " } else { "to " };
        parts.push(format!("{word}{}", escape(name)));
    }
    if !parts.is_empty() {
        text += &format!("({}) ", parts.join(", "));
    }
    text
}

/// How often a key log is looked at, in packets' time.
const KEYS_EVERY_NS: u64 = 1_000_000;

/// Makes a capture file, for its owner alone: it may have keys in it.
fn create(path: &str, has_keys: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    if has_keys && file.metadata()?.mode() & 0o077 != 0 {
        exos_program::warn!(
            "exos dump: others can read or write {path}, into which keys are written; do: chmod 600 {path}"
        );
    }
    Ok(file)
}

impl Pcapng {
    /// A capture file at this path, `-` for standard output.
    pub(crate) fn create(
        path: &str,
        snaplen: u32,
        filter: &str,
        keys: Option<KeyFile>,
    ) -> io::Result<Self> {
        let out: Box<dyn Write> = match path {
            "-" => Box::new(io::stdout()),
            path => Box::new(create(path, keys.is_some())?),
        };
        Ok(Self {
            writer: Writer::new(BufWriter::new(out))?,
            snaplen,
            filter: filter.to_owned(),
            interfaces: HashMap::new(),
            keys,
            keys_time_ns: 0,
            time_ns: 0,
        })
    }

    /// Writes the secrets that were appended to the key log, and nothing else of that file. A log that cannot be read ends no capture.
    fn write_keys(&mut self) -> io::Result<()> {
        let Some(keys) = &mut self.keys else {
            return Ok(());
        };
        loop {
            let lines = match keys.next_lines() {
                Ok([]) => return Ok(()),
                Ok(lines) => lines,
                Err(error) => {
                    exos_program::warn!("exos dump: the keys cannot be read further: {error}");
                    self.keys = None;
                    return Ok(());
                }
            };
            let lines = lines.split_inclusive(|byte| *byte == b'\n');
            let secrets: Vec<u8> = lines
                .filter(|line| holds_secret(line))
                .flatten()
                .copied()
                .collect();
            if !secrets.is_empty() {
                self.writer.secrets(&secrets)?;
            }
        }
    }

    /// Before a packet that was captured a millisecond later than the one before which that was done last: live ones come in batches
    /// of ten, whose keys are in the log by then.
    fn write_keys_before(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let is_due = packet.time_ns.abs_diff(self.keys_time_ns) >= KEYS_EVERY_NS;
        if self.keys.is_none() || !is_due {
            return Ok(());
        }
        self.keys_time_ns = packet.time_ns;
        self.write_keys()
    }

    fn write(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.write_keys_before(packet)?;
        let name = &packet.origin.interface;
        let (number, captured) = match self.interfaces.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let number = self.writer.interface(Interface {
                    name: name.as_deref().unwrap_or("unknown"),
                    snaplen: self.snaplen,
                    filter: &self.filter,
                })?;
                new.insert((number, 0))
            }
        };
        self.time_ns = packet.time_ns;
        *captured += 1;
        self.writer.packet(*number, packet)
    }

    /// What was lost is not known by interface: it is said of the first.
    fn finish(&mut self, lost: u64) -> io::Result<()> {
        self.write_keys()?;
        let mut all: Vec<(u32, u64)> = self.interfaces.values().copied().collect();
        all.sort_unstable();
        for (number, captured) in all {
            let lost = if number == 0 { lost } else { 0 };
            self.writer
                .statistics(number, self.time_ns, captured, lost)?;
        }
        self.writer.flush()
    }
}

impl Sink {
    /// Puts a packet out.
    pub(crate) fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        match self {
            Self::Text(text) => text.write(packet),
            Self::Pcapng(pcapng) => pcapng.write(packet),
        }
    }

    /// Takes secrets that a capture has brought along.
    pub(crate) fn secrets(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Text(text) => text.printer.add_keys(lines),
            Self::Pcapng(pcapng) => return pcapng.writer.secrets(lines),
        }
        Ok(())
    }

    /// Hands on what was put out: whenever there is nothing to do but to wait.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Text(text) => text.out.flush(),
            Self::Pcapng(pcapng) => pcapng.writer.flush(),
        }
    }

    /// Ends the output, saying how many packets were lost.
    pub(crate) fn finish(&mut self, lost: u64) -> io::Result<()> {
        match self {
            Self::Text(text) => {
                let forgotten = text.printer.forgotten_connections();
                if forgotten > 0 {
                    exos_program::info!(
                        "exos dump: {forgotten} connections were not decrypted to their ends: others needed the memory; a filter that shows fewer helps"
                    );
                }
                text.out.flush()
            }
            Self::Pcapng(pcapng) => pcapng.finish(lost),
        }
    }
}
