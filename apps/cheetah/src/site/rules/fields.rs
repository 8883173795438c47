//! Header fields that rules add to responses, by path.
//!
//! Each rule is a pattern and some fields. Of the rules that match a path each may name other fields: all of them
//! count, and where two name the same field the more specific decides; one that gives it no value takes it away. The
//! text is put together once for each set of rules that match some path, so that a response costs no formatting.

use std::collections::HashMap;

use super::pattern::Pattern;
use crate::limits::{FIELD_RULES_MAX, MORE_FIELDS_LEN_MAX};

/// The rules that match a path, a bit for each.
pub type RuleSet = u64;

const _: () = assert!(
    FIELD_RULES_MAX == RuleSet::BITS as usize,
    "a bit for each rule"
);

/// Fields for the responses of some paths.
#[derive(Clone, Debug)]
pub struct FieldRule {
    /// Which paths.
    pub pattern: Pattern,
    /// Which fields, with a line for each value; one without values is taken away.
    pub fields: Vec<(String, Vec<String>)>,
}

/// All rules of a site.
#[derive(Clone, Debug, Default)]
pub struct FieldRules(Vec<FieldRule>);

impl FieldRules {
    /// Puts rules in the order in which they decide.
    ///
    /// # Errors
    ///
    /// When there are too many, or more text than a response may have.
    pub fn new(mut rules: Vec<FieldRule>) -> Result<FieldRules, String> {
        if rules.len() > FIELD_RULES_MAX {
            return Err(format!(
                "more than {FIELD_RULES_MAX} rules for header fields; write fewer"
            ));
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.pattern.precedence()));
        let rules = FieldRules(rules);
        match rules.lines_len_max() {
            0..=MORE_FIELDS_LEN_MAX => Ok(rules),
            len => Err(format!(
                "{len} bytes of header fields in one response; write at most {MORE_FIELDS_LEN_MAX}"
            )),
        }
    }

    /// True when no field is ever added.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules that match a path.
    pub fn of(&self, path: &[u8]) -> RuleSet {
        let bit = |(at, rule): (usize, &FieldRule)| u64::from(rule.pattern.matches(path)) << at;
        self.0.iter().enumerate().map(bit).sum()
    }

    /// No set of rules has more lines than this is long: of every name its longest values.
    fn lines_len_max(&self) -> usize {
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for (name, values) in self.0.iter().flat_map(|rule| &rule.fields) {
            let len: usize = values
                .iter()
                .map(|v| name.len() + v.len() + ": \r\n".len())
                .sum();
            let longest = by_name.entry(name.to_ascii_lowercase()).or_default();
            *longest = len.max(*longest);
        }
        by_name.values().sum()
    }

    /// The lines that a set of rules adds, each ended by CRLF.
    pub fn lines(&self, set: RuleSet) -> String {
        let mut lines = String::new();
        let mut decided: Vec<&str> = Vec::new();
        let matching = self
            .0
            .iter()
            .enumerate()
            .filter(|(at, _)| set >> at & 1 == 1);
        for (name, values) in matching.flat_map(|(_, rule)| &rule.fields) {
            if decided.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                continue;
            }
            decided.push(name);
            for value in values {
                lines.extend([name, ": ", value, "\r\n"]);
            }
        }
        lines
    }
}

/// A field's name that a rule may set.
///
/// # Errors
///
/// What to write instead.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!(
            "{name:?} is no name of a header field; write letters, digits and hyphens"
        ));
    }
    let own = OWN_FIELDS
        .iter()
        .find(|(own, _)| own.eq_ignore_ascii_case(name));
    own.map_or(Ok(()), |(_, instead)| {
        Err(format!("{name} is written by the server itself; {instead}"))
    })
}

/// The value of a field that a rule may set.
///
/// # Errors
///
/// What to write instead.
pub fn check_value(value: &str) -> Result<(), String> {
    let is_text = |b: u8| b == b'\t' || (0x20..0x7f).contains(&b); // RFC 9110 §5.5, without obs-text.
    if value.bytes().all(is_text) && value.trim() == value {
        return Ok(());
    }
    Err(format!(
        "{value:?} is no value of a header field; write one line of ASCII without spaces around it"
    ))
}

/// Fields whose meaning hangs together with what the server does, and what to do instead of naming them.
const OWN_FIELDS: [(&str, &str); 19] = [
    ("Accept-Ranges", "leave it out"),
    ("Age", "leave it out"),
    ("Allow", "leave it out"),
    ("Connection", "leave it out"),
    ("Content-Encoding", "leave it out"),
    ("Content-Length", "leave it out"),
    ("Content-Range", "leave it out"),
    ("Content-Type", "name the type below [site.types]"),
    ("Date", "leave it out"),
    ("ETag", "leave it out"),
    ("Keep-Alive", "leave it out"),
    ("Last-Modified", "leave it out"),
    ("Location", "write a [[site.redirect]]"),
    ("Proxy-Connection", "leave it out"),
    ("Server", "leave it out"),
    ("TE", "leave it out"),
    ("Trailer", "leave it out"),
    ("Transfer-Encoding", "leave it out"),
    ("Upgrade", "leave it out"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, fields: &[(&str, &[&str])]) -> FieldRule {
        let values = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect();
        let fields = fields
            .iter()
            .map(|(name, of)| ((*name).to_owned(), values(of)));
        FieldRule {
            pattern: Pattern::parse(pattern).unwrap(),
            fields: fields.collect(),
        }
    }

    /// Fields of all rules that match; of one name the most specific; without a value none.
    #[test]
    fn rules_add_up_and_the_most_specific_decides() {
        let rules = FieldRules::new(vec![
            rule(
                "*",
                &[
                    ("X-Frame-Options", &["DENY"]),
                    ("Cache-Control", &["no-cache"]),
                ],
            ),
            rule("*.css", &[("cache-control", &["max-age=60"])]),
            rule("/assets/*", &[("Cache-Control", &["immutable"])]),
            rule(
                "/assets/open.html",
                &[("x-frame-options", &[]), ("Link", &["<a>", "<b>"])],
            ),
        ])
        .unwrap();
        for (path, want) in [
            ("/", "X-Frame-Options: DENY\r\nCache-Control: no-cache\r\n"),
            (
                "/a.css",
                "cache-control: max-age=60\r\nX-Frame-Options: DENY\r\n",
            ),
            (
                "/assets/a.css",
                "Cache-Control: immutable\r\nX-Frame-Options: DENY\r\n",
            ),
            (
                "/assets/open.html",
                "Link: <a>\r\nLink: <b>\r\nCache-Control: immutable\r\n",
            ),
        ] {
            assert_eq!(rules.lines(rules.of(path.as_bytes())), want, "{path}");
        }
    }

    #[test]
    fn names_and_values_cannot_break_out() {
        for name in [
            "",
            "A B",
            "A:",
            "A\r\nB",
            "Ä",
            "content-length",
            "ETAG",
            "Upgrade",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(
            check_name("content-type")
                .unwrap_err()
                .contains("[site.types]")
        );
        for name in [
            "Cache-Control",
            "Strict-Transport-Security",
            "X-y_1",
            "Vary",
        ] {
            assert_eq!(check_name(name), Ok(()));
        }
        for value in [
            "a\r\nSet-Cookie: b",
            "a\nb",
            "\0",
            "\u{7f}",
            "é",
            " a",
            "a\t",
        ] {
            assert!(check_value(value).is_err(), "{value:?}");
        }
        assert_eq!(check_value("default-src 'self'; img-src\t*"), Ok(()));
    }

    #[test]
    fn there_are_bounds() {
        let many = |n: usize| {
            (0..n)
                .map(|i| rule(&format!("/{i}"), &[("A", &["b"])]))
                .collect()
        };
        assert!(FieldRules::new(many(FIELD_RULES_MAX)).is_ok());
        assert!(FieldRules::new(many(FIELD_RULES_MAX + 1)).is_err());
        let long = "x".repeat(MORE_FIELDS_LEN_MAX);
        // Also where a shorter value of the same name would hide it.
        let hidden = vec![rule("/a", &[("a", &["b"])]), rule("*", &[("A", &[&long])])];
        assert!(FieldRules::new(hidden).is_err());
    }
}
