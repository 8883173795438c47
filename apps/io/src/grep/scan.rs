//! Looks for lines in bytes as they come.
//!
//! They are put together in one place, and whole lines are looked at together: the pattern is looked for across them, and where it is found, in
//! which line that is. What is behind the last newline waits for the rest of its line.

use crate::limits::LINE_LEN_MAX;
use exos_host::{Error, Result};
use memchr::{memchr, memchr_iter, memrchr};
use regex::bytes::Regex;
use std::ops::Range;

/// What is to be told of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Those in which the pattern is not.
    pub is_inverted: bool,
    /// Their numbers.
    pub has_numbers: bool,
    /// Only how many there are.
    pub is_count: bool,
    /// Only whether there is one.
    pub is_quiet: bool,
    /// They are written whatever is in them.
    pub is_text: bool,
}

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// There may be more.
    More,
    /// There is a line in a file that is no text.
    Binary,
    /// It is over: how many lines there were, or that there is one.
    All(u64),
}

/// Where what is to be written goes.
type Write<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// See the module.
#[derive(Debug)]
pub struct Scanner<'a> {
    regex: &'a Regex,
    wanted: Wanted,
    /// What stands before each line.
    prefix: Option<Vec<u8>>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are there: whole lines are cut off in front.
    filled: usize,
    /// Lines before the buffer.
    number: u64,
    /// A zero byte has come: from then on they end lines, and none is written.
    is_binary: bool,
    found: u64,
}

impl<'a> Scanner<'a> {
    /// Looks for this.
    pub fn new(regex: &'a Regex, wanted: Wanted, prefix: Option<Vec<u8>>) -> Self {
        Self {
            regex,
            wanted,
            prefix,
            buffer: Vec::new(),
            filled: 0,
            number: 0,
            is_binary: false,
            found: 0,
        }
    }

    /// Takes the next bytes, which are put where they are wanted.
    ///
    /// # Errors
    ///
    /// A line is too long, or what was found cannot be written.
    pub fn take(
        &mut self,
        len: usize,
        put: impl FnOnce(&mut [u8]),
        write: &mut Write<'_>,
    ) -> Result<Found> {
        let all = self.filled + len;
        if all > LINE_LEN_MAX {
            return Err(Error::new(format!(
                "a line is longer than {LINE_LEN_MAX} bytes"
            )));
        }
        if self.buffer.len() <= all {
            // Room for a newline that is missing, too.
            self.buffer.resize((2 * all).max(1), 0);
        }
        put(&mut self.buffer[self.filled..all]);
        self.look_for_zeros(self.filled..all);
        let lines = match memrchr(b'\n', &self.buffer[self.filled..all]) {
            Some(last) => self.filled + last + 1,
            None => 0,
        };
        self.filled = all;
        let found = self.lines(lines, write)?;
        self.buffer.copy_within(lines..all, 0);
        self.filled = all - lines;
        Ok(found)
    }

    /// Nothing more comes.
    ///
    /// # Errors
    ///
    /// What was found cannot be written.
    pub fn end(&mut self, write: &mut Write<'_>) -> Result<Found> {
        if self.filled > 0 {
            self.buffer[self.filled] = b'\n';
            match self.lines(self.filled + 1, write)? {
                Found::More => {}
                over => return Ok(over),
            }
        }
        if self.wanted.is_count && !self.wanted.is_quiet {
            write(self.prefix.as_deref().unwrap_or_default())?;
            write(format!("{}\n", self.found).as_bytes())?;
        }
        Ok(Found::All(self.found))
    }

    fn look_for_zeros(&mut self, new: Range<usize>) {
        if self.wanted.is_text {
            return;
        }
        let new = &mut self.buffer[new];
        if let Some(first) = memchr(0, new) {
            self.is_binary = true;
            let zeros = new[first..].iter_mut().filter(|byte| **byte == 0);
            zeros.for_each(|byte| *byte = b'\n');
        }
    }

    /// Looks at whole lines, up to a place.
    fn lines(&mut self, end: usize, write: &mut Write<'_>) -> Result<Found> {
        let mut at = 0;
        while at < end {
            let line = self.next_match(at, end);
            let before = at..line.start;
            at = line.end;
            let chosen = if self.wanted.is_inverted {
                before.clone()
            } else {
                line.clone()
            };
            let skipped = if self.wanted.is_inverted {
                line
            } else {
                before.clone()
            };
            // In the order in which they are.
            let parts = match self.wanted.is_inverted {
                true => [(chosen, true), (skipped, false)],
                false => [(skipped, false), (chosen, true)],
            };
            for (part, is_chosen) in parts {
                let found = match is_chosen {
                    true => self.tell(part, write)?,
                    false => self.pass(&part),
                };
                if found != Found::More {
                    return Ok(found);
                }
            }
        }
        Ok(Found::More)
    }

    /// The next line in which the pattern is; an empty one at the end where it is in none.
    fn next_match(&self, at: usize, end: usize) -> Range<usize> {
        let text = &self.buffer[..end];
        match self.regex.find_at(text, at) {
            Some(found) if found.start() < end => {
                let start = memrchr(b'\n', &text[at..found.start()]).map_or(at, |n| at + n + 1);
                let behind = memchr(b'\n', &text[found.start()..]);
                start..found.start() + behind.map_or(end - found.start(), |n| n + 1)
            }
            _ => end..end,
        }
    }

    /// Lines of which nothing is told.
    fn pass(&mut self, lines: &Range<usize>) -> Found {
        if self.wanted.has_numbers {
            self.number += count(&self.buffer[lines.clone()]);
        }
        Found::More
    }

    /// Tells of lines.
    fn tell(&mut self, lines: Range<usize>, write: &mut Write<'_>) -> Result<Found> {
        let text = &self.buffer[lines];
        if text.is_empty() {
            return Ok(Found::More);
        }
        let wanted = self.wanted;
        if wanted.is_quiet {
            return Ok(Found::All(1));
        }
        if self.is_binary && !wanted.is_count {
            return Ok(Found::Binary);
        }
        if wanted.is_count {
            self.found += count(text);
            return Ok(Found::More);
        }
        if self.prefix.is_none() && !wanted.has_numbers {
            self.found += 1;
            write(text)?;
            return Ok(Found::More);
        }
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            self.number += 1;
            self.found += 1;
            write(self.prefix.as_deref().unwrap_or_default())?;
            if wanted.has_numbers {
                write(format!("{}:", self.number).as_bytes())?;
            }
            write(line)?;
        }
        Ok(Found::More)
    }
}

fn count(lines: &[u8]) -> u64 {
    memchr_iter(b'\n', lines).count() as u64
}
