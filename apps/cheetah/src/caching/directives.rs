//! Cache-Control (RFC 9111 §5.2), of requests and of answers, with RFC 5861's extensions.
//!
//! What is not understood of it is passed over, as §5.2.3 wants, and every doubt is read to the disadvantage of storing: a time that is
//! none is 0, of a time that is there twice the shorter one counts, and a directive with field names holds for the whole answer
//! (§5.2.2.4 and §5.2.2.7 allow that). So an answer may be asked for too often, and is never kept for too long.

use std::time::Duration;

/// The longest time that is told apart from for ever (RFC 9111 §1.2.2).
const SECS_MAX: u64 = 1 << 31;

/// What Cache-Control says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Nothing is to be stored.
    pub no_store: bool,
    /// Nothing is to be used without asking.
    pub no_cache: bool,
    /// It is for one user.
    pub private: bool,
    /// It is for everybody, even where a password was asked for.
    pub public: bool,
    /// It is not to be used any more when it is stale: `must-revalidate`, or `proxy-revalidate`.
    pub must_revalidate: bool,
    /// Who knows the status may store it, whatever `no-store` says.
    pub must_understand: bool,
    /// Nobody is to be asked.
    pub only_if_cached: bool,
    /// How long it is fresh; of a request, how old it may be.
    pub max_age: Option<Duration>,
    /// How long it is fresh in a cache that several share.
    pub shared_max_age: Option<Duration>,
    /// For how long behind that it will do.
    pub max_stale: Option<Duration>,
    /// How long it is still to be fresh.
    pub min_fresh: Option<Duration>,
    /// How long behind its time it will do while it is asked for.
    pub stale_while_revalidate: Option<Duration>,
    /// How long behind its time it will do where there is no other.
    pub stale_if_error: Option<Duration>,
}

impl Directives {
    /// Reads the values of all Cache-Control fields of a message.
    pub fn read<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Directives {
        let mut all = Directives::default();
        for value in values {
            members(value, |name, argument| all.note(name, argument));
        }
        all
    }

    fn note(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let shorter = |known: Option<Duration>, least: Duration| {
            let said = argument.map_or(least, seconds);
            Some(known.map_or(said, |known| known.min(said)))
        };
        let none = Duration::ZERO;
        match &*name.to_ascii_lowercase() {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" | b"proxy-revalidate" => self.must_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => self.max_age = shorter(self.max_age, none),
            b"s-maxage" => self.shared_max_age = shorter(self.shared_max_age, none),
            // §5.2.1.2: without a time, any.
            b"max-stale" => {
                self.max_stale = shorter(self.max_stale, Duration::from_secs(SECS_MAX));
            }
            // Of this one the longer asks for more.
            b"min-fresh" => {
                let said = argument.map_or(none, seconds);
                self.min_fresh = self.min_fresh.max(Some(said));
            }
            b"stale-while-revalidate" => {
                self.stale_while_revalidate = shorter(self.stale_while_revalidate, none);
            }
            b"stale-if-error" => self.stale_if_error = shorter(self.stale_if_error, none),
            _ => {}
        }
    }
}

/// `delta-seconds`, with quotes or without; anything else is no time at all.
fn seconds(argument: &[u8]) -> Duration {
    if argument.is_empty() || !argument.iter().all(u8::is_ascii_digit) {
        return Duration::ZERO;
    }
    let add = |sum: u64, digit: &u8| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    };
    let secs = argument.iter().fold(0, add);
    Duration::from_secs(secs.min(SECS_MAX))
}

/// The members of a list of `token[=token-or-quoted]`, those that are none left out. A comma in quotes separates nothing; a quote
/// that does not end takes the rest along.
fn members(value: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>)) {
    let (mut begin, mut quoted, mut escaped) = (0, false, false);
    for at in 0..=value.len() {
        match value.get(at) {
            _ if escaped => escaped = false,
            Some(b'\\') if quoted => escaped = true,
            Some(b'"') => quoted = !quoted,
            Some(b',') if !quoted => {
                member(&value[begin..at], &mut each);
                begin = at + 1;
            }
            Some(_) => {}
            None => member(&value[begin..], &mut each),
        }
    }
}

fn member(text: &[u8], each: &mut impl FnMut(&[u8], Option<&[u8]>)) {
    let text = text.trim_ascii();
    let (name, argument) = match text.iter().position(|&b| b == b'=') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let is_token = !name.is_empty() && name.iter().all(|&b| is_token(b));
    if is_token {
        let unquoted = |text| <[u8]>::strip_suffix(<[u8]>::strip_prefix(text, b"\"")?, b"\"");
        each(name, argument.map(|text| unquoted(text).unwrap_or(text)));
    }
}

/// RFC 9110 §5.6.2.
pub(super) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Directives {
        Directives::read(values.iter().map(|value| value.as_bytes()))
    }

    fn secs(secs: u64) -> Option<Duration> {
        Some(Duration::from_secs(secs))
    }

    #[test]
    fn directives_are_names_in_any_case_with_times_or_without() {
        let all = read(&["No-Store, private,PUBLIC", "s-maxage=5 ,max-age=\"60\""]);
        let wanted = Directives {
            no_store: true,
            private: true,
            public: true,
            shared_max_age: secs(5),
            max_age: secs(60),
            ..Directives::default()
        };
        assert_eq!(all, wanted);
        assert_eq!(read(&["max-stale"]).max_stale, secs(SECS_MAX));
        assert_eq!(read(&["max-stale=3, max-stale"]).max_stale, secs(3));
        assert_eq!(read(&["min-fresh=3, min-fresh=4"]).min_fresh, secs(4));
        assert_eq!(read(&["stale-if-error=9"]).stale_if_error, secs(9));
    }

    #[test]
    fn what_is_in_doubt_is_read_to_the_disadvantage_of_storing() {
        for (text, age) in [
            ("max-age", secs(0)),
            ("max-age=", secs(0)),
            ("max-age=-1", secs(0)),
            ("max-age=1.5", secs(0)),
            ("max-age=1 0", secs(0)),
            ("max-age=a, max-age=7", secs(0)),
            ("max-age=7, max-age=5", secs(5)),
            ("max-age=99999999999999999999999", secs(SECS_MAX)),
            ("max-age =5", None),
            ("x=\"a, max-age=5\"", None),
            ("x=\"a\\\", max-age=5\", max-age=6", secs(6)),
            ("x=\"a, max-age=5", None),
            ("=5, , max-age=4,", secs(4)),
        ] {
            assert_eq!(read(&[text]).max_age, age, "{text}");
        }
        let named = read(&["no-cache=\"set-cookie\", private=\"x, y\""]);
        assert!(named.no_cache && named.private);
        assert_eq!(
            read(&["", ",,", "no-storex", "nostore"]),
            Directives::default()
        );
    }
}
