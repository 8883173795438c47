//! An answer that is kept: what all threads share of it, and what one of them serves it from.
//!
//! Its fields are kept as lines, as they go to clients, but for Age: with the first lines and the age they become one head, which is made
//! once for each second in which it is asked for. Its content lies in a buffer of its own with its sums, as a document's does, so that
//! it is neither copied nor summed for a response, and other fields for the same content (RFC 9111 §4.3.4) cost no copy of it either.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use exos_buf::{Buffer, SharedBytes, Slice};

use super::rules::CacheRules;
use super::said::Said;
use super::storing::Terms;
use crate::http::Manner;
use crate::site::SitePath;

/// An answer, as all threads know it.
#[derive(Clone, Debug)]
pub struct Record {
    /// What it answers.
    pub key: SitePath,
    /// Its name among all that is in memory: the key, and the values that it depends on.
    pub name: SitePath,
    /// The fields of requests that it depends on.
    pub names: Box<[Box<str>]>,
    /// The values that they had.
    pub values: Box<[u8]>,
    /// The rule whose upstreams gave it.
    pub rules: Arc<CacheRules>,
    /// Its status.
    pub code: u16,
    /// Its fields, as lines, with the length of its content and when it was made; without its age.
    pub lines: SharedBytes,
    /// Its content.
    pub body: SharedBytes,
    /// How long it may be used.
    pub terms: Terms,
    /// When it would have been made if it had been fresh then, in seconds since 1970: its age counts from there.
    pub born_secs: u64,
    /// When it says that it was made, in seconds since 1970.
    pub date_secs: u64,
    /// What it says of how it may be kept.
    pub said: Said,
}

impl Record {
    /// How old it is (RFC 9111 §4.2.3).
    pub fn age(&self, now_secs: u64) -> Duration {
        Duration::from_secs(now_secs.saturating_sub(self.born_secs))
    }

    /// It belongs to a rule, and to no other that says the same.
    pub fn is_of(&self, rules: &Arc<CacheRules>) -> bool {
        Arc::ptr_eq(&self.rules, rules)
    }

    /// All its bytes, for those who keep account of them.
    pub fn bytes(&self) -> Vec<SharedBytes> {
        vec![self.lines.clone(), self.body.clone()]
    }

    /// Another record of the same content, of which an upstream has said that it still holds (RFC 9111 §4.3.4): with the fields that it has
    /// said, and all others as they were.
    #[must_use]
    pub fn renewed(&self, said: &Said, lines: &[u8], age: Duration, now_secs: u64) -> Record {
        Record {
            lines: merged(self.lines.as_slice(), lines).into(),
            born_secs: now_secs.saturating_sub(age.as_secs()),
            date_secs: said.date.unwrap_or(now_secs),
            said: said.over(&self.said),
            ..self.clone()
        }
    }
}

/// The lines of an answer with those of a 304 instead of all that have the same names. What is said about the content itself stays:
/// that is the content which is kept.
fn merged(old: &[u8], new: &[u8]) -> Vec<u8> {
    let is_of_content = |line: &[u8]| {
        let name = name_of(line);
        let kept: [&[u8]; 5] = [
            b"content-length",
            b"content-encoding",
            b"content-type",
            b"content-range",
            b"content-language",
        ];
        kept.iter().any(|it| it.eq_ignore_ascii_case(name))
    };
    let news = || lines(new).filter(|line| !is_of_content(line));
    let is_said = |line: &[u8]| news().any(|new| name_of(new).eq_ignore_ascii_case(name_of(line)));
    let mut out = Vec::with_capacity(old.len() + new.len());
    let kept = lines(old).filter(|line| !is_said(line));
    kept.chain(news())
        .for_each(|line| out.extend_from_slice(line));
    out
}

/// The lines of fields, each with its end.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&b| b == b'\n')
}

/// The name of a line's field.
pub fn name_of(line: &[u8]) -> &[u8] {
    let colon = line.iter().position(|&b| b == b':');
    &line[..colon.unwrap_or(line.len())]
}

/// An answer, as one thread serves it.
#[derive(Debug)]
pub struct Answer {
    /// What all know of it.
    pub record: Arc<Record>,
    body: Buffer,
    /// The head of the last response, with the second for which it was made.
    made: RefCell<Option<(u64, Manner, Head)>>,
}

/// What comes before the content: in HTTP/2 the two parts of a header block.
pub type Head = [Slice; 2];

impl Answer {
    /// For this thread.
    pub fn new(record: Arc<Record>) -> Answer {
        Answer {
            body: record.body.buffer(),
            record,
            made: RefCell::default(),
        }
    }

    /// Its content.
    pub fn body(&self) -> Slice {
        self.body.whole()
    }

    /// Its fields, as lines.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        lines(self.record.lines.as_slice())
    }

    /// It was given out.
    pub fn note_use(&self) {
        self.body.note_use();
    }

    /// The head of a response of this second, which `make` makes where it is not there.
    pub fn head(&self, now_secs: u64, how: Manner, make: impl FnOnce() -> Head) -> Head {
        let mut made = self.made.borrow_mut();
        match &*made {
            Some((at, of, head)) if (*at, *of) == (now_secs, how) => head.clone(),
            _ => made.insert((now_secs, how, make())).2.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_304_brings_other_fields_for_the_content_that_is_kept() {
        let old =
            b"ETag: \"a\"\r\nX: 1\r\nX: 2\r\nContent-Length: 5\r\nCache-Control: max-age=1\r\n";
        let new = b"cache-control: max-age=9\r\nContent-Length: 0\r\nx: 3\r\nY: 4\r\n";
        let text = String::from_utf8(merged(old, new)).unwrap();
        let wanted =
            "ETag: \"a\"\r\nContent-Length: 5\r\ncache-control: max-age=9\r\nx: 3\r\nY: 4\r\n";
        assert_eq!(text, wanted);
    }
}
