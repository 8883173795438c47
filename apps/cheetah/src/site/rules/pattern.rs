//! Patterns of paths: which addresses a rule is about.
//!
//! A pattern is a path, with at most one `*` in it, which stands for any text, slashes too:
//!
//! | pattern | about |
//! |---|---|
//! | `/a/b.html` | this path alone |
//! | `/a/*` | `/a/` and everything below it |
//! | `*.css` | every path that ends so |
//! | `/a/*.css` | those below `/a/` |
//!
//! Paths are compared decoded and resolved (see [`crate::message::target`]), to the letter.
//!
//! Of several patterns that match a path the most specific one decides: one without a star; else the one with
//! more text before its star; else the one with more text behind it. Two different patterns that match one path
//! always differ in one of these, so there is always one that decides.

use std::fmt;

/// A path with at most one star.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    before: Box<str>,
    /// What is behind the star; `None` without one.
    after: Option<Box<str>>,
}

/// How specific a pattern is: the greater decides.
pub type Precedence = (bool, usize, usize);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}"));
        if !text.starts_with(['/', '*']) {
            return fail(
                "is no pattern of paths; write one as \"/a.html\", \"/dir/*\" or \"*.css\"",
            );
        }
        let mut parts = text.split('*');
        let (before, after) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            return fail("has more than one star; write one, which stands for any text");
        }
        let odd = |segment: &str| matches!(segment, "." | "..");
        if text.contains("//") || text.split('/').any(odd) {
            return fail(
                "never matches: paths have no empty segments, \".\" or \"..\"; leave those out",
            );
        }
        if text.contains(['?', '#']) {
            return fail("never matches: patterns are of paths, without query and fragment");
        }
        Ok(Pattern {
            before: before.into(),
            after: after.map(Into::into),
        })
    }

    /// True when the pattern is about a path.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.star(path).is_some()
    }

    /// What the star stands for in a path that matches; nothing where there is no star.
    pub fn star<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.before.as_bytes())?;
        match &self.after {
            Some(after) => rest.strip_suffix(after.as_bytes()),
            None => rest.is_empty().then_some(rest),
        }
    }

    /// True when a star is in it.
    pub fn has_star(&self) -> bool {
        self.after.is_some()
    }

    /// The path of a pattern without a star, or what is before the star.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// How specific it is.
    pub fn precedence(&self) -> Precedence {
        let after = self.after.as_ref().map_or(0, |after| after.len());
        (self.after.is_none(), self.before.len(), after)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.after {
            Some(after) => write!(f, "{}*{after}", self.before),
            None => f.write_str(&self.before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, path, want) in [
            ("/a", "/a", Some("")),
            ("/a", "/a/", None),
            ("/a", "/ab", None),
            ("/a/*", "/a/", Some("")),
            ("/a/*", "/a", None),
            ("/a/*", "/a/b/c", Some("b/c")),
            ("*", "/", Some("/")),
            ("*.css", "/a/b.css", Some("/a/b")),
            ("*.css", "/b.css.gz", None),
            ("/a/*.css", "/a/.css", Some("")),
            ("/a/*.css", "/b/a.css", None),
            ("/aba*bab", "/abab", None), // The two halves do not overlap.
            ("/*", "/a b%", Some("a b%")),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            let star = pattern.star(path.as_bytes());
            assert_eq!(star, want.map(str::as_bytes), "{pattern} {path}");
            assert_eq!(pattern.matches(path.as_bytes()), want.is_some());
        }
    }

    #[test]
    fn the_most_specific_comes_first() {
        let order = [
            "/a/b.css", "/a/b*", "/a/*.css", "/a/*", "/*.css", "/*", "*.css", "*s", "*",
        ];
        let patterns = order.map(|text| Pattern::parse(text).unwrap().precedence());
        assert!(patterns.is_sorted_by(|one, next| one > next));
    }

    #[test]
    fn what_never_matches_is_refused() {
        for text in [
            "",
            "a",
            "/*/*",
            "**",
            "//",
            "/a//b",
            "/./a",
            "/a/..",
            "/a?b",
            "/a#b",
            "http://h/",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
