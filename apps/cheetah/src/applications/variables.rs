//! A request as variables of CGI/1.1 (RFC 3875 §4.1), and those beside that PHP and others look for.

use std::net::{IpAddr, SocketAddr};

use super::passing::passes;
use super::record::{pair, push_len};
use super::rules::Asked;
use crate::message::request::Request;
use crate::message::text::{push_address, push_number};
use crate::secure::Fact;

/// What is the same of all requests.
const OF_ALL: &[u8] =
    b"\x11\x07GATEWAY_INTERFACECGI/1.1\x0f\x04SERVER_SOFTWAREexos\x0f\x03REDIRECT_STATUS200";

/// Those that tell of a request where they are known, but of its TLS and its header fields.
const OF_REQUESTS: &[&str] = &[
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Whether a variable of this name tells of a request, so that nothing else may.
pub(crate) fn tells_of_requests(name: &str) -> bool {
    let of_tls = || Fact::ALL.iter().any(|fact| fact.variable() == name);
    name.starts_with("HTTP_") || OF_REQUESTS.contains(&name) || of_tls()
}

/// Our end of a connection, and the client's.
pub type Ends = (SocketAddr, SocketAddr);

/// What is known of a request beside its head and its connection.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is asked of the application.
    pub asked: &'a Asked,
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

/// Appends the variables of a connection, which are the same for all its requests.
pub fn push_ends(out: &mut Vec<u8>, (ours, theirs): Ends) {
    let mut text = Vec::new();
    for (end, address, port) in [
        (ours, "SERVER_ADDR", "SERVER_PORT"),
        (theirs, "REMOTE_ADDR", "REMOTE_PORT"),
    ] {
        text.clear();
        push_address(&mut text, end.ip());
        pair(out, address.as_bytes(), &[&text]);
        pair(out, port.as_bytes(), &[shown(&mut text, end.port().into())]);
    }
}

/// Appends our address, as the name of a server that is asked by none.
pub fn push_address_as_name(out: &mut Vec<u8>, address: IpAddr) {
    let mut text = Vec::new();
    push_address(&mut text, address);
    pair(out, b"SERVER_NAME", &[&text]);
}

/// Appends the variables of a request, but those of its connection. False where neither the site nor its client says by which name it is asked:
/// it is [our address](push_address_as_name) then.
pub fn push(out: &mut Vec<u8>, request: &Request<'_, '_>, about: &About<'_>) -> bool {
    let About {
        asked,
        length,
        server_name,
        user,
        is_encrypted,
        is_early,
        tls,
    } = *about;
    let root = &asked.application.root;
    let (uri, authority) = local_part(request.target);
    let query = uri
        .iter()
        .position(|&b| b == b'?')
        .map_or(&b""[..], |at| &uri[at + 1..]);
    out.extend_from_slice(OF_ALL);
    let mut pairs = Pairs::new(out);
    pairs.put(b"SERVER_PROTOCOL", [request.version.name().as_bytes()]);
    let host = authority.or(request.host);
    // What a client says of the host counts only where the site does not say who it is.
    let of_client = host.map(name_of).filter(|name| !name.is_empty());
    let name = server_name.or(of_client);
    if let Some(name) = name {
        pairs.put(b"SERVER_NAME", [name]);
    }
    if let Some(user) = user {
        pairs.put(b"AUTH_TYPE", [b"Basic"]);
        pairs.put(b"REMOTE_USER", [user]);
    }
    if is_encrypted {
        pairs.put(b"HTTPS", [b"on"]);
    }
    if let Some(about) = tls {
        for fact in Fact::ALL {
            if let Some(value) = fact.value(about, is_early) {
                pairs.pair(fact.variable().as_bytes(), value.as_bytes());
            }
        }
    }
    let scheme: &[u8] = if is_encrypted { b"https" } else { b"http" };
    pairs.put(b"REQUEST_SCHEME", [scheme]);
    pairs.put(b"REQUEST_METHOD", [request.method_name.as_bytes()]);
    // RFC 9112 §3.2.1: an empty path is sent as "/".
    let has_path = !uri.is_empty() && !uri.starts_with(b"?");
    let slash: &[u8] = if has_path { b"" } else { b"/" };
    pairs.put(b"REQUEST_URI", [slash, uri]);
    pairs.put(b"DOCUMENT_ROOT", [root]);
    pairs.put(b"DOCUMENT_URI", [&asked.script, &asked.info]);
    pairs.put(b"SCRIPT_NAME", [&asked.script]);
    pairs.put(b"SCRIPT_FILENAME", [root, &asked.script]);
    if !asked.info.is_empty() {
        pairs.put(b"PATH_INFO", [&asked.info]);
        pairs.put(b"PATH_TRANSLATED", [root, &asked.info]);
    }
    let mut types = request
        .fields
        .iter()
        .filter(|f| f.name.eq_ignore_ascii_case("content-type"));
    let content_type = types.next().map_or(&b""[..], |field| field.value);
    if query.is_empty() && length.is_none() && content_type.is_empty() {
        pairs.put_all(WITHOUT_QUERY_AND_BODY);
    } else {
        let length = length.map_or(String::new(), |length| length.to_string());
        pairs.put(b"QUERY_STRING", [query]);
        pairs.put(b"CONTENT_LENGTH", [length.as_bytes()]);
        pairs.put(b"CONTENT_TYPE", [content_type]);
    }
    if let Some(host) = host {
        pairs.put(b"HTTP_HOST", [host]);
    }
    if is_early {
        pairs.put(b"HTTP_EARLY_DATA", [b"1"]); // RFC 8470 §5.1.
    }
    pairs.end();
    out.extend_from_slice(&asked.application.parameters);
    push_fields(out, request, is_early);
    name.is_some()
}

/// Pairs that are put side by side before they are appended: most are short, and asking for memory for each part of each takes as long as all else.
struct Pairs<'o> {
    out: &'o mut Vec<u8>,
    bytes: [u8; PAIRS_LEN],
    len: usize,
}

/// As long as those of a request without long names and paths.
const PAIRS_LEN: usize = 512;

/// What is the same of all that have neither a query nor a body.
const WITHOUT_QUERY_AND_BODY: &[u8; 44] =
    b"\x0c\x00QUERY_STRING\x0e\x00CONTENT_LENGTH\x0c\x00CONTENT_TYPE";

impl<'o> Pairs<'o> {
    fn new(out: &'o mut Vec<u8>) -> Pairs<'o> {
        Pairs {
            out,
            bytes: [0; PAIRS_LEN],
            len: 0,
        }
    }

    /// Puts another behind them, whose value is these one behind the other.
    #[inline(always)]
    fn put<const L: usize, const N: usize>(&mut self, name: &[u8; L], value: [&[u8]; N]) {
        let value_len: usize = value.iter().map(|part| part.len()).sum();
        let room = self.bytes[self.len..].split_at_mut_checked(2 + L + value_len);
        let is_short = L < 0x80 && value_len < 0x80;
        let Some((room, _)) = room.filter(|_| is_short) else {
            self.append();
            return pair(self.out, name, &value);
        };
        self.len += room.len();
        let (lens, rest) = room.split_at_mut(2);
        (lens[0], lens[1]) = (L as u8, value_len as u8);
        let (place, mut rest) = rest.split_at_mut(L);
        // Of known length: no call of a function that copies any.
        if let Some(place) = place.first_chunk_mut() {
            *place = *name;
        }
        for part in value.iter().filter(|part| !part.is_empty()) {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
    }

    /// Puts pairs behind them that are written already.
    fn put_all<const L: usize>(&mut self, pairs: &[u8; L]) {
        match self.bytes[self.len..].first_chunk_mut() {
            Some(place) => {
                *place = *pairs;
                self.len += L;
            }
            None => {
                self.append();
                self.out.extend_from_slice(pairs);
            }
        }
    }

    /// Puts one behind them that few requests have.
    fn pair(&mut self, name: &[u8], value: &[u8]) {
        self.append();
        pair(self.out, name, &[value]);
    }

    fn append(&mut self) {
        self.out.extend_from_slice(&self.bytes[..self.len]);
        self.len = 0;
    }

    /// All of them are there.
    fn end(mut self) {
        self.append();
    }
}

/// A number in a text that is used again.
fn shown(text: &mut Vec<u8>, number: u64) -> &[u8] {
    text.clear();
    push_number(text, number, 1);
    text
}

/// The header fields, those of one name together (RFC 3875 §4.1.18). Where we say that a request is early, its client does not.
fn push_fields(out: &mut Vec<u8>, request: &Request<'_, '_>, is_early: bool) {
    for (at, field) in request.fields.iter().enumerate() {
        let is_named = |other: &httparse::Header<'_>| other.name.eq_ignore_ascii_case(field.name);
        let is_said = request.fields[..at].iter().any(is_named);
        let is_ours = is_early && field.name.eq_ignore_ascii_case("early-data");
        if is_said || is_ours || !is_variable(field.name) {
            continue;
        }
        let mut others = request.fields[at + 1..].iter().filter(|f| is_named(f));
        if others.next().is_none() {
            push_field(out, field.name, field.value);
            continue;
        }
        // RFC 9113 §8.2.3: the one that is joined in another way.
        let between: &[u8] = match field.name.eq_ignore_ascii_case("cookie") {
            true => b"; ",
            false => b", ",
        };
        let values = request.fields[at..].iter().filter(|other| is_named(other));
        let values: Vec<&[u8]> = values.map(|field| field.value).collect();
        push_field(out, field.name, &values.join(between));
    }
}

/// A field of this name, in capitals and with underscores.
fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    const PREFIX: &[u8] = b"HTTP_";
    push_len(out, PREFIX.len() + name.len());
    push_len(out, value.len());
    out.extend_from_slice(PREFIX);
    out.extend(name.bytes().map(|b| match b {
        b'-' => b'_',
        b => b.to_ascii_uppercase(),
    }));
    out.extend_from_slice(value);
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
