//! From a request target to the path of a document.
//!
//! Targets come as a path (`/a/b?q`) or, from clients that think we are a proxy, as a whole URI
//! (RFC 9112 §3.2.2). Percent-encoding is decoded once, then empty and dot segments are resolved,
//! so that what is looked up is in the one form that the site's table knows. The table is the
//! only thing a path is ever used for: it is never given to the file system.

use std::borrow::Cow;

use super::fault::Fault;

/// A request target taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// Decoded and resolved: begins with `/`, has no empty, `.` or `..` segments. Ends with `/`
    /// if the target did (or ended with a dot segment, which means a directory too).
    pub path: Cow<'a, [u8]>,
    /// What follows the `?`, as it came.
    pub query: Option<&'a [u8]>,
    /// Host and perhaps port of a whole URI, which come before the Host field (RFC 9112 §3.2.2).
    pub authority: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Takes a target apart. It holds no spaces or control characters: the head's parser has
    /// refused those.
    ///
    /// # Errors
    ///
    /// [`Fault::TargetSyntax`] or [`Fault::TargetAboveRoot`].
    #[inline]
    pub fn parse(target: &'a [u8]) -> Result<Target<'a>, Fault> {
        let (authority, local) = match target.first() {
            Some(b'/') => (None, target),
            _ => split_authority(target)?,
        };
        let (plain, end) = scan(local);
        let (raw, query) = match local.get(end) {
            None => (local, None),
            Some(b'?') if !local[end..].contains(&b'#') => (&local[..end], Some(&local[end + 1..])),
            // RFC 9112 §3.2: a fragment is never sent.
            Some(_) => return Err(Fault::TargetSyntax),
        };
        let path = match (plain, raw) {
            (true, _) => Cow::Borrowed(raw),
            (false, b"") => Cow::Borrowed(&b"/"[..]), // RFC 9112 §3.2.2: an empty path is "/".
            (false, _) => Cow::Owned(resolve(&decode(raw)?)?),
        };
        Ok(Target {
            path,
            query,
            authority,
        })
    }
}

/// Looks for the end of the path. The first answer is true when the path needs neither decoding
/// nor resolving; the second is the place of the `?` or `#`, or the length.
#[inline]
fn scan(local: &[u8]) -> (bool, usize) {
    let mut plain = true;
    let mut before = 0;
    for (at, &byte) in local.iter().enumerate() {
        match byte {
            b'?' | b'#' => return (plain && at > 0, at),
            b'%' => plain = false,
            b'/' | b'.' if before == b'/' => plain = false,
            _ => {}
        }
        before = byte;
    }
    (plain && !local.is_empty(), local.len())
}

/// Authority and rest of `http://authority/path?query`.
fn split_authority(target: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Fault> {
    let colon = target
        .iter()
        .position(|&b| b == b':')
        .ok_or(Fault::TargetSyntax)?;
    let (scheme, rest) = target.split_at(colon);
    let known = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    let rest = rest
        .strip_prefix(b"://")
        .filter(|_| known)
        .ok_or(Fault::TargetSyntax)?;
    let end = rest
        .iter()
        .position(|b| b"/?#".contains(b))
        .unwrap_or(rest.len());
    if end == 0 || !is_authority(&rest[..end]) {
        return Err(Fault::TargetSyntax); // RFC 9110 §4.2.1: an empty host is invalid.
    }
    Ok((Some(&rest[..end]), &rest[end..]))
}

/// True for `host` and `host:port` (RFC 3986 §3.2.2), where a host is a name or a bracketed
/// address. User information is refused (RFC 9110 §4.2.4).
pub fn is_authority(text: &[u8]) -> bool {
    let rest = match text.first() {
        Some(b'[') => {
            let Some(end) = text.iter().position(|&b| b == b']') else {
                return false;
            };
            let inside = &text[1..end];
            if inside.is_empty() || !inside.iter().all(|&b| is_name(b) || b == b':') {
                return false;
            }
            &text[end + 1..]
        }
        _ => &text[text.iter().position(|&b| !is_name(b)).unwrap_or(text.len())..],
    };
    match rest.split_first() {
        None => true,
        Some((b':', port)) => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

/// Unreserved characters, sub-delimiters and percent signs: RFC 3986's reg-name.
const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

fn decode(raw: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        out.push(byte);
        if byte == b'%' {
            let Some((&[high, low], after)) = rest.split_first_chunk() else {
                return Err(Fault::TargetSyntax);
            };
            let digits = (char::from(high).to_digit(16), char::from(low).to_digit(16));
            let (Some(high), Some(low)) = digits else {
                return Err(Fault::TargetSyntax);
            };
            let value = (high * 16 + low) as u8;
            if value == 0 {
                return Err(Fault::TargetSyntax); // No file name holds a zero byte.
            }
            *out.last_mut().expect("just pushed") = value;
            rest = after;
        }
    }
    Ok(out)
}

/// Removes empty and dot segments (RFC 3986 §5.2.4), but refuses to climb above the root.
fn resolve(path: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::with_capacity(path.len() + 1);
    let mut is_directory = true;
    for segment in path.split(|&b| b == b'/') {
        is_directory = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = out
                    .iter()
                    .rposition(|&b| b == b'/')
                    .ok_or(Fault::TargetAboveRoot)?;
                out.truncate(parent);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if is_directory {
        out.push(b'/');
    }
    Ok(out)
}

/// Where a path of a host is by HTTPS; nothing where the host is none. The host's own port is left out.
pub fn https_url(host: Option<&[u8]>, port: u16, path: &str) -> Option<String> {
    let host = std::str::from_utf8(host?).ok()?;
    let end = match host.starts_with('[') {
        true => host.find(']')? + 1,
        false => host.find(':').unwrap_or(host.len()),
    };
    let host = &host[..end];
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    Some(match port {
        443 => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    })
}

/// A resolved path as it is written in a Location field, query added.
pub fn encode(path: &[u8], query: Option<&[u8]>) -> String {
    let mut out = String::with_capacity(path.len() + 16);
    path.iter()
        .for_each(|&b| push_encoded(&mut out, b, is_path_byte(b)));
    if let Some(query) = query {
        out.push('?');
        query
            .iter()
            .for_each(|&b| push_encoded(&mut out, b, b.is_ascii_graphic()));
    }
    out
}

fn push_encoded(out: &mut String, byte: u8, literal: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if literal {
        out.push(char::from(byte));
    } else {
        out.push('%');
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// RFC 3986 §3.3 pchar, and the separator; a literal percent sign has to be encoded.
const fn is_path_byte(byte: u8) -> bool {
    byte != b'%' && (is_name(byte) || matches!(byte, b'/' | b':' | b'@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(target: &str) -> Result<String, Fault> {
        let target = Target::parse(target.as_bytes())?;
        Ok(String::from_utf8_lossy(&target.path).into_owned())
    }

    #[test]
    fn a_host_has_another_port_by_https() {
        for (host, port, url) in [
            (Some(&b"h"[..]), 443, Some("https://h/a")),
            (Some(b"h:80"), 443, Some("https://h/a")),
            (Some(b"h:80"), 8443, Some("https://h:8443/a")),
            (Some(b"[::1]:80"), 8443, Some("https://[::1]:8443/a")),
            (Some(b"[::1"), 443, None),
            (Some(b"h/x"), 443, None),
            (Some(b"u@h"), 443, None),
            (Some(b""), 443, None),
            (None, 443, None),
        ] {
            assert_eq!(https_url(host, port, "/a").as_deref(), url, "{host:?}");
        }
    }

    #[test]
    fn paths_are_decoded_and_resolved() {
        for (target, want) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a/b.html", "/a/b.html"),
            ("//", "/"),
            ("//a///b//", "/a/b/"),
            ("/./a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/.a", "/.a"),
            ("/..a/...", "/..a/..."),
            ("/%61", "/a"),
            ("/a%2Fb", "/a/b"),
            ("/a%2f%2e%2E%2fb", "/b"),
            ("/%2e/a", "/a"),
            ("/%25%36%31", "/%61"), // Decoded once only.
            ("/%C3%A9", "/é"),
            ("/é", "/é"),
            ("/a?b/../c", "/a"),
            ("/?", "/"),
            ("/a%3Fb", "/a?b"),
            ("/a;b=c,d", "/a;b=c,d"),
            ("http://host", "/"),
            ("http://host?q", "/"),
            ("HTTP://host:80/a/../b?q", "/b"),
            ("https://[fd10::1]:443/a", "/a"),
            ("http://10.0.0.1:/a", "/a"),
        ] {
            assert_eq!(path(target).as_deref(), Ok(want), "{target}");
        }
    }

    #[test]
    fn bad_targets_are_faults() {
        for target in [
            "",
            "*",
            "a",
            "host:80",
            "/%",
            "/%4",
            "/%4x",
            "/%zz",
            "/%00",
            "/a#b",
            "/a?b#c",
            "#",
            "ftp://host/",
            "http:/a",
            "http:///a",
            "http://",
            "http://user@host/",
            "http://h:x/",
            "http://[fd10::1/",
            "http://h#",
            "://host/",
            "http://[]/",
            "http://h:123456/",
        ] {
            assert_eq!(path(target), Err(Fault::TargetSyntax), "{target}");
        }
        for target in [
            "/..",
            "/../",
            "/a/../..",
            "/%2e%2e/a",
            "/..%2fa",
            "http://h/..",
        ] {
            assert_eq!(path(target), Err(Fault::TargetAboveRoot), "{target}");
        }
    }

    #[test]
    fn the_query_is_kept_as_it_came() {
        assert_eq!(
            Target::parse(b"/a?b%20c?d").unwrap().query,
            Some(&b"b%20c?d"[..])
        );
        assert_eq!(Target::parse(b"/a?").unwrap().query, Some(&b""[..]));
        assert_eq!(Target::parse(b"/a").unwrap().query, None);
    }

    #[test]
    fn the_authority_is_kept_as_it_came() {
        let authority = |target| Target::parse(target).unwrap().authority;
        assert_eq!(authority(b"http://Host:80/a"), Some(&b"Host:80"[..]));
        assert_eq!(authority(b"http://h"), Some(&b"h"[..]));
        assert_eq!(authority(b"/a"), None);
    }

    #[test]
    fn locations_are_encoded() {
        assert_eq!(encode(b"/a b/", None), "/a%20b/");
        assert_eq!(
            encode(b"/100%/\r\n/", Some(b"x=\xff&y")),
            "/100%25/%0D%0A/?x=%FF&y"
        );
    }
}
