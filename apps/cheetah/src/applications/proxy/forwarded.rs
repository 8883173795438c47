//! What an upstream is told of the client: Forwarded (RFC 7239), and the X-Forwarded- fields that came before that.
//!
//! What a client says of itself in these fields is left out, unless it is a proxy that is trusted: then ours is added behind it.

use std::fmt::Write as _;
use std::net::IpAddr;

use httparse::Header;

use crate::applications::head::{fields_named, push_field};

/// Fields in which a proxy says for whom it asks, in lower case. Others that begin with `x-forwarded-` are of the kind.
const CLAIMS: [&str; 4] = ["forwarded", "x-real-ip", "x-client-ip", "true-client-ip"];

/// A request, and who has sent it.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The fields as they came.
    pub fields: &'a [Header<'a>],
    /// The client's address.
    pub ip: IpAddr,
    /// The host that it asks for.
    pub host: Option<&'a [u8]>,
    /// It asks by HTTPS.
    pub is_encrypted: bool,
    /// It is a proxy that is believed.
    pub is_trusted: bool,
}

/// Whether a field says for whom somebody asks.
pub fn is_claim(name: &str) -> bool {
    const PREFIX: &str = "x-forwarded-";
    let prefix = name.get(..PREFIX.len());
    let has_prefix = prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX));
    has_prefix || CLAIMS.iter().any(|claim| claim.eq_ignore_ascii_case(name))
}

/// Whether [`push`] writes a field, so that it does not go on as it came.
pub fn is_written(name: &str) -> bool {
    let written = [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
    ];
    written.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Appends the fields.
pub fn push(out: &mut Vec<u8>, client: &Client<'_>) {
    let ip = client.ip.to_canonical().to_string();
    let scheme = if client.is_encrypted { "https" } else { "http" };
    push_joined(out, client, "Forwarded", element(client, scheme).as_bytes());
    push_joined(out, client, "X-Forwarded-For", ip.as_bytes());
    // Those before us know what the first client asked for.
    push_first(out, client, "X-Forwarded-Proto", Some(scheme.as_bytes()));
    push_first(out, client, "X-Forwarded-Host", client.host);
}

/// Our element of the Forwarded field (RFC 7239 §4).
fn element(client: &Client<'_>, scheme: &str) -> String {
    let mut element = match client.ip.to_canonical() {
        IpAddr::V4(ip) => format!("for={ip}"),
        // §6: with its brackets it is no token, so it is quoted.
        IpAddr::V6(ip) => format!("for=\"[{ip}]\""),
    };
    // A host is a name or an address, so it has no quotes of its own.
    let host = client.host.and_then(|host| str::from_utf8(host).ok());
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        let _ = write!(element, ";host=\"{host}\"");
    }
    let _ = write!(element, ";proto={scheme}");
    element
}

/// A list, with our member at its end.
fn push_joined(out: &mut Vec<u8>, client: &Client<'_>, name: &'static str, ours: &[u8]) {
    let said = fields_named(client.fields, name).filter(|_| client.is_trusted);
    let members: Vec<&[u8]> = said.map(|field| field.value).chain([ours]).collect();
    push_field(out, name, &members.join(&b", "[..]));
}

/// What a proxy before us has said, else this.
fn push_first(out: &mut Vec<u8>, client: &Client<'_>, name: &'static str, ours: Option<&[u8]>) {
    let mut said = fields_named(client.fields, name).filter(|_| client.is_trusted);
    if let Some(value) = said.next().map(|field| field.value).or(ours) {
        push_field(out, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(fields: &[(&'static str, &'static str)], ip: &str, is_trusted: bool) -> String {
        let of = |(name, value): &(&'static str, &'static str)| Header {
            name,
            value: value.as_bytes(),
        };
        let fields: Vec<Header<'_>> = fields.iter().map(of).collect();
        let client = Client {
            fields: &fields,
            ip: ip.parse().unwrap(),
            host: Some(b"a.test:81"),
            is_encrypted: true,
            is_trusted,
        };
        let mut out = Vec::new();
        push(&mut out, &client);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_a_client_says_of_itself_counts_where_it_is_trusted() {
        let claims = [
            ("X-Forwarded-For", "9.9.9.9"),
            ("x-forwarded-for", "8.8.8.8"),
            ("Forwarded", "for=9.9.9.9;proto=http"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Host", "public.test"),
        ];
        assert_eq!(
            told(&claims, "192.0.2.7", false),
            "Forwarded: for=192.0.2.7;host=\"a.test:81\";proto=https\r\nX-Forwarded-For: 192.0.2.7\r\n\
             X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.test:81\r\n"
        );
        assert_eq!(
            told(&claims, "::ffff:192.0.2.7", true),
            "Forwarded: for=9.9.9.9;proto=http, for=192.0.2.7;host=\"a.test:81\";proto=https\r\n\
             X-Forwarded-For: 9.9.9.9, 8.8.8.8, 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: public.test\r\n"
        );
        let of_v6 = told(&[], "2001:db8::1", true);
        assert!(
            of_v6.starts_with("Forwarded: for=\"[2001:db8::1]\";"),
            "{of_v6}"
        );
        for (name, is_one) in [
            ("X-Forwarded-Port", true),
            ("x-real-ip", true),
            ("Forwarded", true),
            ("X-Forward", false),
            ("Accept", false),
        ] {
            assert_eq!(is_claim(name), is_one, "{name}");
        }
    }
}
