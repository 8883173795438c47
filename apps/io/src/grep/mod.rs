//! `exos io grep`: lines in which a pattern is found, as GNU's finds them in the C locale.
//!
//! `pattern` turns patterns of POSIX into those of the regex crate, `scan` looks for lines in what comes.

mod pattern;
mod scan;

pub use pattern::{Syntax, translate};
pub use scan::{Found, Scanner, Wanted};

use crate::cat::gone;
use crate::input::{Chunk, Input, Inputs, of};
use crate::options::GrepArgs;
use crate::output::Output;
use exos_host::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// GNU's: something went wrong.
const TROUBLE: u8 = 2;

pub(crate) fn run(args: &GrepArgs) -> Result<ExitCode> {
    match search(args) {
        Ok(code) => Ok(code),
        Err(error) => match gone(error) {
            Ok(code) => Ok(code),
            Err(error) => {
                exos_host::error!("exos io grep: {error}");
                Ok(ExitCode::from(TROUBLE))
            }
        },
    }
}

fn search(args: &GrepArgs) -> Result<ExitCode> {
    let (patterns, files) = match (&args.patterns[..], &args.rest[..]) {
        ([], []) => return Err(Error::new("a pattern is missing")),
        ([], [pattern, files @ ..]) => (std::slice::from_ref(pattern), files),
        (patterns, files) => (patterns, files),
    };
    let syntax = match (args.extended_regexp, args.fixed_strings) {
        (true, _) => Syntax::Extended,
        (_, true) => Syntax::Fixed,
        _ => Syntax::Basic,
    };
    let patterns: Vec<&[u8]> = patterns.iter().map(|it| it.as_encoded_bytes()).collect();
    let regex = pattern::compile(&patterns, syntax, args.ignore_case)?;
    let standard = [PathBuf::from("-")];
    let named: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let paths = if named.is_empty() {
        &standard[..]
    } else {
        &named
    };
    let has_names = args.with_filename || paths.len() > 1 && !args.no_filename;
    let wanted = Wanted {
        is_inverted: args.invert_match,
        has_numbers: args.line_number,
        is_count: args.count,
        is_quiet: args.quiet,
        is_text: args.text,
    };
    let mut inputs = Inputs::new(&args.common);
    let mut output = Output::new(&args.common);
    let (mut is_found, mut is_trouble) = (false, false);
    for path in paths {
        let prefix = has_names.then(|| prefix(path));
        let mut scanner = Scanner::new(&regex, wanted, prefix);
        match file(path, &mut scanner, &mut inputs, &mut output) {
            Ok(found) => is_found |= found,
            Err(error) if crate::output::is_reader_gone(&error) => return gone(error),
            Err(error) => {
                exos_host::error!("exos io grep: {error}");
                is_trouble = true;
            }
        }
        if is_found && args.quiet {
            return Ok(ExitCode::SUCCESS);
        }
    }
    inputs.tell();
    output.end()?;
    Ok(match (is_trouble, is_found) {
        (true, _) => ExitCode::from(TROUBLE),
        (_, true) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn name(path: &Path) -> &[u8] {
    match path == Path::new("-") {
        true => b"(standard input)",
        false => path.as_os_str().as_encoded_bytes(),
    }
}

fn prefix(path: &Path) -> Vec<u8> {
    [name(path), b":"].concat()
}

/// Looks through a file; whether anything was found.
fn file(
    path: &Path,
    scanner: &mut Scanner<'_>,
    inputs: &mut Inputs,
    output: &mut Output,
) -> Result<bool> {
    let mut input = inputs.open(path)?;
    if let Some(from) = input.descriptor()
        && !scanner.writes_no_lines()
        && output.is_into(from)?
    {
        let path = path.display();
        return Err(Error::new(format!("{path}: it is the output, too")));
    }
    if input.may_wait() {
        scanner.look_at_once();
    }
    let found = look(path, scanner, &mut input, inputs, output);
    inputs.close(input);
    found
}

fn look(
    path: &Path,
    scanner: &mut Scanner<'_>,
    input: &mut Input,
    inputs: &mut Inputs,
    output: &mut Output,
) -> Result<bool> {
    let mut write = |bytes: &[u8]| output.write_bytes(bytes);
    loop {
        let chunk = inputs.next(input).map_err(|error| of(path, &error));
        let found = match chunk? {
            Chunk::End => scanner.end(&mut write)?,
            Chunk::Bytes(bytes) => {
                scanner.take(bytes.len(), |into| into.copy_from_slice(bytes), &mut write)?
            }
            Chunk::Shared(bytes) => {
                let all = 0..bytes.len();
                scanner.take(
                    bytes.len(),
                    |into| bytes.copy_to(all.clone(), into),
                    &mut write,
                )?
            }
        };
        match found {
            Found::More => {}
            Found::Binary => {
                let name = String::from_utf8_lossy(name(path));
                exos_host::info!("exos io grep: {name}: binary file matches");
                return Ok(true);
            }
            Found::All(lines) => return Ok(lines > 0),
        }
    }
}
