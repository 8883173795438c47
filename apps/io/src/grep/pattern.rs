//! Patterns of POSIX, with GNU's additions, as the regex crate writes them: bytes, as in the C locale, and none that spans lines.

use exos_host::{Error, Result};
use regex::bytes::{Regex, RegexBuilder};

/// How patterns are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// Basic regular expressions.
    Basic,
    /// Extended ones.
    Extended,
    /// The strings themselves.
    Fixed,
}

/// The largest machine for a pattern: repetitions of repetitions would take all memory.
const SIZE_MAX: usize = 64 << 20;

/// Whatever of these patterns is found; each line of one is one.
pub(super) fn compile(patterns: &[&[u8]], syntax: Syntax, ignore_case: bool) -> Result<Regex> {
    let lines = patterns
        .iter()
        .flat_map(|pattern| pattern.split(|byte| *byte == b'\n'));
    let translated: Result<Vec<String>> = lines
        .map(|line| translate(line, syntax, ignore_case))
        .collect();
    let whole = match &translated?[..] {
        [one] => one.clone(),
        all => format!("(?:{})", all.join(")|(?:")),
    };
    RegexBuilder::new(&whole)
        .unicode(false)
        .multi_line(true)
        .case_insensitive(ignore_case)
        .size_limit(SIZE_MAX)
        .build()
        .map_err(|error| Error::new(format!("the pattern cannot be used: {error}")))
}

/// One pattern.
///
/// # Errors
///
/// It is none, or refers back to a group.
pub fn translate(pattern: &[u8], syntax: Syntax, ignore_case: bool) -> Result<String> {
    let mut to = Translation {
        from: pattern,
        at: 0,
        is_extended: syntax == Syntax::Extended,
        ignore_case,
        out: String::new(),
        atom: None,
        groups: Vec::new(),
    };
    match syntax {
        Syntax::Fixed => pattern.iter().for_each(|byte| to.literal(*byte)),
        Syntax::Basic | Syntax::Extended => to.all()?,
    }
    Ok(to.out)
}

struct Translation<'a> {
    from: &'a [u8],
    at: usize,
    is_extended: bool,
    ignore_case: bool,
    out: String,
    /// Where the last thing begins that can be repeated, and whether it is repeated already.
    atom: Option<(usize, bool)>,
    /// Where groups begin that are open.
    groups: Vec<usize>,
}

/// What a byte is, or two with a backslash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Literal(u8),
    /// With a backslash before it, and no operator.
    Escaped(u8),
    Any,
    Bracket,
    Star,
    Plus,
    Question,
    Or,
    Open,
    Close,
    Interval,
    Caret,
    Dollar,
}

impl Translation<'_> {
    fn all(&mut self) -> Result<()> {
        while let Some(token) = self.token()? {
            self.put(token)?;
        }
        match self.groups.is_empty() {
            true => Ok(()),
            false => Err(Error::new("Unmatched ( or \\(")),
        }
    }

    fn token(&mut self) -> Result<Option<Token>> {
        let Some(&byte) = self.from.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        let is_operator = |byte| b"+?|(){".contains(&byte);
        Ok(Some(match byte {
            b'.' => Token::Any,
            b'[' => Token::Bracket,
            b'*' => Token::Star,
            b'^' => Token::Caret,
            b'$' => Token::Dollar,
            b'\\' => {
                let Some(&next) = self.from.get(self.at) else {
                    return Err(Error::new("Trailing backslash"));
                };
                self.at += 1;
                match is_operator(next) {
                    true if !self.is_extended => operator(next),
                    true => Token::Literal(next),
                    false => Token::Escaped(next),
                }
            }
            byte if is_operator(byte) && self.is_extended => operator(byte),
            byte => Token::Literal(byte),
        }))
    }

    fn put(&mut self, token: Token) -> Result<()> {
        match token {
            Token::Literal(byte) => self.atom_of(|to| to.literal(byte)),
            Token::Escaped(byte) => self.escaped(byte)?,
            Token::Any => self.atom_of(|to| to.out.push_str("[^\\n]")),
            Token::Bracket => {
                let start = self.out.len();
                self.bracket()?;
                self.atom = Some((start, false));
            }
            Token::Caret if self.is_extended || self.is_at_start() => self.anchor("^"),
            Token::Dollar if self.is_extended || self.is_at_end() => self.anchor("$"),
            Token::Caret => self.atom_of(|to| to.literal(b'^')),
            Token::Dollar => self.atom_of(|to| to.literal(b'$')),
            Token::Star => self.repeat("*", b'*'),
            Token::Plus => self.repeat("+", b'+'),
            Token::Question => self.repeat("?", b'?'),
            Token::Interval => self.interval()?,
            Token::Or => {
                self.out.push('|');
                self.atom = None;
            }
            Token::Open => {
                self.groups.push(self.out.len());
                self.out.push_str("(?:");
                self.atom = None;
            }
            Token::Close => match self.groups.pop() {
                Some(start) => {
                    self.out.push(')');
                    self.atom = Some((start, false));
                }
                None if self.is_extended => self.atom_of(|to| to.literal(b')')),
                None => return Err(Error::new("Unmatched ) or \\)")),
            },
        }
        Ok(())
    }

    fn atom_of(&mut self, put: impl FnOnce(&mut Self)) {
        let start = self.out.len();
        put(self);
        self.atom = Some((start, false));
    }

    fn anchor(&mut self, anchor: &str) {
        self.out.push_str(anchor);
        self.atom = None;
    }

    fn literal(&mut self, byte: u8) {
        match byte.is_ascii_alphanumeric() || byte == b' ' {
            true => self.out.push(byte.into()),
            false => self.out.push_str(&format!("\\x{byte:02x}")),
        }
    }

    /// Nothing is before this in its alternative: of a basic expression `^` is an anchor here alone.
    fn is_at_start(&self) -> bool {
        self.out.is_empty() || self.out.ends_with("(?:") || self.out.ends_with('|')
    }

    /// Nothing follows in its alternative.
    fn is_at_end(&self) -> bool {
        let rest = &self.from[self.at..];
        rest.is_empty() || rest.starts_with(b"\\)") || rest.starts_with(b"\\|")
    }

    /// Repeats the last thing. Where there is none, the operator stands for itself.
    fn repeat(&mut self, how: &str, itself: u8) {
        let Some((start, is_repeated)) = self.atom else {
            return self.atom_of(|to| to.literal(itself));
        };
        if is_repeated {
            // A second operator would say how eager the first is.
            self.out.insert_str(start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(how);
        self.atom = Some((start, true));
    }

    fn interval(&mut self) -> Result<()> {
        let end: &[u8] = if self.is_extended { b"}" } else { b"\\}" };
        let rest = &self.from[self.at..];
        let len = rest.windows(end.len()).position(|part| part == end);
        let bounds = len.and_then(|len| bounds(&rest[..len]));
        match (bounds, len) {
            (Some(bounds), Some(len)) if self.atom.is_some() => {
                self.at += len + end.len();
                self.repeat(&bounds, b'{');
                Ok(())
            }
            _ if self.is_extended => {
                self.atom_of(|to| to.literal(b'{'));
                Ok(())
            }
            _ => Err(Error::new("Invalid content of \\{\\}")),
        }
    }

    fn escaped(&mut self, byte: u8) -> Result<()> {
        match byte {
            b'w' => self.atom_of(|to| to.out.push_str("[0-9A-Za-z_]")),
            b'W' => self.atom_of(|to| to.out.push_str("[^0-9A-Za-z_\\n]")),
            b's' => self.atom_of(|to| to.out.push_str("[ \\t\\r\\x0b\\x0c]")),
            b'S' => self.atom_of(|to| to.out.push_str("[^ \\t\\r\\x0b\\x0c\\n]")),
            b'b' => self.anchor("\\b"),
            b'B' => self.anchor("\\B"),
            b'<' => self.anchor("\\b{start}"),
            b'>' => self.anchor("\\b{end}"),
            b'`' => self.anchor("^"),
            b'\'' => self.anchor("$"),
            b'1'..=b'9' => {
                return Err(Error::new(
                    "patterns that refer back to a group are not supported; GNU's grep has them",
                ));
            }
            byte => self.atom_of(|to| to.literal(byte)),
        }
        Ok(())
    }

    /// A list of characters, behind its bracket.
    fn bracket(&mut self) -> Result<()> {
        let missing = || Error::new("Unmatched [, [^, [:, [., or [=");
        let is_negative = self.from.get(self.at) == Some(&b'^');
        self.at += usize::from(is_negative);
        let mut is_in = [false; 256];
        let start = self.at;
        loop {
            let byte = *self.from.get(self.at).ok_or_else(missing)?;
            if byte == b']' && self.at > start {
                self.at += 1;
                break;
            }
            let rest = &self.from[self.at..];
            if rest.starts_with(b"[:") {
                let len = rest
                    .windows(2)
                    .position(|part| part == b":]")
                    .ok_or_else(missing)?;
                let class = class(&rest[2..len])
                    .ok_or_else(|| Error::new("Invalid character class name"))?;
                (0..=255).for_each(|byte| is_in[usize::from(byte)] |= class(&byte));
                self.at += len + 2;
                continue;
            }
            if rest.starts_with(b"[.") || rest.starts_with(b"[=") {
                return Err(Error::new(
                    "collating symbols in brackets are not supported",
                ));
            }
            self.at += 1;
            let last = match rest {
                [_, b'-', last, ..] if *last != b']' => {
                    self.at += 2;
                    *last
                }
                _ => byte,
            };
            if last < byte {
                return Err(Error::new("Invalid range end"));
            }
            (byte..=last).for_each(|byte| is_in[usize::from(byte)] = true);
        }
        if self.ignore_case {
            // Before what is not in the list is told: that is of neither case.
            for letter in b'a'..=b'z' {
                let both = [letter, letter.to_ascii_uppercase()].map(usize::from);
                let is_either = both.iter().any(|byte| is_in[*byte]);
                both.iter().for_each(|byte| is_in[*byte] = is_either);
            }
        }
        self.put_set(|byte| is_in[usize::from(byte)] != is_negative && byte != b'\n');
        Ok(())
    }

    fn put_set(&mut self, is_in: impl Fn(u8) -> bool) {
        self.out.push('[');
        let mut is_some = false;
        for byte in (0..=255).filter(|byte| is_in(*byte)) {
            self.out.push_str(&format!("\\x{byte:02x}"));
            is_some = true;
        }
        // Of nothing: no byte is so.
        self.out
            .push_str(if is_some { "]" } else { "\\x00&&\\x01]" });
    }
}

fn operator(byte: u8) -> Token {
    match byte {
        b'+' => Token::Plus,
        b'?' => Token::Question,
        b'|' => Token::Or,
        b'(' => Token::Open,
        b')' => Token::Close,
        b'{' => Token::Interval,
        other => Token::Literal(other),
    }
}

/// How often something may come, in braces.
fn bounds(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 5;
    match text.split_once(',') {
        None if number(text) && !text.is_empty() => Some(format!("{{{text}}}")),
        Some((least, most)) if number(least) && number(most) => {
            let least = if least.is_empty() { "0" } else { least };
            Some(format!("{{{least},{most}}}"))
        }
        _ => None,
    }
}

fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alpha" => u8::is_ascii_alphabetic,
        b"digit" => u8::is_ascii_digit,
        b"alnum" => u8::is_ascii_alphanumeric,
        b"upper" => u8::is_ascii_uppercase,
        b"lower" => u8::is_ascii_lowercase,
        b"space" => |byte| byte.is_ascii_whitespace() || *byte == 0x0b,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"punct" => u8::is_ascii_punctuation,
        b"print" => |byte| matches!(byte, 0x20..=0x7e),
        b"graph" => u8::is_ascii_graphic,
        b"cntrl" => u8::is_ascii_control,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is asked for is a pattern or an error, and what is one finds nothing across lines.
    #[test]
    fn any_pattern_is_one_or_an_error() {
        let mut state = 24_u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        let alphabet = b"ab\\\\()[]^$*+?{}|.,19:-w<=\xff";
        let mut patterns = 0;
        for _ in 0..4000 {
            let len = random() % 12;
            let pattern: Vec<u8> = (0..len)
                .map(|_| alphabet[random() % alphabet.len()])
                .collect();
            for syntax in [Syntax::Basic, Syntax::Extended, Syntax::Fixed] {
                let Ok(translated) = translate(&pattern, syntax, false) else {
                    continue;
                };
                let Ok(regex) = compile(&[&pattern], syntax, false) else {
                    // What repeats too often is refused when it is built.
                    assert!(translated.contains('{'), "{pattern:?} became {translated}");
                    continue;
                };
                patterns += 1;
                let found = regex.find(b"ab\nba\n\nab9w1\n");
                let is_line = found.is_none_or(|found| !found.as_bytes().contains(&b'\n'));
                assert!(is_line, "{pattern:?} became {translated}");
            }
        }
        assert!(patterns > 4000, "{patterns}");
    }
}
