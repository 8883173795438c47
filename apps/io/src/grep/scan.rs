//! Looks for lines in bytes as they come.
//!
//! They are put together in one place, and whole lines are looked at together: the pattern is looked for across them, and where it is found, in
//! which line that is. What is behind the last newline waits for the rest of its line.
//!
//! A zero byte says that a file is no text, of which no line is written. What is looked at together decides of how many lines before it that is
//! so: windows of [`WINDOW_LEN`] bytes of a file, however its bytes come, and what comes together of a pipe.

use crate::limits::{LINE_LEN_MAX, WINDOW_LEN};
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
    /// Of these, those in which lines were looked for.
    looked: usize,
    /// Bytes to the end of the window.
    window: usize,
    /// What is there is looked at, also where the window is not full.
    is_at_once: bool,
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
            looked: 0,
            window: WINDOW_LEN,
            is_at_once: false,
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
        self.filled = all;
        let mut start = 0;
        loop {
            let now = self.window.min(all - self.looked);
            if now == 0 || now < self.window && !self.is_at_once {
                break;
            }
            self.window -= now;
            if self.window == 0 {
                self.window = WINDOW_LEN;
            }
            let new = self.looked..self.looked + now;
            self.looked = new.end;
            self.look_for_zeros(new.clone());
            let last = memrchr(b'\n', &self.buffer[new.clone()]);
            let end = last.map_or(start, |last| new.start + last + 1);
            let found = self.lines(start..end, write)?;
            if found != Found::More {
                return Ok(found);
            }
            start = end;
        }
        self.buffer.copy_within(start..all, 0);
        self.filled = all - start;
        self.looked -= start;
        Ok(Found::More)
    }

    /// More may be a long time in coming: what is there is looked at.
    pub fn look_at_once(&mut self) {
        self.is_at_once = true;
    }

    /// Whether no line is written, whatever is found.
    pub fn writes_no_lines(&self) -> bool {
        self.wanted.is_quiet || self.wanted.is_count
    }

    /// Nothing more comes.
    ///
    /// # Errors
    ///
    /// What was found cannot be written.
    pub fn end(&mut self, write: &mut Write<'_>) -> Result<Found> {
        if self.filled > 0 {
            self.look_for_zeros(self.looked..self.filled);
            let mut end = self.filled;
            if self.buffer[end - 1] != b'\n' {
                self.buffer[end] = b'\n';
                end += 1;
            }
            match self.lines(0..end, write)? {
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

    /// Looks at whole lines.
    fn lines(&mut self, lines: Range<usize>, write: &mut Write<'_>) -> Result<Found> {
        let (mut at, end) = (lines.start, lines.end);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &[u8], at_once: usize, regex: &Regex) -> (Found, Vec<u8>) {
        let mut written = Vec::new();
        let mut write = |bytes: &[u8]| {
            written.extend_from_slice(bytes);
            Ok(())
        };
        let wanted = Wanted::default();
        let mut scanner = Scanner::new(regex, wanted, None);
        let mut found = Found::More;
        for chunk in text.chunks(at_once) {
            let taken = scanner.take(chunk.len(), |into| into.copy_from_slice(chunk), &mut write);
            found = taken.expect("it is written");
            if found != Found::More {
                break;
            }
        }
        if found == Found::More {
            found = scanner.end(&mut write).expect("it is written");
        }
        (found, written)
    }

    /// How much of a file is written before it turns out to be binary is the same, however its bytes come.
    #[test]
    fn zeros_are_found_alike_however_bytes_come() {
        let regex = Regex::new("(?-u)abc").expect("a pattern");
        let lines = b"line abc\n".repeat(40_000);
        for zero in [0, 10, WINDOW_LEN - 1, WINDOW_LEN, 180_000, 300_000] {
            let mut text = lines.clone();
            text[zero] = 0;
            let whole = scan(&text, text.len(), &regex);
            assert_eq!(whole.0, Found::Binary, "{zero}");
            let written = zero / WINDOW_LEN * WINDOW_LEN / 9 * 9;
            assert_eq!(whole.1.len(), written, "{zero}");
            for at_once in [1000, WINDOW_LEN, 64 << 10, 384 << 10] {
                assert!(scan(&text, at_once, &regex) == whole, "{zero}, {at_once}");
            }
        }
    }
}
