//! `exos dump`: packets of a file, or as they come, to the output.

use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;

use exos_host::Error;

use crate::cli::DumpArgs;
use crate::file::{CaptureReader, FileError, Item};
use crate::output::Output;

/// Does what the command line says.
///
/// # Errors
/// The filter is not understood, a file cannot be read or written, or there is nobody whose packets are to be seen.
pub fn run(mut args: DumpArgs) -> Result<ExitCode, Error> {
    args.look_up_names()?;
    let args = &args;
    let output = Output::new(args)?;
    match &args.read {
        Some(path) => read_file(path, output),
        None => crate::live::run(args, output),
    }
}

fn read_file(path: &str, mut output: Output) -> Result<ExitCode, Error> {
    let unreadable = |e: FileError| match e {
        FileError::Io(e) => Error::io(format!("cannot read {path}"), e),
        bad @ FileError::Bad { .. } => Error::new(format!("cannot read {path}: {bad}"))
            .mend("capture files are pcapng or pcap, of Ethernet"),
    };
    let from: Box<dyn Read> = match path {
        "-" => Box::new(io::stdin()),
        path => Box::new(File::open(path).map_err(|e| unreadable(e.into()))?),
    };
    let from = io::BufReader::with_capacity(1 << 16, from);
    let mut reader = CaptureReader::new(from).map_err(unreadable)?;
    let damage = loop {
        let put = match reader.next_item() {
            Ok(Some(Item::Packet(packet))) => output.filter_and_put(&packet)?,
            Ok(Some(Item::Secrets(lines))) => output.secrets(lines)?,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        if put.is_break() {
            break None;
        }
    };
    // What came before the damage is good.
    output.finish(reader.lost())?;
    if reader.lost() > 0 {
        exos_program::info!(
            "exos dump: {path} lacks {} packets, which were lost when it was made",
            reader.lost()
        );
    }
    match damage {
        Some(error) => Err(unreadable(error)),
        None => Ok(ExitCode::SUCCESS),
    }
}
