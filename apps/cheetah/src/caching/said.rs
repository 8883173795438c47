//! What an answer says about how it may be kept, read once from its fields.

use std::time::{Duration, UNIX_EPOCH};

use httparse::Header;

use super::directives::{Directives, is_token};
use crate::limits::VARY_NAMES_MAX;
use crate::message::request::list;

/// What an answer says of storing, of its age and of its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Cache-Control.
    pub directives: Directives,
    /// There is a Cache-Control field.
    pub has_directives: bool,
    /// Until when it is fresh, in seconds since 1970; 0 where what is there is no time, or several.
    pub expires: Option<u64>,
    /// When it was made, in seconds since 1970.
    pub date: Option<u64>,
    /// How old it was when it came from there, in seconds.
    pub age: u64,
    /// Which fields of requests it depends on.
    pub vary: Vary,
    /// Its entity tag, as it is written.
    pub tag: Option<Box<[u8]>>,
    /// When it was changed, as it is written, and in seconds since 1970.
    pub modified: Option<(Box<[u8]>, u64)>,
    /// It sets a cookie, which is one user's.
    pub sets_cookie: bool,
    /// It is a part of something.
    pub is_part: bool,
    /// Its content is coded.
    pub is_coded: bool,
}

/// Which fields of requests an answer depends on (RFC 9110 §12.5.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Vary {
    /// None.
    #[default]
    Nothing,
    /// These, in lower case and in order.
    Names(Box<[Box<str>]>),
    /// More than a cache can know, or than this one looks at.
    Everything,
}

impl Said {
    /// Reads the fields of an answer.
    pub fn of(fields: &[Header<'_>]) -> Said {
        let named = |name: &'static str| {
            let all = fields.iter();
            let all = all.filter(move |field| field.name.eq_ignore_ascii_case(name));
            all.map(|field| field.value.trim_ascii())
        };
        let one = |name| {
            let mut values = named(name);
            values.next().filter(|_| values.next().is_none())
        };
        let vary = Vary::read(named("vary"));
        Said {
            directives: Directives::read(named("cache-control")),
            has_directives: named("cache-control").next().is_some(),
            // RFC 9111 §5.3: what is no date is in the past; §4.2.1: so are several.
            expires: (named("expires").next()).map(|_| one("expires").and_then(date).unwrap_or(0)),
            date: one("date").and_then(date),
            age: age(named("age")),
            vary,
            tag: one("etag").filter(|tag| is_tag(tag)).map(Box::from),
            modified: one("last-modified").and_then(|value| Some((value.into(), date(value)?))),
            sets_cookie: named("set-cookie").next().is_some(),
            is_part: named("content-range").next().is_some(),
            is_coded: named("content-encoding").next().is_some(),
        }
    }

    /// What the fields of a 304 say of what is kept, together with what was said of that before (RFC 9111 §4.3.4): times go together.
    #[must_use]
    pub fn over(&self, before: &Said) -> Said {
        let says_times = self.has_directives || self.expires.is_some();
        let times = if says_times { self } else { before };
        Said {
            directives: times.directives.clone(),
            has_directives: times.has_directives,
            expires: times.expires,
            date: self.date,
            age: self.age,
            tag: self.tag.clone().or_else(|| before.tag.clone()),
            modified: self.modified.clone().or_else(|| before.modified.clone()),
            sets_cookie: self.sets_cookie,
            ..before.clone()
        }
    }

    /// It can be asked whether there is another version.
    pub fn has_validator(&self) -> bool {
        self.tag.is_some() || self.modified.is_some()
    }
}

/// A date in any of the three forms (RFC 9110 §5.6.7), in seconds since 1970.
pub(super) fn date(value: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(str::from_utf8(value).ok()?).ok()?;
    let since = time.duration_since(UNIX_EPOCH);
    Some(since.unwrap_or(Duration::ZERO).as_secs())
}

/// RFC 9111 §5.1: of several the first counts, and what is no number is nothing. Of a number that is too large the answer is older than
/// anything that may be used.
fn age<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> u64 {
    let first = values.next().and_then(|value| list(value).next());
    let digits = first.filter(|text| text.iter().all(u8::is_ascii_digit));
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    digits.map_or(0, |digits| digits.iter().fold(0, add).min(1 << 31))
}

/// RFC 9110 §8.8.3.
fn is_tag(tag: &[u8]) -> bool {
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    let inside = opaque
        .strip_prefix(b"\"")
        .and_then(|tag| tag.strip_suffix(b"\""));
    inside.is_some_and(|inside| inside.iter().all(|&b| b != b'"' && b > b' ' && b != 0x7f))
}

impl Vary {
    fn read<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vary {
        let mut names: Vec<Box<str>> = Vec::new();
        for name in values.flat_map(list) {
            let is_name = name != b"*" && name.iter().all(|&b| is_token(b));
            let text = str::from_utf8(name).ok().filter(|_| is_name);
            let Some(text) = text else {
                return Vary::Everything;
            };
            let text: Box<str> = text.to_ascii_lowercase().into();
            if !names.contains(&text) {
                names.push(text);
            }
            if names.len() > VARY_NAMES_MAX {
                return Vary::Everything;
            }
        }
        names.sort_unstable();
        match names.is_empty() {
            true => Vary::Nothing,
            false => Vary::Names(names.into()),
        }
    }

    /// The names, if a cache can know them all.
    pub fn names(&self) -> Option<&[Box<str>]> {
        match self {
            Vary::Nothing => Some(&[]),
            Vary::Names(names) => Some(names),
            Vary::Everything => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(fields: &[(&'static str, &str)]) -> Said {
        let fields: Vec<Header<'_>> = fields
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        Said::of(&fields)
    }

    #[test]
    fn dates_have_three_forms_and_what_is_none_is_past() {
        const AT: u64 = 784_111_777;
        for (text, wanted) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", AT),
            ("Sunday, 06-Nov-94 08:49:37 GMT", AT),
            ("Sun Nov  6 08:49:37 1994", AT),
            ("0", 0),
            ("-1", 0),
            ("", 0),
            ("tomorrow", 0),
        ] {
            assert_eq!(said(&[("Expires", text)]).expires, Some(wanted), "{text}");
        }
        let twice = [("Expires", "Sun, 06 Nov 1994 08:49:37 GMT"); 2];
        assert_eq!(said(&twice).expires, Some(0));
        assert_eq!(said(&[]).expires, None);
    }

    #[test]
    fn the_first_age_counts() {
        for (text, wanted) in [
            ("7", 7),
            ("7, 9", 7),
            ("x", 0),
            ("-7", 0),
            ("", 0),
            ("99999999999999999999999", 1 << 31),
        ] {
            assert_eq!(said(&[("Age", text)]).age, wanted, "{text}");
        }
    }

    #[test]
    fn names_that_answers_depend_on_are_few() {
        let names = |text: &str| said(&[("vary", text)]).vary;
        let some = |names: &[&str]| Vary::Names(names.iter().map(|it| Box::from(*it)).collect());
        assert_eq!(names(""), Vary::Nothing);
        assert_eq!(names("B, a ,b"), some(&["a", "b"]));
        assert_eq!(names("a, *"), Vary::Everything);
        assert_eq!(names("a b"), Vary::Everything);
        let many: Vec<String> = (0..=VARY_NAMES_MAX).map(|n| format!("x{n}")).collect();
        assert_eq!(names(&many.join(",")), Vary::Everything);
        assert_ne!(names(&many[1..].join(",")), Vary::Everything);
    }

    #[test]
    fn validators_are_tags_and_dates() {
        for (tag, is_one) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"\"", true),
            ("a", false),
            ("\"a", false),
            ("\"a\"b\"", false),
            ("w/\"a\"", false),
            ("\"a b\"", false),
        ] {
            assert_eq!(said(&[("ETag", tag)]).tag.is_some(), is_one, "{tag}");
        }
        assert!(!said(&[("ETag", "\"a\""), ("ETag", "\"b\"")]).has_validator());
        assert!(!said(&[("Last-Modified", "yesterday")]).has_validator());
        assert!(said(&[("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")]).has_validator());
    }
}
