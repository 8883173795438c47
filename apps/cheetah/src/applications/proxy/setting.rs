//! Fields of requests for upstreams that a rule sets, in the place of whatever clients send by these names.
//!
//! A value is a text with names in braces, which stand for what is known of the request: `{scheme}://{host}`. Two braces are one.

use super::forwarded::Client;
use crate::applications::head::push_field;
use crate::limits::HOST_LEN_MAX;
use crate::message::text::push_address;
use crate::site::hosts::name_of;
use crate::site::rules::fields::check_value;

/// A field that a rule sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetField {
    /// Its name.
    pub name: String,
    /// A line for each of these. Where there are none, the field is taken away.
    pub values: Vec<Value>,
}

/// The value of such a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Known(Known),
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// From where it comes.
    ClientAddress,
    /// The host that is asked for, without a port.
    Host,
    /// The port of that: the scheme's where none is said.
    Port,
    /// `http` or `https`.
    Scheme,
}

impl Known {
    const ALL: [(&str, Known); 4] = [
        ("client_address", Known::ClientAddress),
        ("host", Known::Host),
        ("port", Known::Port),
        ("scheme", Known::Scheme),
    ];

    fn push(self, out: &mut Vec<u8>, client: &Client<'_>) {
        let authority = client.host.unwrap_or_default();
        let host = name_of(authority);
        match (self, client.is_encrypted) {
            (Known::ClientAddress, _) => push_address(out, client.ip.to_canonical()),
            // There are none that are longer.
            (Known::Host, _) if host.len() > HOST_LEN_MAX => {}
            (Known::Host, _) => out.extend(host.iter().map(u8::to_ascii_lowercase)),
            (Known::Port, is_encrypted) => {
                let port = port_behind(host, authority);
                let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
                out.extend_from_slice(port.to_string().as_bytes());
            }
            (Known::Scheme, true) => out.extend_from_slice(b"https"),
            (Known::Scheme, false) => out.extend_from_slice(b"http"),
        }
    }

    /// The bytes that it has at most.
    const fn len_max(self) -> usize {
        match self {
            Known::ClientAddress => 45,
            Known::Host => HOST_LEN_MAX,
            Known::Port | Known::Scheme => 5,
        }
    }
}

/// The port that stands behind the name of a host, if one does.
fn port_behind(name: &[u8], authority: &[u8]) -> Option<u16> {
    let behind = &authority[name.len()..];
    let port = behind.strip_prefix(b".").unwrap_or(behind);
    std::str::from_utf8(port.strip_prefix(b":")?)
        .ok()?
        .parse()
        .ok()
}

impl Value {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Value, String> {
        check_value(text)?;
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            if let Some(behind) = behind.strip_prefix(brace) {
                plain.push_str(brace);
                rest = behind;
                continue;
            }
            let name = behind.split_once('}').filter(|_| brace == "{");
            let known = name.and_then(|(name, _)| Known::ALL.iter().find(|it| it.0 == name));
            let (Some((_, behind)), Some((_, known))) = (name, known) else {
                return Err(unknown(text));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Known(*known));
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Value(parts))
    }

    /// Whether it differs between clients that ask for the same.
    pub fn depends_on_client(&self) -> bool {
        self.0.contains(&Part::Known(Known::ClientAddress))
    }

    /// The bytes that it has at most.
    pub fn len_max(&self) -> usize {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Known(known) => known.len_max(),
        });
        parts.sum()
    }

    fn push(&self, text: &mut Vec<u8>, client: &Client<'_>) {
        for part in &self.0 {
            match part {
                Part::Text(part) => text.extend_from_slice(part.as_bytes()),
                Part::Known(known) => known.push(text, client),
            }
        }
    }
}

fn unknown(text: &str) -> String {
    let names = Known::ALL.map(|(name, _)| format!("{{{name}}}"));
    format!(
        "{text:?} has braces around nothing that is known of a request; write one of {}, or two braces for one",
        names.join(", ")
    )
}

/// Appends the fields. One of which nothing is known is left out: a request of HTTP/1.0 may have no host.
pub fn push(out: &mut Vec<u8>, fields: &[SetField], client: &Client<'_>) {
    let mut text = Vec::new();
    for field in fields {
        for value in &field.values {
            text.clear();
            value.push(&mut text, client);
            let value = text.trim_ascii();
            if !value.is_empty() {
                push_field(out, &field.name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, host: Option<&str>, is_encrypted: bool) -> String {
        let client = Client {
            fields: &[],
            ip: "::ffff:192.0.2.7".parse().unwrap(),
            host: host.map(str::as_bytes),
            is_encrypted,
            is_trusted: false,
        };
        let field = SetField {
            name: "A".to_owned(),
            values: vec![Value::parse(text).expect(text)],
        };
        let mut out = Vec::new();
        push(&mut out, &[field], &client);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_value_is_text_and_what_is_known() {
        for (text, host, is_encrypted, wanted) in [
            ("Basic YTpi", Some("a.test"), false, "A: Basic YTpi\r\n"),
            ("{client_address}", None, false, "A: 192.0.2.7\r\n"),
            (
                "{scheme}://{host}:{port}/",
                Some("A.test"),
                false,
                "A: http://a.test:80/\r\n",
            ),
            (
                "{scheme}://{host}:{port}",
                Some("[2001:DB8::1]"),
                true,
                "A: https://[2001:db8::1]:443\r\n",
            ),
            ("{port}", Some("a.test:8443"), true, "A: 8443\r\n"),
            (
                "{host}:{port}",
                Some("a.test.:99999"),
                true,
                "A: a.test:443\r\n",
            ),
            ("{host} {port}", Some("[::1]:81"), true, "A: [::1] 81\r\n"),
            (
                "{{\"a\": {{}}, {{{host}}}}}",
                Some("b"),
                false,
                "A: {\"a\": {}, {b}}\r\n",
            ),
            ("{host}", None, false, ""),
            ("{host}", Some(&"a".repeat(256)), false, ""),
            ("{host} x", None, false, "A: x\r\n"),
        ] {
            assert_eq!(of(text, host, is_encrypted), wanted, "{text}");
        }
    }

    #[test]
    fn braces_around_nothing_known_are_refused() {
        for text in [
            "{",
            "}",
            "{}",
            "a{host",
            "host}",
            "{Host}",
            "{client}",
            "{{host}",
            "$host {a b}",
        ] {
            let error = Value::parse(text).expect_err(text);
            assert!(
                error.contains("{client_address}, {host}, {port}, {scheme}"),
                "{error}"
            );
        }
        for text in ["a\r\nB: c", " a", "\u{e9}", "\0"] {
            assert!(Value::parse(text).is_err(), "{text:?}");
        }
    }
}
