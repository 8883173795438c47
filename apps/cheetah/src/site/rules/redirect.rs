//! Redirects by path: to a fixed address, or with what the star of the pattern stands for.
//!
//! A redirect comes before whatever else is at its path. In its target a star stands for what the pattern's star stood
//! for, so `/old/*` to `/new/*` keeps the rest of the path, and `/old/*` to `/new/` does not.
//!
//! What a client writes never decides which host it is sent to: a target with a host has its star behind the `/`
//! that ends the host, and one without cannot be made to begin with two slashes.

use std::collections::HashMap;

use super::pattern::Pattern;
use crate::limits::STAR_REDIRECTS_MAX;
use crate::message::Status;
use crate::message::target::encode;

/// From paths to an address.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// Which paths.
    pub from: Pattern,
    /// Where to.
    pub to: Destination,
    /// 301, 302, 307 or 308.
    pub status: Status,
    /// Add the request's query to the address.
    pub keep_query: bool,
}

/// An address with at most one star, as it is sent: percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    before: String,
    after: Option<String>,
}

impl Destination {
    /// Reads an address: a path of this site, or a whole `http` or `https` one.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Destination, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}"));
        let rest = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"));
        let is_path = text.starts_with('/') && !text.starts_with("//");
        if !is_path && rest.is_none() {
            return fail(
                "leads nowhere; write a path as \"/new/*\" or an address as \"https://example.org/*\"",
            );
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b))
        {
            return fail("is no address; write it in ASCII, with other characters percent-encoded");
        }
        if text.matches('*').count() > 1 {
            return fail(
                "has more than one star; write one, for what the star of the pattern stands for",
            );
        }
        let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
        if host.is_some_and(|host| host.is_empty() || host.contains(['*', '?', '#', '@'])) {
            return fail(
                "names no host, or one with a star in it; write \"https://example.org/\", a star behind that",
            );
        }
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (text, None),
        };
        if after.is_some() && before.contains(['?', '#']) {
            return fail("has the star in its query; write it in the path");
        }
        Ok(Destination {
            before: before.to_owned(),
            after,
        })
    }

    /// True when a star is in it.
    pub fn has_star(&self) -> bool {
        self.after.is_some()
    }

    /// The address for what the pattern's star stood for, and a query.
    fn with(&self, star: &[u8], query: Option<&[u8]>) -> String {
        let mut location = self.before.clone();
        if let Some(after) = &self.after {
            // `//` at the beginning would name a host.
            let star = match self.before.ends_with('/') {
                true => without_slashes(star),
                false => star,
            };
            location.push_str(&encode(star, None));
            location.push_str(after);
        }
        match query {
            Some(query) => add_query(&location, query),
            None => location,
        }
    }
}

/// A text without the slashes that it begins with.
fn without_slashes(text: &[u8]) -> &[u8] {
    let slashes = text.iter().take_while(|&&b| b == b'/').count();
    &text[slashes..]
}

/// An address with more query, before its fragment.
fn add_query(address: &str, query: &[u8]) -> String {
    let fragment_at = address.find('#').unwrap_or(address.len());
    let (address, fragment) = address.split_at(fragment_at);
    let query = encode(b"", Some(query));
    let query = &query[1..]; // encode() puts a mark before it.
    let mark = if address.contains('?') { '&' } else { '?' };
    format!("{address}{mark}{query}{fragment}")
}

impl Redirect {
    /// The address that a request for a path that matches is sent to.
    pub fn location(&self, path: &[u8], query: Option<&[u8]>) -> String {
        let star = self.from.star(path).unwrap_or_default();
        self.to.with(star, query.filter(|_| self.keep_query))
    }

    /// True when the address is the same for all requests without a query.
    pub fn is_fixed(&self) -> bool {
        !self.to.has_star()
    }

    /// True when it surely leads back to itself.
    pub fn is_loop(&self) -> bool {
        let to = &self.to;
        let path = |text: &str| text.split(['?', '#']).next().unwrap_or_default().to_owned();
        match &to.after {
            None => self.from.matches(path(&to.before).as_bytes()),
            Some(after) => self
                .from
                .matches(format!("{}*{}", to.before, path(after)).as_bytes()),
        }
    }
}

/// All redirects of a site.
#[derive(Clone, Debug, Default)]
pub struct Redirects {
    all: Vec<Redirect>,
    /// Those without a star, by path.
    exact: HashMap<Box<[u8]>, usize>,
    /// Those with one, the most specific first.
    starred: Vec<usize>,
}

impl Redirects {
    /// Puts redirects in the order in which they decide.
    ///
    /// # Errors
    ///
    /// When there are too many with a star.
    pub fn new(all: Vec<Redirect>) -> Result<Redirects, String> {
        let mut redirects = Redirects::default();
        for (at, redirect) in all.iter().enumerate() {
            if redirect.from.has_star() {
                redirects.starred.push(at);
            } else {
                let path = redirect.from.before().as_bytes();
                redirects.exact.insert(path.into(), at);
            }
        }
        if redirects.starred.len() > STAR_REDIRECTS_MAX {
            return Err(format!(
                "more than {STAR_REDIRECTS_MAX} redirects with a star; write fewer"
            ));
        }
        redirects
            .starred
            .sort_by_key(|&at| std::cmp::Reverse(all[at].from.precedence()));
        redirects.all = all;
        Ok(redirects)
    }

    /// The number of the redirect that decides about a path.
    pub fn find(&self, path: &[u8]) -> Option<usize> {
        if self.all.is_empty() {
            return None;
        }
        let starred = || {
            self.starred
                .iter()
                .find(|&&at| self.all[at].from.matches(path))
        };
        self.exact.get(path).or_else(starred).copied()
    }

    /// All of them, by number.
    pub fn all(&self) -> &[Redirect] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(from: &str, to: &str) -> Redirect {
        Redirect {
            from: Pattern::parse(from).unwrap(),
            to: Destination::parse(to).unwrap(),
            status: Status::MovedPermanently,
            keep_query: true,
        }
    }

    #[test]
    fn the_rest_and_the_query_are_kept_where_it_says_so() {
        for (from, to, path, query, want) in [
            ("/a", "/b", "/a", None, "/b"),
            ("/a", "/b", "/a", Some("q"), "/b?q"),
            ("/a", "/b?x", "/a", Some("q"), "/b?x&q"),
            ("/a", "/b#f", "/a", Some("q"), "/b?q#f"),
            ("/a", "/b?", "/a", None, "/b?"),
            ("/a/*", "/b/*", "/a/c/d e", Some("q=1"), "/b/c/d%20e?q=1"),
            ("/a/*", "/b/", "/a/c", None, "/b/"),
            ("*.htm", "/*.html", "/a/b.htm", None, "/a/b.html"),
            ("/*", "https://h/*", "/x?y", None, "https://h/x%3Fy"),
            ("/a/*", "/b/*.html", "/a/\r\nX", None, "/b/%0D%0AX.html"),
        ] {
            let location = redirect(from, to).location(path.as_bytes(), query.map(str::as_bytes));
            assert_eq!(location, want, "{from} {to} {path}");
        }
        let dropping = Redirect {
            keep_query: false,
            ..redirect("/a", "/b")
        };
        assert_eq!(dropping.location(b"/a", Some(b"q")), "/b");
    }

    /// Nothing that a client writes gets it sent to another host.
    #[test]
    fn a_client_does_not_choose_the_host() {
        assert_eq!(
            redirect("/old*", "/*").location(b"/old/evil.com", None),
            "/evil.com"
        );
        assert_eq!(
            redirect("/old*", "/*").location(b"/old//evil.com", None),
            "/evil.com"
        );
        assert_eq!(
            redirect("/old*", "/*").location(b"/old\\evil.com", None),
            "/%5Cevil.com"
        );
        for to in [
            "https://example.org*",
            "https://*/",
            "//evil.com/",
            "*",
            "ftp://h/",
            "http:///",
            "http://u@h/",
            "/a\\b",
            "/\r\n",
            "/é",
            "/a?b=*",
            "/*/*",
        ] {
            assert!(Destination::parse(to).is_err(), "{to}");
        }
    }

    #[test]
    fn loops_are_seen() {
        for (from, to, want) in [
            ("/*", "/new/*", true),
            ("/*", "/new", true),
            ("/a", "/a", true),
            ("/a", "/a?b", true),
            ("/a/*", "/b/*", false),
            ("/a", "/a/", false),
            ("/*", "https://other/*", false),
            ("*.htm", "/x/*.htm", true),
            ("*.htm", "/x/*.html", false),
        ] {
            assert_eq!(redirect(from, to).is_loop(), want, "{from} {to}");
        }
    }

    #[test]
    fn the_most_specific_decides() {
        let all = vec![
            redirect("/a/*", "/1"),
            redirect("/a/b*", "/2"),
            redirect("/a/b", "/3"),
        ];
        let redirects = Redirects::new(all).unwrap();
        for (path, want) in [
            ("/a/", Some(0)),
            ("/a/bc", Some(1)),
            ("/a/b", Some(2)),
            ("/b", None),
        ] {
            assert_eq!(redirects.find(path.as_bytes()), want, "{path}");
        }
        let many = (0..=STAR_REDIRECTS_MAX).map(|i| redirect(&format!("/{i}/*"), "/"));
        assert!(Redirects::new(many.collect()).is_err());
        assert!(Redirects::new(Vec::new()).unwrap().find(b"/").is_none());
    }
}
