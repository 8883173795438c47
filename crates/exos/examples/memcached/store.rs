//! Commands that store: `set`, `add`, `replace`, `append`, `prepend`, `cas`; and those that change what is stored: `incr`, `decr`, `touch`.

use super::cache::Cache;
use super::item::{Item, KEY_MAX, VALUE_MAX};
use super::words::{BAD_LINE, RELATIVE_MAX, Step, number};

/// Under which condition a value is stored, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Where the item has this number.
    Cas(u64),
}

/// A command that stores, without its value.
pub(super) struct Store<'a> {
    verb: Verb,
    key: &'a [u8],
    flags: u32,
    expires: Option<u64>,
    bytes: usize,
}

impl<'a> Store<'a> {
    /// Of a line's words; what to say where they are none.
    pub(super) fn parse(words: &[&'a [u8]], now: u64) -> Result<Self, &'static [u8]> {
        let (verb, words) = match *words {
            [b"set", ref rest @ ..] => (Verb::Set, rest),
            [b"add", ref rest @ ..] => (Verb::Add, rest),
            [b"replace", ref rest @ ..] => (Verb::Replace, rest),
            [b"append", ref rest @ ..] => (Verb::Append, rest),
            [b"prepend", ref rest @ ..] => (Verb::Prepend, rest),
            [b"cas", ref rest @ .., unique] => (Verb::Cas(number(unique).ok_or(BAD_LINE)?), rest),
            _ => return Err(BAD_LINE),
        };
        let [key, flags, expires, bytes] = *words else {
            return Err(BAD_LINE);
        };
        Ok(Self {
            verb,
            key: (key.len() <= KEY_MAX).then_some(key).ok_or(BAD_LINE)?,
            flags: number(flags).ok_or(BAD_LINE)?,
            expires: self::expires(expires, now).ok_or(BAD_LINE)?,
            bytes: number::<u32>(bytes).ok_or(BAD_LINE)? as usize,
        })
    }
}

/// When an item goes of which a command says this.
fn expires(word: &[u8], now: u64) -> Option<Option<u64>> {
    // Of 32 bits with a sign, as memcached keeps it.
    Some(match number::<i64>(word)? as i32 {
        0 => None,
        ..0 => Some(now),
        after @ 1..=RELATIVE_MAX => Some(now + after as u64),
        when => Some(when as u64),
    })
}

impl Cache {
    /// `rest` is what stands behind the line.
    pub(super) fn store(&mut self, store: &Store<'_>, rest: &[u8], now: u64) -> Step {
        let whole = store.bytes + 2;
        if store.bytes > VALUE_MAX {
            // What a client wanted replaced is not to be had any more.
            if store.verb == Verb::Set {
                self.delete(store.key);
            }
            let refused = b"SERVER_ERROR object too large for cache\r\n";
            return Step::Answer(whole, refused.to_vec());
        }
        let Some(value) = rest.get(..whole) else {
            return Step::More;
        };
        let Some(value) = value.strip_suffix(b"\r\n") else {
            return Step::Answer(whole, b"CLIENT_ERROR bad data chunk\r\n".to_vec());
        };
        Step::Answer(whole, self.stored(store, value, now).to_vec())
    }

    fn stored(&mut self, store: &Store<'_>, value: &[u8], now: u64) -> &'static [u8] {
        let mut item = Item {
            flags: store.flags,
            expires: store.expires,
            value: value.to_vec(),
        };
        match (store.verb, self.find(store.key, now)) {
            (Verb::Set, _) | (Verb::Add, None) | (Verb::Replace, Some(_)) => {}
            (Verb::Cas(unique), Some(kept)) if kept.unique == unique => {}
            (Verb::Cas(_), Some(_)) => return b"EXISTS\r\n",
            (Verb::Cas(_), None) => return b"NOT_FOUND\r\n",
            (Verb::Append, Some(kept)) => {
                item = kept.item.clone();
                item.value.extend(value);
            }
            (Verb::Prepend, Some(kept)) => {
                item = kept.item.clone();
                item.value.splice(..0, value.iter().copied());
            }
            (Verb::Add, Some(_)) | (Verb::Replace | Verb::Append | Verb::Prepend, None) => {
                return b"NOT_STORED\r\n";
            }
        }
        match item.value.len() <= VALUE_MAX && self.set(store.key, item).is_ok() {
            true => b"STORED\r\n",
            false => b"SERVER_ERROR out of memory storing object\r\n",
        }
    }

    /// A number that is stored as text, more or less by that of the word.
    pub(super) fn counted(&mut self, is_more: bool, key: &[u8], by: &[u8], now: u64) -> Vec<u8> {
        if key.len() > KEY_MAX {
            return BAD_LINE.to_vec();
        }
        let Some(by) = number::<u64>(by) else {
            return b"CLIENT_ERROR invalid numeric delta argument\r\n".to_vec();
        };
        let Some(mut item) = self.get(key, now).cloned() else {
            return b"NOT_FOUND\r\n".to_vec();
        };
        let Some(value) = leading_number(&item.value) else {
            return b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".to_vec();
        };
        let value = match is_more {
            true => value.wrapping_add(by),
            false => value.saturating_sub(by),
        };
        // It does not become shorter.
        let len = item.value.len();
        item.value = value.to_string().into_bytes();
        item.value.resize(len.max(item.value.len()), b' ');
        match self.set(key, item) {
            Ok(()) => format!("{value}\r\n").into_bytes(),
            Err(_) => b"SERVER_ERROR out of memory in incr\r\n".to_vec(),
        }
    }

    pub(super) fn touched(&mut self, key: &[u8], expires: &[u8], now: u64) -> &'static [u8] {
        if key.len() > KEY_MAX {
            return BAD_LINE;
        }
        let Some(expires) = self::expires(expires, now) else {
            return b"CLIENT_ERROR invalid exptime argument\r\n";
        };
        if self.get(key, now).is_none() {
            return b"NOT_FOUND\r\n";
        }
        self.expire_at(key, expires);
        b"TOUCHED\r\n"
    }
}

/// The number that a value begins with, behind which only space may stand at once.
fn leading_number(value: &[u8]) -> Option<u64> {
    let end = value.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, rest) = value.split_at(end.unwrap_or(value.len()));
    let is_alone = rest.first().is_none_or(u8::is_ascii_whitespace);
    number(digits).filter(|_| is_alone)
}
