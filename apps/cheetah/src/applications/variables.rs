//! A request as variables of CGI/1.1 (RFC 3875 §4.1), and those beside that PHP and others look for.

use std::net::SocketAddr;

use super::passing::passes;
use super::record::pair;
use super::rules::Asked;
use crate::message::request::Request;
use crate::message::text::{push_address, push_number};
use crate::secure::Fact;

/// The longest address, of IPv6 with one of IPv4 in it and a zone.
const ADDRESS_LEN_MAX: usize = 64;

/// Our end of a connection, and the client's.
pub type Ends = (SocketAddr, SocketAddr);

/// What is known of a request beside its head.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is asked of the application.
    pub asked: &'a Asked,
    /// Our end of the connection, and the client's.
    pub ends: Ends,
    /// The length of the body, if the request has one.
    pub length: Option<u64>,
    /// What the site calls itself, if it has a name of its own.
    pub server_name: Option<&'a [u8]>,
    /// Whose password let the request in, where the site's rules want one.
    pub user: Option<&'a [u8]>,
    /// It came by HTTPS.
    pub is_encrypted: bool,
    /// It came before the handshake of TLS was over.
    pub is_early: bool,
    /// By this session.
    pub tls: Option<&'a exos_tls::About>,
}

/// Appends the variables of a request.
pub fn push(out: &mut Vec<u8>, request: &Request<'_, '_>, about: &About<'_>) {
    let About {
        asked,
        ends: (ours, theirs),
        length,
        server_name,
        user,
        is_encrypted,
        is_early,
        tls,
    } = *about;
    let root = &asked.application.root;
    let (uri, authority) = local_part(request.target);
    let host = authority.or(request.host);
    let query = uri
        .iter()
        .position(|&b| b == b'?')
        .map_or(&b""[..], |at| &uri[at + 1..]);
    let mut put = |name: &str, value: &[&[u8]]| pair(out, name.as_bytes(), value);
    put("GATEWAY_INTERFACE", &[b"CGI/1.1"]);
    put("SERVER_SOFTWARE", &[b"exos"]);
    put("SERVER_PROTOCOL", &[request.version.name().as_bytes()]);
    let mut address = Vec::with_capacity(ADDRESS_LEN_MAX);
    let mut text = Vec::with_capacity(ADDRESS_LEN_MAX);
    push_address(&mut address, ours.ip());
    put("SERVER_ADDR", &[&address]);
    put("SERVER_PORT", &[shown(&mut text, ours.port().into())]);
    // What a client says of the host counts only where the site does not say who it is.
    let of_client = host.map(name_of).filter(|name| !name.is_empty());
    let name = server_name.or(of_client);
    put("SERVER_NAME", &[name.unwrap_or(&address)]);
    text.clear();
    push_address(&mut text, theirs.ip());
    put("REMOTE_ADDR", &[&text]);
    put("REMOTE_PORT", &[shown(&mut text, theirs.port().into())]);
    if let Some(user) = user {
        put("AUTH_TYPE", &[b"Basic"]);
        put("REMOTE_USER", &[user]);
    }
    if is_encrypted {
        put("HTTPS", &[b"on"]);
    }
    for fact in Fact::ALL {
        if let Some(value) = tls.and_then(|about| fact.value(about, is_early)) {
            put(fact.variable(), &[value.as_bytes()]);
        }
    }
    let scheme: &[u8] = if is_encrypted { b"https" } else { b"http" };
    put("REQUEST_SCHEME", &[scheme]);
    put("REQUEST_METHOD", &[request.method_name.as_bytes()]);
    // RFC 9112 §3.2.1: an empty path is sent as "/".
    let has_path = !uri.is_empty() && !uri.starts_with(b"?");
    let slash: &[u8] = if has_path { b"" } else { b"/" };
    put("REQUEST_URI", &[slash, uri]);
    put("QUERY_STRING", &[query]);
    put("DOCUMENT_ROOT", &[root]);
    put("DOCUMENT_URI", &[&asked.script, &asked.info]);
    put("SCRIPT_NAME", &[&asked.script]);
    put("SCRIPT_FILENAME", &[root, &asked.script]);
    if !asked.info.is_empty() {
        put("PATH_INFO", &[&asked.info]);
        put("PATH_TRANSLATED", &[root, &asked.info]);
    }
    // PHP answers nobody but a server that says so (cgi.force_redirect).
    put("REDIRECT_STATUS", &[b"200"]);
    let length = length.map_or(&b""[..], |length| shown(&mut text, length));
    put("CONTENT_LENGTH", &[length]);
    let mut types = request
        .fields
        .iter()
        .filter(|f| f.name.eq_ignore_ascii_case("content-type"));
    let content_type = types.next().map_or(&b""[..], |field| field.value);
    put("CONTENT_TYPE", &[content_type]);
    if let Some(host) = host {
        put("HTTP_HOST", &[host]);
    }
    if is_early {
        pair(out, b"HTTP_EARLY_DATA", &[b"1"]); // RFC 8470 §5.1.
    }
    push_fields(out, request, is_early);
}

/// A number in a text that is used again.
fn shown(text: &mut Vec<u8>, number: u64) -> &[u8] {
    text.clear();
    push_number(text, number, 1);
    text
}

/// The header fields, those of one name together (RFC 3875 §4.1.18). Where we say that a request is early, its client does not.
fn push_fields(out: &mut Vec<u8>, request: &Request<'_, '_>, is_early: bool) {
    const PREFIX: &[u8] = b"HTTP_";
    let mut name = PREFIX.to_vec();
    for (at, field) in request.fields.iter().enumerate() {
        let is_named = |other: &httparse::Header<'_>| other.name.eq_ignore_ascii_case(field.name);
        let is_said = request.fields[..at].iter().any(is_named);
        let is_ours = is_early && field.name.eq_ignore_ascii_case("early-data");
        if is_said || is_ours || !is_variable(field.name) {
            continue;
        }
        // RFC 9113 §8.2.3: the one that is joined in another way.
        let between: &[u8] = match field.name.eq_ignore_ascii_case("cookie") {
            true => b"; ",
            false => b", ",
        };
        name.truncate(PREFIX.len());
        name.extend(field.name.bytes().map(|b| match b {
            b'-' => b'_',
            b => b.to_ascii_uppercase(),
        }));
        let mut others = request.fields[at + 1..].iter().filter(|f| is_named(f));
        if others.next().is_none() {
            pair(out, &name, &[field.value]);
            continue;
        }
        let values = request.fields[at..].iter().filter(|other| is_named(other));
        let values: Vec<&[u8]> = values.map(|field| field.value).collect();
        pair(out, &name, &[&values.join(between)]);
    }
}

/// Whether a field has a variable of its name.
fn is_variable(name: &str) -> bool {
    passes(name) && !name.eq_ignore_ascii_case("content-type")
}

/// Path and query of a target, which is a path or a whole address, and the host of such.
pub(crate) fn local_part(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    if target.starts_with(b"/") {
        return (target, None);
    }
    let Some(colon) = target.windows(3).position(|w| w == b"://") else {
        return (target, None);
    };
    let rest = &target[colon + 3..];
    let end = rest
        .iter()
        .position(|b| matches!(b, b'/' | b'?'))
        .unwrap_or(rest.len());
    (&rest[end..], Some(&rest[..end]))
}

/// A host without its port.
fn name_of(host: &[u8]) -> &[u8] {
    let end = match host.first() {
        Some(b'[') => host.iter().position(|&b| b == b']').map(|at| at + 1),
        _ => host.iter().position(|&b| b == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

#[cfg(test)]
#[path = "variables/tests.rs"]
mod tests;
