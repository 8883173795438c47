//! `exos io cat`: files to standard output.

use crate::input::{Chunk, Inputs};
use crate::options::CatArgs;
use crate::output::{Output, is_reader_gone};
use exos_host::{Error, Result};
use std::process::ExitCode;

pub(crate) fn run(args: &CatArgs) -> Result<ExitCode> {
    let mut inputs = Inputs::new(&args.common);
    let mut output = Output::new(&args.common);
    let mut code = ExitCode::SUCCESS;
    for path in &args.files {
        match inputs.open(path) {
            Ok(mut input) => loop {
                let written = match inputs.next(&mut input)? {
                    Chunk::Bytes(bytes) => output.write_bytes(bytes),
                    Chunk::Shared(bytes) => output.write(bytes),
                    Chunk::End => break,
                };
                if let Err(error) = written {
                    return gone(error);
                }
            },
            Err(error) => {
                exos_host::error!("exos io cat: {error}");
                code = ExitCode::FAILURE;
            }
        }
    }
    inputs.tell();
    output.end().map(|()| code).or_else(gone)
}

/// A reader that has gone ends a tool without a word.
pub(crate) fn gone(error: Error) -> Result<ExitCode> {
    match is_reader_gone(&error) {
        true => Ok(ExitCode::FAILURE),
        false => Err(error),
    }
}
