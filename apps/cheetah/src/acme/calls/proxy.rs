//! Through which proxy the authority is asked, as the environment says: `HTTPS_PROXY` or `ALL_PROXY`, but for hosts of `NO_PROXY`.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;

/// A proxy of HTTP.
#[derive(Eq, PartialEq)]
pub(in crate::acme) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// `user:password`, where it wants them.
    credentials: Option<String>,
}

/// The port of proxies where none is written, as of curl.
const PORT: u16 = 1080;

// The password is for the proxy alone.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Proxy { host, port, .. } = self;
        write!(f, "Proxy({host:?}, {port})")
    }
}

impl Proxy {
    /// Reads `http://user:password@host:port`, of which the host alone is needed.
    ///
    /// # Errors
    ///
    /// It is none that can be used here. What it is is not said: a password may be in it.
    pub(super) fn parse(text: &str) -> Result<Proxy, String> {
        let full = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let wrong = || {
            "the proxy of HTTPS_PROXY or ALL_PROXY cannot be used; write it as \"http://proxy.example:3128\""
                .to_owned()
        };
        let uri: Uri = full.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if uri.scheme_str() != Some("http") || authority.host().is_empty() {
            return Err(wrong());
        }
        let credentials = authority.as_str().rsplit_once('@');
        Ok(Proxy {
            host: bare(authority.host()).to_owned(),
            port: authority.port_u16().unwrap_or(PORT),
            credentials: credentials.map(|(who, _)| decoded(who)),
        })
    }

    /// What it is asked for: a way to a port of a host (RFC 9110 §9.3.6).
    pub(super) fn words(&self, host: &str, port: u16) -> Vec<u8> {
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        let mut words = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(who) = &self.credentials {
            let who = BASE64_STANDARD.encode(who);
            words += &format!("Proxy-Authorization: Basic {who}\r\n");
        }
        (words + "\r\n").into_bytes()
    }
}

/// The proxy for a host, by the variables of the environment, if one is to be used.
///
/// # Errors
///
/// It is none that can be used here.
pub(in crate::acme) fn of_environment(host: &str) -> Result<Option<Proxy>, String> {
    proxy_for(host, |name| std::env::var(name).ok())
}

fn proxy_for(host: &str, get: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>, String> {
    let get = |name: &str| {
        let value = get(name).or_else(|| get(&name.to_ascii_lowercase()));
        value.filter(|value| !value.is_empty())
    };
    let Some(text) = get("HTTPS_PROXY").or_else(|| get("ALL_PROXY")) else {
        return Ok(None);
    };
    let not_for = get("NO_PROXY").unwrap_or_default();
    if not_for.split(',').any(|rule| is_of(host, rule.trim())) {
        return Ok(None);
    }
    Proxy::parse(&text).map(Some)
}

/// Whether a host is one of a rule of `NO_PROXY`: the host itself, or a domain that it is in.
fn is_of(host: &str, rule: &str) -> bool {
    let domain = rule.trim_start_matches('*').trim_start_matches('.');
    let host = host.to_ascii_lowercase();
    let domain = bare(domain).to_ascii_lowercase();
    rule == "*"
        || !domain.is_empty()
            && (host == domain
                || host
                    .strip_suffix(&domain)
                    .is_some_and(|it| it.ends_with('.')))
}

/// An address of IPv6 without its brackets.
pub(in crate::acme) fn bare(host: &str) -> &str {
    let inside = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inside.unwrap_or(host)
}

/// `%xx` as the byte that it means, where that is text (RFC 3986 §2.1).
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).filter(|_| byte == b'%');
        let value = digits.and_then(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok());
        bytes.push(value.unwrap_or(byte));
        rest = match value {
            Some(_) => &behind[2..],
            None => behind,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(host: &str, variables: &[(&str, &str)]) -> Result<Option<(String, u16)>, String> {
        let get = |name: &str| {
            let mut all = variables.iter();
            let found = all.find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = proxy_for(host, get)?;
        Ok(found.map(|proxy| (proxy.host, proxy.port)))
    }

    #[test]
    fn the_environment_says_which() {
        let set = ("HTTPS_PROXY", "http://proxy.test:3128/");
        let wanted = Some(("proxy.test".to_owned(), 3128));
        assert_eq!(proxy("ca.test", &[]), Ok(None));
        assert_eq!(proxy("ca.test", &[("HTTPS_PROXY", "")]), Ok(None));
        assert_eq!(proxy("ca.test", &[set]), Ok(wanted.clone()));
        assert_eq!(proxy("ca.test", &[("all_proxy", set.1)]), Ok(wanted));
        let other = proxy("ca.test", &[("https_proxy", "u:p@[::1]")]);
        assert_eq!(other, Ok(Some(("::1".to_owned(), 1080))));
        for (host, rules, is_direct) in [
            ("ca.test", "a.test, ca.test", true),
            ("CA.test", ".test", true),
            ("ca.test", "*.test", true),
            ("ca.test", "*", true),
            ("ca.test", "a.test,", false),
            ("ca.test", "st", false),
            ("::1", "[::1]", true),
        ] {
            let found = proxy(host, &[set, ("NO_PROXY", rules)]).unwrap();
            assert_eq!(found.is_none(), is_direct, "{host} {rules}");
        }
        for wrong in ["socks5://a:1", "https://a:1", "http://", "a b"] {
            assert!(
                proxy("ca.test", &[("HTTPS_PROXY", wrong)]).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn its_password_is_told_to_nobody() {
        for wrong in [
            "https://user:secret@proxy.test:3128",
            "socks5h://user:secret@proxy.test",
            "user:se cret@proxy.test",
        ] {
            let said = Proxy::parse(wrong).unwrap_err();
            assert!(!said.contains("cret"), "{said}");
            assert!(said.contains("HTTPS_PROXY"), "{said}");
        }
        let proxy = Proxy::parse("http://user:secret@proxy.test:3128").unwrap();
        assert_eq!(format!("{proxy:?}"), "Proxy(\"proxy.test\", 3128)");
    }

    #[test]
    fn it_is_asked_for_a_way() {
        let proxy = Proxy::parse("http://us%65r:pass@proxy.test").unwrap();
        let words = String::from_utf8(proxy.words("::1", 443)).unwrap();
        assert_eq!(
            words,
            "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
        );
    }
}
