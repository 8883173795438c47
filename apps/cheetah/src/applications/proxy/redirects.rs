//! Redirects of an upstream to itself, which a client cannot follow: Location and Refresh with its address become paths of the rule, as with
//! nginx's `proxy_redirect default`.
//!
//! What is at `http://10.0.0.5:8080/v2/x` for the upstream of `path = "/api"` and `to = "http://10.0.0.5:8080/v2"` is `/api/x` here. What is elsewhere on the
//! upstream is not to be had here, and stays as it is; so is what names no host.

use crate::applications::head::push_field;

/// What an upstream may call itself, and which part of it is to be had.
#[derive(Clone, Debug)]
pub struct Own<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Its address, and what its Host field says, each with a port or without.
    pub hosts: Vec<&'a [u8]>,
    /// The path there of which the rule is, without a slash at its end.
    pub base: &'a [u8],
    /// The rule's own, without a slash at its end.
    pub path: &'a [u8],
}

/// Whether the lines of an answer's fields may lead somewhere: all others need not be rewritten.
pub fn may_lead(lines: &[u8]) -> bool {
    lines.split(|&b| b == b'\n').any(is_about)
}

fn is_about(line: &[u8]) -> bool {
    let name = line.split(|&b| b == b':').next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"location") || name.eq_ignore_ascii_case(b"refresh")
}

/// Rewrites the lines of an answer's fields.
pub fn rewrite(lines: &mut Vec<u8>, own: &Own<'_>) {
    let before = std::mem::take(lines);
    for line in before.split_inclusive(|&b| b == b'\n') {
        match rewritten(line, own).filter(|_| is_about(line)) {
            Some((name, value)) => push_field(lines, name, &value),
            None => lines.extend_from_slice(line),
        }
    }
}

/// The name and the value of a line that leads to the upstream.
fn rewritten<'l>(line: &'l [u8], own: &Own<'_>) -> Option<(&'l str, Vec<u8>)> {
    let line = line.strip_suffix(b"\r\n")?;
    let colon = line.iter().position(|&b| b == b':')?;
    let name = str::from_utf8(&line[..colon]).ok()?;
    let value = line[colon + 1..].trim_ascii();
    if name.eq_ignore_ascii_case("location") {
        return Some((name, local(value, own)?));
    }
    // `5; url=http://...`, with quotes or without.
    let url = value
        .windows(4)
        .position(|four| four.eq_ignore_ascii_case(b"url="))?
        + 4;
    let quote = usize::from(matches!(value.get(url), Some(b'"' | b'\'')));
    let (before, after) = value.split_at(url + quote);
    let end = after.len() - quote.min(usize::from(after.last() == value.get(url)));
    let (inner, rest) = after.split_at(end);
    Some((name, [before, &local(inner, own)?, rest].concat()))
}

/// The path here of what an upstream calls so.
fn local(url: &[u8], own: &Own<'_>) -> Option<Vec<u8>> {
    let (scheme, rest) = url.split_at_checked(own.scheme.len())?;
    let rest = rest.strip_prefix(b"://")?;
    if !scheme.eq_ignore_ascii_case(own.scheme.as_bytes()) {
        return None;
    }
    let end = rest
        .iter()
        .position(|b| b"/?#".contains(b))
        .unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    let default = if own.scheme == "https" {
        &b":443"[..]
    } else {
        b":80"
    };
    let bare = |host: &[u8]| {
        host.strip_suffix(default)
            .unwrap_or(host)
            .to_ascii_lowercase()
    };
    if !own.hosts.iter().any(|known| bare(known) == bare(host)) {
        return None;
    }
    let below = target.strip_prefix(own.base)?;
    let is_whole = below.first().is_none_or(|b| b"/?#".contains(b));
    let path = [own.path, below].concat();
    let is_rooted = path.first() == Some(&b'/');
    let path = if is_rooted {
        path
    } else {
        [b"/", &path[..]].concat()
    };
    // Browsers take the next for a host.
    let is_elsewhere = matches!(path.get(1), Some(b'/' | b'\\'));
    (is_whole && !is_elsewhere).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str, base: &str, path: &str) -> String {
        let own = Own {
            scheme: "http",
            hosts: vec![b"10.0.0.5:8080", b"App.test"],
            base: base.as_bytes(),
            path: path.as_bytes(),
        };
        let mut lines = format!("X: http://app.test/\r\n{line}\r\nY: z\r\n").into_bytes();
        rewrite(&mut lines, &own);
        let text = String::from_utf8(lines).unwrap();
        let inner = text
            .strip_prefix("X: http://app.test/\r\n")
            .expect("others stay");
        inner
            .strip_suffix("\r\nY: z\r\n")
            .expect("others stay")
            .to_owned()
    }

    #[test]
    fn redirects_to_the_upstream_itself_lead_here() {
        for (line, base, path, wanted) in [
            (
                "Location: http://10.0.0.5:8080/v2/x?y#z",
                "/v2",
                "/api",
                "/api/x?y#z",
            ),
            ("location: HTTP://APP.TEST:80/v2", "/v2", "/api", "/api"),
            ("Location: http://app.test/v2?y", "/v2", "/api", "/api?y"),
            ("Location: http://app.test/x", "", "", "/x"),
            ("Location: http://app.test", "", "", "/"),
            ("Location: http://app.test?y", "", "", "/?y"),
            ("Location: http://app.test/api/x", "/api", "/api", "/api/x"),
            (
                "Refresh: 5; url=http://app.test/v2/x",
                "/v2",
                "/api",
                "5; url=/api/x",
            ),
            (
                "Refresh: 5;URL=\"http://app.test/v2/x\"",
                "/v2",
                "/api",
                "5;URL=\"/api/x\"",
            ),
        ] {
            let is = rewritten(line, base, path);
            assert_eq!(is.split_once(": ").unwrap().1, wanted, "{line}");
        }
        for other in [
            "Location: https://app.test/v2/x",
            "Location: http://app.test:8080/v2/x",
            "Location: http://app.test.evil/v2/x",
            "Location: http://app.test@evil/v2/x",
            "Location: http://10.0.0.5/v2/x",
            "Location: http://app.test/v20/x",
            "Location: http://app.test/other",
            "Location: //app.test/v2/x",
            "Location: http://app.test/v2//evil.test",
            "Location: /v2/x",
            "Location: ",
            "Refresh: 5",
            "Refresh: 5; url=",
            "Refresh: 5; url=\"",
        ] {
            assert_eq!(
                rewritten(
                    other,
                    "/v2",
                    if other.contains("evil.test") {
                        ""
                    } else {
                        "/api"
                    }
                ),
                other
            );
        }
        for other in [
            "Location: http://app.test//evil.test/x",
            "Location: http://app.test/\\evil.test",
        ] {
            assert_eq!(rewritten(other, "", ""), other);
        }
    }
}
