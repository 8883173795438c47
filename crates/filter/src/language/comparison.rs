//! Comparisons of bytes: `tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn`.

use super::names;
use super::parser::{Parser, Result};
use super::text::integer;
use crate::filter::Filter;
use crate::limits::OFFSET_MAX;
use crate::literal::{Base, Literal, Test, Width};

impl Parser<'_> {
    pub(super) fn comparison(&mut self, base: Base) -> Result<Filter> {
        self.cursor.next();
        self.comparison_behind(base, &[])
    }

    /// `[offset:width] & mask relation value`, behind the base's name.
    pub(super) fn comparison_behind(&mut self, base: Base, tests: &[Literal]) -> Result<Filter> {
        let start = self.cursor.peek();
        if !self.cursor.take(&["["]) {
            return Err(self.cursor.expected("`[`"));
        }
        let (offset, width) = self.brackets()?;
        let fits = match base {
            Base::Type => offset == 0 && width == Width::Half,
            Base::Protocol => offset == 0 && width == Width::Byte,
            Base::Network | Base::Transport | Base::Link => offset + width.bytes() <= OFFSET_MAX,
        };
        if !fits {
            return Err(self.cursor.error(start, "there is no such word (of the type and the protocol only `type[0:2]` and `protocol[0]`)"));
        }
        let mask = if self.cursor.take(&["&"]) {
            self.mask()?
        } else {
            u32::MAX
        };
        let relation = self.cursor.next();
        let (value, last) = self.values_compared()?;
        let range = |low, high| Filter::test(Test::range(base, offset, width, mask, low, high));
        let present = Filter::test(Test::present(base, offset, width));
        let compared = match relation.text {
            "=" | "==" => Ok(range(value, last)),
            "!=" => range(value, last)
                .not()
                .and_then(|other| other.and(&present)),
            _ if last != value => {
                return Err(self.cursor.error(relation, "a range goes with `=` or `!=`"));
            }
            ">=" => Ok(range(value, u32::MAX)),
            "<=" => Ok(range(0, value)),
            ">" => Ok(value
                .checked_add(1)
                .map_or(Filter::nothing(), |low| range(low, u32::MAX))),
            "<" => Ok(value
                .checked_sub(1)
                .map_or(Filter::nothing(), |high| range(0, high))),
            _ => {
                return Err(self
                    .cursor
                    .error(relation, "expected `=`, `!=`, `<`, `<=`, `>` or `>=`"));
            }
        };
        let filter = compared.and_then(|f| f.and(&Filter::all_of(tests.iter().copied())?));
        self.sized(start, filter)
    }

    /// `offset:width]`, behind the opening bracket.
    pub(super) fn brackets(&mut self) -> Result<(usize, Width)> {
        let token = self.cursor.next_in_brackets();
        let offset = integer(token.text).or_else(|| names::find(names::NUMBERS, token.text));
        let Some(offset) = offset.map(|n| n as usize).filter(|&n| n < OFFSET_MAX) else {
            return Err(self
                .cursor
                .error(token, format!("expected an offset below {OFFSET_MAX}")));
        };
        let width = if self.cursor.take_colon() {
            let token = self.cursor.next();
            match token.text {
                "1" => Width::Byte,
                "2" => Width::Half,
                "4" => Width::Word,
                _ => {
                    return Err(self
                        .cursor
                        .error(token, "expected a width of 1, 2 or 4 bytes"));
                }
            }
        } else {
            Width::Byte
        };
        if !self.cursor.take(&["]"]) {
            return Err(self.cursor.expected("`:` and a width, or `]`"));
        }
        Ok((offset, width))
    }

    /// What is compared with: a value, or a range such as `0x50-0x5f`.
    pub(super) fn values_compared(&mut self) -> Result<(u32, u32)> {
        let token = self.cursor.peek();
        let range = token
            .text
            .split_once('-')
            .and_then(|(low, high)| Some((integer(low)?, integer(high)?)));
        if let Some((low, high)) = range {
            self.cursor.next();
            return Ok((low, high));
        }
        let value = self.flags()?;
        Ok((value, value))
    }

    /// A mask: a number, or flags in parentheses.
    pub(super) fn mask(&mut self) -> Result<u32> {
        if !self.cursor.take(&["("]) {
            return self.value_number();
        }
        let mask = self.flags()?;
        if !self.cursor.take(&[")"]) {
            return Err(self.cursor.expected("`|` or `)`"));
        }
        Ok(mask)
    }

    /// Numbers or flags, joined by `|`.
    pub(super) fn flags(&mut self) -> Result<u32> {
        let mut value = self.value_number()?;
        while self.cursor.take(&["|"]) {
            value |= self.value_number()?;
        }
        Ok(value)
    }

    pub(super) fn value_number(&mut self) -> Result<u32> {
        let token = self.cursor.peek();
        if let Some(value) = names::find(names::NUMBERS, token.text) {
            self.cursor.next();
            return Ok(value);
        }
        self.number(u32::MAX, "a number or a flag such as `tcp-syn`")
    }
}
