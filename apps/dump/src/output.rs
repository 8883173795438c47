//! What is done with every packet: it passes the filter, is cut, counted and put out.

use std::io::{self, ErrorKind};
use std::ops::ControlFlow;

use exos_filter::Filter;
use exos_host::Error;

use crate::cli::DumpArgs;
use crate::packet::Packet;
use crate::sink::{Pcapng, Sink, Text};

/// Where packets go.
pub(crate) struct Output {
    filter: Filter,
    snaplen: usize,
    sink: Sink,
    /// Packets put out.
    pub(crate) captured: u64,
    /// How many are wanted.
    count: u64,
}

impl Output {
    pub(crate) fn new(args: &DumpArgs) -> Result<Self, Error> {
        let keys = args.key_file()?;
        let sink = match &args.write {
            Some(path) => {
                let filter = args.filter_text();
                let pcapng = Pcapng::create(path, args.snaplen(), &filter, keys)
                    .map_err(|e| Error::io(format!("cannot write {path}"), e))?;
                Sink::Pcapng(Box::new(pcapng))
            }
            None => {
                let mut printer = args.printer();
                if let Some(keys) = keys {
                    printer.decrypt_with(keys);
                }
                let text = Text::new(printer, args.form(), args.verbose);
                Sink::Text(Box::new(text))
            }
        };
        Ok(Self {
            filter: args.filter()?,
            snaplen: args.snaplen() as usize,
            sink,
            captured: 0,
            count: args.count.unwrap_or(u64::MAX),
        })
    }

    /// Puts a packet of a file out if the filter wants it, cut to the snap length. `Break` as for
    /// [`Self::put`].
    pub(crate) fn filter_and_put(&mut self, packet: &Packet<'_>) -> Result<ControlFlow<()>, Error> {
        if !self.filter.matches(packet.bytes) {
            return Ok(ControlFlow::Continue(()));
        }
        let cut = Packet {
            bytes: packet.bytes.get(..self.snaplen).unwrap_or(packet.bytes),
            ..packet.clone()
        };
        self.put(&cut)
    }

    /// Takes secrets that a file has brought along. `Break` as for [`Self::put`].
    pub(crate) fn secrets(&mut self, lines: &[u8]) -> Result<ControlFlow<()>, Error> {
        written(self.sink.secrets(lines))
    }

    /// Puts a packet out. `Break` when there have been enough, or when nobody reads any more.
    pub(crate) fn put(&mut self, packet: &Packet<'_>) -> Result<ControlFlow<()>, Error> {
        let done = self.sink.packet(packet);
        if written(done)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.captured += 1;
        Ok(match self.has_enough() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// As many packets as were wanted have been put out.
    pub(crate) fn has_enough(&self) -> bool {
        self.captured >= self.count
    }

    /// Hands on what was put out. `Break` when nobody reads any more.
    pub(crate) fn flush(&mut self) -> Result<ControlFlow<()>, Error> {
        written(self.sink.flush())
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self, lost: u64) -> Result<(), Error> {
        written(self.sink.finish(lost)).map(|_| ())
    }
}

/// A reader that went away has seen enough.
fn written(result: io::Result<()>) -> Result<ControlFlow<()>, Error> {
    match result {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(e) => Err(Error::io("cannot write packets", e)),
    }
}
