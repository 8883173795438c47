//! `exos io wc`: lines, words and bytes, as GNU's counts them in the C locale: white space ends a word, a character that can be printed begins
//! one, and others do neither.

use crate::cat::gone;
use crate::input::{Chunk, Input, Inputs, of};
use crate::options::WcArgs;
use crate::output::Output;
use exos_host::{Error, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Newlines.
    pub lines: u64,
    /// Words.
    pub words: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Bytes that are looked at together: their words fit into a byte.
const GROUP: usize = 128;

/// Counts as bytes come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    counts: Counts,
    has_words: bool,
    is_in_word: bool,
}

#[inline]
fn is_space(byte: u8) -> bool {
    byte == b' ' || byte.wrapping_sub(b'\t') < 5
}

#[inline]
fn is_printed(byte: u8) -> bool {
    byte.wrapping_sub(b' ') < 0x7f - b' '
}

impl Counter {
    /// Words are counted where they are asked for: that takes most of the time.
    pub fn new(has_words: bool) -> Self {
        Self {
            has_words,
            ..Self::default()
        }
    }

    /// What was counted up to here.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts these.
    pub fn count(&mut self, bytes: &[u8]) {
        self.counts.bytes += bytes.len() as u64;
        self.counts.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        if self.has_words {
            let (groups, rest) = bytes.as_chunks::<GROUP>();
            groups.iter().for_each(|group| self.words_of(group));
            self.words_one_by_one(rest);
        }
    }

    #[inline]
    fn words_of(&mut self, group: &[u8; GROUP]) {
        let odd = group.iter().fold(0, |odd, &byte| {
            odd | u8::from(!is_space(byte) & !is_printed(byte))
        });
        if odd != 0 {
            return self.words_one_by_one(group);
        }
        // Words begin where a character follows white space.
        let pairs = group[..GROUP - 1].iter().zip(&group[1..]);
        let begins = pairs.fold(0_u8, |begins, (&before, &byte)| {
            begins.wrapping_add(u8::from(is_space(before) & !is_space(byte)))
        });
        let begins_first = !self.is_in_word & !is_space(group[0]);
        self.counts.words += u64::from(begins) + u64::from(begins_first);
        self.is_in_word = !is_space(group[GROUP - 1]);
    }

    fn words_one_by_one(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if is_space(byte) {
                self.is_in_word = false;
            } else if is_printed(byte) {
                self.counts.words += u64::from(!self.is_in_word);
                self.is_in_word = true;
            }
        }
    }
}

pub(crate) fn run(args: &WcArgs) -> Result<ExitCode> {
    let mut inputs = Inputs::new(&args.common);
    let mut output = Output::new(&args.common);
    let form = Form::new(args);
    let (mut total, mut code) = (Counts::default(), ExitCode::SUCCESS);
    let standard = [PathBuf::from("-")];
    let files = if args.files.is_empty() {
        &standard[..]
    } else {
        &args.files
    };
    for path in files {
        let mut say = |error: Error| {
            exos_host::error!("exos io wc: {error}");
            code = ExitCode::FAILURE;
        };
        let counts = match inputs.open(path) {
            Ok(input) => {
                let (counts, read) = count(&mut inputs, input, form.has_words);
                // What was counted before it could not be read counts.
                if let Err(error) = read {
                    say(of(path, &error));
                }
                counts
            }
            Err(error) => {
                say(error);
                continue;
            }
        };
        let name = (!args.files.is_empty()).then_some(path.as_path());
        output.write_bytes(&form.line(counts, name))?;
        total.lines += counts.lines;
        total.words += counts.words;
        total.bytes += counts.bytes;
    }
    if args.files.len() > 1 {
        output.write_bytes(&form.line(total, Some(Path::new("total"))))?;
    }
    inputs.tell();
    output.end().map(|()| code).or_else(gone)
}

fn count(inputs: &mut Inputs, mut input: Input, has_words: bool) -> (Counts, Result<()>) {
    let mut counter = Counter::new(has_words);
    loop {
        match inputs.next(&mut input) {
            Ok(Chunk::End) => return (counter.counts(), Ok(())),
            Ok(chunk) => chunk.for_each_block(|block| counter.count(block)),
            Err(error) => return (counter.counts(), Err(error)),
        }
    }
}

/// Which numbers are written, and how wide.
#[derive(Clone, Copy, Debug)]
struct Form {
    has_lines: bool,
    has_words: bool,
    has_bytes: bool,
    width: usize,
}

impl Form {
    fn new(args: &WcArgs) -> Self {
        let all = !(args.lines || args.words || args.bytes);
        let (has_lines, has_words, has_bytes) =
            (all || args.lines, all || args.words, all || args.bytes);
        let numbers = [has_lines, has_words, has_bytes];
        let is_one = numbers.into_iter().filter(|has| *has).count() == 1;
        let width = match args.files.len() {
            0 | 1 if is_one => 1,
            0 => width(&[PathBuf::from("/dev/stdin")]),
            _ => width(&args.files),
        };
        Self {
            has_lines,
            has_words,
            has_bytes,
            width,
        }
    }

    fn line(&self, counts: Counts, name: Option<&Path>) -> Vec<u8> {
        let numbers = [
            (self.has_lines, counts.lines),
            (self.has_words, counts.words),
            (self.has_bytes, counts.bytes),
        ];
        let mut line = String::new();
        for (_, number) in numbers.into_iter().filter(|(has, _)| *has) {
            let space = if line.is_empty() { "" } else { " " };
            let _ = write!(line, "{space}{number:>0$}", self.width);
        }
        let mut line = line.into_bytes();
        if let Some(name) = name {
            line.push(b' ');
            line.extend_from_slice(name.as_os_str().as_encoded_bytes());
        }
        line.push(b'\n');
        line
    }
}

/// Places of the largest number that there can be, at least 7 where that is not known before.
fn width(files: &[PathBuf]) -> usize {
    let (mut total, mut least) = (0, 1);
    for path in files {
        let path = if path == Path::new("-") {
            Path::new("/dev/stdin")
        } else {
            path
        };
        match std::fs::metadata(path) {
            Ok(about) if about.is_file() => total += about.len(),
            Ok(_) => least = 7,
            Err(_) => {}
        }
    }
    total.to_string().len().max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups and single bytes count alike, wherever the bytes are cut.
    #[test]
    fn groups_are_like_single_bytes() {
        let mut state = 1_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        for few in [b"a \n".as_slice(), b"ab\t \n\x01\xff~"] {
            let bytes: Vec<u8> = (0..5000)
                .map(|_| few[random() as usize % few.len()])
                .collect();
            let mut one = Counter::new(true);
            one.words_one_by_one(&bytes);
            let mut all = Counter::new(true);
            let mut left = &bytes[..];
            while !left.is_empty() {
                let now = (random() as usize % 700 + 1).min(left.len());
                all.count(&left[..now]);
                left = &left[now..];
            }
            assert_eq!(all.counts().words, one.counts().words);
            assert_eq!(all.counts().bytes, 5000);
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            assert_eq!(all.counts().lines, lines);
        }
    }
}
