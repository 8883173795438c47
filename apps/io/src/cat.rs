//! `exos io cat`: files to standard output.

use crate::input::{Chunk, Inputs, of};
use crate::options::CatArgs;
use crate::output::{Output, is_reader_gone};
use exos_host::{Error, Result};
use rustix::fs::{fstat, tell};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(args: &CatArgs) -> Result<ExitCode> {
    let mut inputs = Inputs::new(&args.common);
    let mut output = Output::new(&args.common);
    let mut code = ExitCode::SUCCESS;
    for path in &args.files {
        match copy(path, &mut inputs, &mut output) {
            Ok(()) => {}
            Err(Stopped::Output(error)) => return gone(error),
            Err(Stopped::Input(error)) => {
                exos_host::error!("exos io cat: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    inputs.tell();
    output.end().map(|()| code).or_else(gone)
}

/// Why a file was not copied to its end: the next one can be, or not.
enum Stopped {
    Input(Error),
    Output(Error),
}

fn copy(path: &Path, inputs: &mut Inputs, output: &mut Output) -> Result<(), Stopped> {
    let mut input = inputs.open(path).map_err(Stopped::Input)?;
    if let Some(file) = input.descriptor()
        && output.is_into(file).map_err(Stopped::Output)?
        && is_something_left(file)
    {
        let error = Error::new(format!("{}: it is the output, too", path.display()));
        return Err(Stopped::Input(error));
    }
    loop {
        let chunk = inputs.next(&mut input);
        let written = match chunk.map_err(|error| Stopped::Input(of(path, &error)))? {
            Chunk::Bytes(bytes) => output.write_bytes(bytes),
            Chunk::Shared(bytes) => output.write(bytes),
            Chunk::End => return Ok(()),
        };
        written.map_err(Stopped::Output)?;
    }
}

/// Whether there is something to read in a file from where it is.
fn is_something_left(file: BorrowedFd<'_>) -> bool {
    let at = tell(file).unwrap_or(0);
    fstat(file).is_ok_and(|found| at < found.st_size.unsigned_abs())
}

/// A reader that has gone ends a tool without a word.
pub(crate) fn gone(error: Error) -> Result<ExitCode> {
    match is_reader_gone(&error) {
        true => Ok(ExitCode::FAILURE),
        false => Err(error),
    }
}
