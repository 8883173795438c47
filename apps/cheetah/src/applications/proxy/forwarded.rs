//! What an upstream is told of the client: Forwarded (RFC 7239), and the X-Forwarded- fields that came before that.
//!
//! What a client says of itself in these fields is left out, unless it is a proxy that is trusted: then ours is added behind it.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use httparse::Header;

use crate::applications::head::{fields_named, push_field};
use crate::message::request::list;
use crate::message::text::push_address;

/// Fields in which a proxy says for whom it asks, and for what, in lower case (those of certificates: RFC 9440 §2.4). Others that begin with `x-forwarded-` are of the kind.
const CLAIMS: [&str; 16] = [
    "forwarded",
    "forwarded-for",
    "x-forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-host",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "client-cert",
    "client-cert-chain",
    "remote-user",
    "x-remote-user",
];

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

/// Appends the fields. Of a proxy that is believed and speaks one of the two kinds alone, what it says is said in the other kind too:
/// else the two would contradict each other, and applications read either.
pub fn push(out: &mut Vec<u8>, client: &Client<'_>) {
    let is_told = |field: &Header<'_>| is_written(field.name);
    match client.is_trusted && client.fields.iter().any(is_told) {
        true => push_behind(out, client),
        false => push_alone(out, client),
    }
}

/// Of a client of which nobody says anything but we.
fn push_alone(out: &mut Vec<u8>, client: &Client<'_>) {
    let ip = client.ip.to_canonical();
    let scheme = if client.is_encrypted { "https" } else { "http" };
    out.extend_from_slice(b"Forwarded: ");
    push_element(out, client, scheme);
    out.extend_from_slice(b"\r\nX-Forwarded-For: ");
    push_address(out, ip);
    out.extend_from_slice(b"\r\n");
    push_field(out, "X-Forwarded-Proto", scheme.as_bytes());
    if let Some(host) = client.host {
        push_field(out, "X-Forwarded-Host", host);
    }
}

/// Behind what a proxy says that is believed.
fn push_behind(out: &mut Vec<u8>, client: &Client<'_>) {
    let ip = client.ip.to_canonical().to_string();
    let scheme = if client.is_encrypted { "https" } else { "http" };
    let said = |name| said(client, name);
    let (standard, addresses) = (said("forwarded"), said("x-forwarded-for"));
    let (schemes, hosts) = (said("x-forwarded-proto"), said("x-forwarded-host"));
    let first_of = |list: &[&[u8]]| list.first().map(|value| value.to_vec());
    let (mut scheme_said, mut host_said) = (first_of(&schemes), first_of(&hosts));
    let has_old = !addresses.is_empty() || !schemes.is_empty() || !hosts.is_empty();
    let mut elements: Vec<Vec<u8>> = standard.iter().map(|it| it.to_vec()).collect();
    let mut clients: Vec<Vec<u8>> = addresses.iter().map(|it| it.to_vec()).collect();
    if standard.is_empty() && has_old {
        elements = elements_of(&addresses, scheme_said.as_deref(), host_said.as_deref());
    } else if !has_old && !standard.is_empty() {
        let whole = standard.join(&b","[..]);
        clients = list(&whole)
            .map(|it| parameter(it, b"for").unwrap_or(b"unknown".to_vec()))
            .collect();
        let first = list(&whole).next().unwrap_or_default();
        scheme_said = parameter(first, b"proto");
        host_said = parameter(first, b"host");
    }
    let mut element = Vec::new();
    push_element(&mut element, client, scheme);
    elements.push(element);
    clients.push(ip.into_bytes());
    push_field(out, "Forwarded", &elements.join(&b", "[..]));
    push_field(out, "X-Forwarded-For", &clients.join(&b", "[..]));
    // Those before us know what the first client asked for.
    let scheme = scheme_said.unwrap_or(scheme.into());
    push_field(out, "X-Forwarded-Proto", &scheme);
    if let Some(host) = host_said.or(client.host.map(<[u8]>::to_vec)) {
        push_field(out, "X-Forwarded-Host", &host);
    }
}

/// What a proxy that is believed says in such fields, those left out that say nothing.
fn said<'a>(client: &Client<'a>, name: &'static str) -> Vec<&'a [u8]> {
    let fields = fields_named(client.fields, name).filter(|_| client.is_trusted);
    let values = fields.map(|field| field.value.trim_ascii());
    values.filter(|value| !value.is_empty()).collect()
}

/// The elements of Forwarded that say what these fields do (RFC 7239 §7.4): the first one what was asked for.
fn elements_of(addresses: &[&[u8]], scheme: Option<&[u8]>, host: Option<&[u8]>) -> Vec<Vec<u8>> {
    let whole = addresses.join(&b","[..]);
    let nodes = list(&whole).map(|member| {
        let ip = str::from_utf8(member)
            .ok()
            .and_then(|text| text.parse().ok());
        let mut element = Vec::new();
        match ip {
            Some(ip) => push_node(&mut element, ip),
            None => element.extend_from_slice(UNKNOWN),
        }
        element
    });
    let mut elements: Vec<Vec<u8>> = nodes.collect();
    if elements.is_empty() {
        elements.push(UNKNOWN.to_vec());
    }
    let text = |value: Option<&[u8]>, more: &[u8]| {
        let is_plain = |b: &u8| b.is_ascii_alphanumeric() || more.contains(b);
        let value = value.filter(|value| value.iter().all(is_plain))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    if let Some(host) = text(host, b"-._:[]") {
        let _ = write!(elements[0], ";host=\"{host}\"");
    }
    if let Some(scheme) = text(scheme, b"+-.") {
        let _ = write!(elements[0], ";proto={scheme}");
    }
    elements
}

/// A parameter of an element, as the older fields have it: without quotes, an address without brackets and port. Nothing where it
/// is not there, or has characters that would not be understood there.
fn parameter(element: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let value = element.split(|&b| b == b';').find_map(|pair| {
        let at = pair.iter().position(|&b| b == b'=')?;
        let is_it = pair[..at].trim_ascii().eq_ignore_ascii_case(name);
        is_it.then(|| pair[at + 1..].trim_ascii())
    })?;
    let quoted = value
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let value = quoted.unwrap_or(value);
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._:[]+".contains(b);
    let value = str::from_utf8(value)
        .ok()
        .filter(|it| it.bytes().all(|b| is_plain(&b)))?;
    if value.is_empty() || name != b"for" {
        return (!value.is_empty()).then(|| value.into());
    }
    let bare = value.strip_prefix('[').and_then(|it| it.split(']').next());
    let ip = bare.unwrap_or(value).parse::<IpAddr>().ok();
    let ip = ip.or_else(|| value.parse().ok().map(|at: SocketAddr| at.ip()));
    Some(
        ip.map_or_else(|| value.to_owned(), |ip| ip.to_string())
            .into(),
    )
}

/// Of a client of which nobody knows who it is (RFC 7239 §6.2).
const UNKNOWN: &[u8] = b"for=unknown";

/// A node of RFC 7239 §6.
fn push_node(out: &mut Vec<u8>, ip: IpAddr) {
    let ip = ip.to_canonical();
    // With its brackets it is no token, so it is quoted.
    let (before, behind) = match ip {
        IpAddr::V4(_) => ("for=", ""),
        IpAddr::V6(_) => ("for=\"[", "]\""),
    };
    out.extend_from_slice(before.as_bytes());
    push_address(out, ip);
    out.extend_from_slice(behind.as_bytes());
}

/// Our element of the Forwarded field (RFC 7239 §4).
fn push_element(out: &mut Vec<u8>, client: &Client<'_>, scheme: &str) {
    push_node(out, client.ip);
    // A host is a name or an address, so it has no quotes of its own.
    let host = client.host.filter(|host| !host.is_empty());
    if let Some(host) = host.filter(|host| str::from_utf8(host).is_ok()) {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host);
        out.push(b'"');
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(scheme.as_bytes());
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

    /// Whether a proxy says nothing or says it with empty fields.
    #[test]
    fn of_a_client_alone_it_is_told_in_one_way() {
        for ip in ["10.0.0.1", "2001:db8::1"] {
            let alone = told(&[], ip, true);
            assert_eq!(told(&[("X-Forwarded-For", " ")], ip, true), alone);
            assert_eq!(told(&[], ip, false), alone);
        }
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

    /// Applications read either kind of fields, so both say what the one says that came.
    #[test]
    fn both_kinds_say_what_a_trusted_proxy_says_in_one() {
        let old = [
            ("X-Forwarded-For", "203.0.113.9, 2001:db8::7, what"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "www.example.org"),
        ];
        let ours = "for=192.0.2.7;host=\"a.test:81\";proto=https";
        assert_eq!(
            told(&old, "192.0.2.7", true),
            format!(
                "Forwarded: for=203.0.113.9;host=\"www.example.org\";proto=https, for=\"[2001:db8::7]\", for=unknown, {ours}\r\n\
                 X-Forwarded-For: 203.0.113.9, 2001:db8::7, what, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\
                 X-Forwarded-Host: www.example.org\r\n"
            )
        );
        let new = "for=\"[2001:db8::7]:4711\";proto=http;host=\"b.test:8\", For=203.0.113.9, by=x, for=\"a,b\"";
        assert_eq!(
            told(&[("Forwarded", new)], "192.0.2.7", true),
            format!(
                "Forwarded: {new}, {ours}\r\nX-Forwarded-For: 2001:db8::7, 203.0.113.9, unknown, unknown, unknown, 192.0.2.7\r\n\
                 X-Forwarded-Proto: http\r\nX-Forwarded-Host: b.test:8\r\n"
            )
        );
        let empty = [
            ("Forwarded", ""),
            ("X-Forwarded-For", " "),
            ("X-Forwarded-Host", ""),
        ];
        assert_eq!(
            told(&empty, "192.0.2.7", true),
            told(&[], "192.0.2.7", false)
        );
        let certificate = [
            ("Client-Cert", true),
            ("x-original-url", true),
            ("Remote-User", true),
        ];
        for (name, is_one) in certificate {
            assert_eq!(is_claim(name), is_one, "{name}");
        }
    }
}
