//! By what answers are known: what was asked for, and in which words.
//!
//! The key is scheme, host and target as the upstream was asked for them, and what a proxy that is believed says of the first client's.
//! It is the name of an answer to the thread that keeps account, too: one that is no path, for it begins with no slash. Where an answer
//! depends on fields of the request, their values are its second key (RFC 9111 §4.1).

use httparse::Header;

use crate::applications::Asked;
use crate::applications::proxy::request::{Sent, push_target};
use crate::applications::proxy::{Proxy, forwarded};
use crate::applications::variables::local_part;
use crate::limits::{ANSWER_KEY_LEN_MAX, VARY_LEN_MAX};
use crate::message::request::{Request, list};
use crate::site::SitePath;

/// The first byte of each: that of passwords is 0, and paths begin with a slash.
const MARK: u8 = 1;

/// Whether something that a request waits for, or that is in memory, is an answer of an upstream's, and no document.
pub fn is_answer(path: &SitePath) -> bool {
    path.first() == Some(&MARK)
}

/// The name of an answer with this key that depends on these values.
pub fn name(key: &[u8], values: &[u8]) -> SitePath {
    let len = (values.len() as u32).to_be_bytes();
    [key, values, &len].concat().into()
}

/// The key of the answer with this name.
pub fn key_of(name: &[u8]) -> SitePath {
    let (rest, len) = name.split_last_chunk::<4>().unwrap_or((name, &[0; 4]));
    let values = (u32::from_be_bytes(*len) as usize).min(rest.len());
    rest[..rest.len() - values].into()
}

/// Whether a key is that of another, with whatever a proxy has claimed; or, where all below it are meant, begins with it.
pub fn is_of(key: &[u8], other: &[u8], means_below: bool) -> bool {
    let rest = key.strip_prefix(other);
    rest.is_some_and(|rest| means_below || matches!(rest.first(), None | Some(0)))
}

/// Appends the key of what a request asks for. False where that is too long to be one.
pub fn push(
    out: &mut Vec<u8>,
    request: &Request<'_, '_>,
    asked: &Asked,
    proxy: &Proxy,
    how: How,
) -> bool {
    let (target, authority) = local_part(request.target);
    let host = authority.or(request.host).unwrap_or_default();
    out.extend([MARK, if how.is_encrypted { b's' } else { b'h' }]);
    out.extend(host.iter().map(u8::to_ascii_lowercase));
    out.push(0);
    push_target(out, target, asked, proxy);
    let claims = request
        .fields
        .iter()
        .filter(|field| how.is_trusted && tells_apart(field));
    for claim in claims {
        out.push(0);
        out.extend(claim.name.bytes().map(|b| b.to_ascii_lowercase()));
        out.push(b':');
        out.extend_from_slice(claim.value.trim_ascii());
    }
    out.len() <= ANSWER_KEY_LEN_MAX
}

/// What beside the request itself decides about its key.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// It came by HTTPS.
    pub is_encrypted: bool,
    /// It is from a proxy that is believed.
    pub is_trusted: bool,
}

/// Whether what a proxy says is about more than who asks: an upstream may make another page of it.
fn tells_apart(field: &Header<'_>) -> bool {
    const WHO: [&str; 7] = [
        "x-forwarded-for",
        "forwarded-for",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
    ];
    let is_who = WHO.iter().any(|name| name.eq_ignore_ascii_case(field.name));
    forwarded::is_claim(field.name) && !is_who
}

/// Appends the values that the fields with these names have in a request for the upstream, in a form in which those are alike that mean the same. False where
/// they are too long to be a key.
pub fn push_values(out: &mut Vec<u8>, names: &[Box<str>], sent: Sent<'_, '_>) -> bool {
    let before = out.len();
    for name in names {
        out.push(0);
        let mut all = sent.named(name).peekable();
        // A field that is there and empty is another than one that is not.
        if all.peek().is_some() {
            out.push(b'=');
        }
        let is_list = name.starts_with("accept");
        for value in all.map(|field| field.value.trim_ascii()) {
            if !is_list {
                out.extend_from_slice(value);
                out.push(b'\n');
                continue;
            }
            for member in list(value) {
                out.extend(member.iter().map(u8::to_ascii_lowercase));
                out.push(b',');
            }
        }
        if out.len() - before > VARY_LEN_MAX {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(names: &[&str], fields: &[(&str, &str)]) -> Option<Vec<u8>> {
        let names: Vec<Box<str>> = names.iter().map(|name| Box::from(*name)).collect();
        let fields: Vec<Header<'_>> = fields
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let mut out = Vec::new();
        let sent = Sent {
            fields: &fields,
            is_trusted: false,
            withheld: &["X-Withheld".to_owned()],
        };
        push_values(&mut out, &names, sent).then_some(out)
    }

    #[test]
    fn values_are_alike_that_mean_the_same() {
        let of = |fields: &[(&str, &str)]| values(&["accept-encoding", "x-a"], fields).unwrap();
        let one = of(&[("Accept-Encoding", "gzip, br"), ("X-A", "1")]);
        for same in [
            [("X-A", "1"), ("accept-encoding", "GZIP,br")].as_slice(),
            &[
                ("accept-encoding", "gzip"),
                ("x-a", " 1 "),
                ("accept-encoding", "br"),
            ],
            &[
                ("accept-encoding", "gzip ,  br"),
                ("x-a", "1"),
                ("cookie", "x"),
            ],
        ] {
            assert_eq!(of(same), one, "{same:?}");
        }
        for other in [
            [("accept-encoding", "br, gzip"), ("x-a", "1")].as_slice(),
            &[("accept-encoding", "gzip, br"), ("x-a", "2")],
            &[("accept-encoding", "gzip, br")],
            &[("accept-encoding", "gzip, br"), ("x-a", "")],
            &[("x-a", "gzip, br"), ("accept-encoding", "1")],
            &[("accept-encoding", "gzip, br"), ("x-a", "1"), ("x-a", "1")],
            // What the upstream is not sent is not there.
            &[
                ("accept-encoding", "gzip, br"),
                ("x-a", "1"),
                ("connection", "x-a"),
            ],
            &[],
        ] {
            assert_ne!(of(other), one, "{other:?}");
        }
        // What the rule itself says is the same for all.
        let withheld = |value| values(&["x-withheld"], &[("X-withheld", value)]);
        assert_eq!(withheld("1"), withheld("2"));
        assert_ne!(of(&[("x-a", "")]), of(&[]));
        assert_ne!(of(&[("x-a", "b")]), of(&[("x-a", "B")]));
    }

    #[test]
    fn a_name_is_a_key_and_values() {
        for (key, values) in [("\u{1}sa\0/", ""), ("\u{1}sa\0/", "\0=gzip,\0"), ("", "x")] {
            let name = name(key.as_bytes(), values.as_bytes());
            assert_eq!(*key_of(&name), *key.as_bytes());
        }
        assert_eq!(*key_of(b"\xff\xff\xff\xff"), *b"");
        assert_eq!(*key_of(b"ab"), *b"ab");
    }

    #[test]
    fn values_that_are_too_long_are_no_key() {
        let long = "x".repeat(VARY_LEN_MAX);
        assert_eq!(values(&["a"], &[("a", &long)]), None);
        assert!(values(&["a"], &[("b", &long)]).is_some());
    }
}
