//! Calls that wait for many: events, what is polled, sets of descriptors, and what was found.

use std::fmt::{self, Display, Formatter, Write as _};

use super::calls::{Kind, shape};
use super::names::{EVENTS, POLLED};
use super::{Call, PARTS, flags, pointer};

impl Call<'_> {
    /// Events of epoll(7), as a list or one.
    pub(super) fn events(
        &self,
        out: &mut Formatter<'_>,
        at: u64,
        count: u64,
        is_list: bool,
    ) -> fmt::Result {
        const EACH: u64 = if cfg!(target_arch = "x86_64") { 12 } else { 16 };
        let data_at = EACH - 8;
        if at == 0 {
            return pointer(out, at);
        }
        if is_list {
            out.write_char('[')?;
        }
        for n in 0..count.min(PARTS) {
            let place = at.wrapping_add(n * EACH);
            let (Some(events), Some(data)) =
                (self.word(place), self.long(place.wrapping_add(data_at)))
            else {
                return pointer(out, at);
            };
            out.write_str(if n > 0 { ", {events=" } else { "{events=" })?;
            flags(out, EVENTS, events)?;
            write!(out, ", data={data:#x}}}")?;
        }
        match (is_list, count > PARTS) {
            (false, _) => Ok(()),
            (true, false) => out.write_char(']'),
            (true, true) => out.write_str(", ...]"),
        }
    }

    pub(super) fn polled(&self, out: &mut Formatter<'_>, at: u64, count: u64) -> fmt::Result {
        if at == 0 {
            return pointer(out, at);
        }
        out.write_char('[')?;
        for (n, (fd, events, _)) in self.each_polled(at, count).enumerate() {
            write!(out, "{}{{fd={fd}, events=", if n > 0 { ", " } else { "" })?;
            flags(out, POLLED, events)?;
            out.write_char('}')?;
        }
        out.write_str(if count > PARTS { ", ...]" } else { "]" })
    }

    /// Descriptors, what is asked of them, and what is told.
    pub(super) fn each_polled(&self, at: u64, count: u64) -> impl Iterator<Item = (i32, i32, i32)> {
        const EACH: u64 = 8;
        (0..count.min(PARTS)).map_while(move |n| {
            let bytes: [u8; 8] = self.read(at.wrapping_add(n * EACH))?;
            let fd = i32::from_ne_bytes(bytes[..4].try_into().ok()?);
            let half = |at: usize| i32::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
            Some((fd, half(4), half(6)))
        })
    }

    pub(super) fn set(&self, out: &mut Formatter<'_>, set: &[u64; 16]) -> fmt::Result {
        let most = (self.args[0] as i32).clamp(0, 1024);
        let mut members = (0..most).filter(|fd| set[*fd as usize / 64] >> (fd % 64) & 1 != 0);
        out.write_char('[')?;
        if let Some(first) = members.next() {
            write!(out, "{first}")?;
        }
        for fd in members {
            write!(out, " {fd}")?;
        }
        out.write_char(']')
    }

    pub(super) fn time(&self, out: &mut Formatter<'_>, at: u64) -> fmt::Result {
        match (self.long(at), self.long(at.wrapping_add(8))) {
            (Some(seconds), Some(part)) if at != 0 => {
                write!(
                    out,
                    "{{tv_sec={}, tv_nsec={}}}",
                    seconds as i64, part as i64
                )
            }
            _ => pointer(out, at),
        }
    }
}

/// What poll(2) and select(2) have found, behind their answer.
pub struct Found<'a>(&'a Call<'a>);

impl Call<'_> {
    /// What is behind the answer: what poll(2) and select(2) have found.
    pub fn found(&self) -> Found<'_> {
        Found(self)
    }
}

impl Display for Found<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let call = self.0;
        let (Some((_, kinds)), Ok(1..)) = (shape(call.number), call.result) else {
            return Ok(());
        };
        match kinds {
            [Kind::Polled, ..] => {
                out.write_str(" ([")?;
                let all = call.each_polled(call.args[0], call.args[1]);
                for (n, (fd, _, told)) in all.filter(|(.., told)| *told != 0).enumerate() {
                    write!(out, "{}{{fd={fd}, revents=", if n > 0 { ", " } else { "" })?;
                    flags(out, POLLED, told)?;
                    out.write_char('}')?;
                }
                out.write_str("])")
            }
            [_, Kind::Set, ..] => {
                let mut before = " (";
                for (word, name) in call.args[1..4].iter().zip(["in", "out", "except"]) {
                    let mut set = [0; 16];
                    let words = (call.args[0] as usize).div_ceil(64).min(16);
                    for (n, place) in set.iter_mut().enumerate().take(words) {
                        *place = call.long(word.wrapping_add(8 * n as u64)).unwrap_or(0);
                    }
                    if *word != 0 && set != [0; 16] {
                        write!(out, "{before}{name} ")?;
                        call.set(out, &set)?;
                        before = ", ";
                    }
                }
                out.write_str(if before == ", " { ")" } else { "" })
            }
            _ => Ok(()),
        }
    }
}
