//! The head of a request for an upstream, written again from what was understood of the client's.
//!
//! - The target goes on as it came, but as a path, without scheme and host, if nobody can take it for another path than the one that was
//!   judged here; else decoded, resolved and encoded again, as it is where the upstream's address has a path, with that in the place of
//!   the rule's.
//! - Fields go on in their order, but those about the connection (RFC 9110 §7.6.1), those that Connection names, and names with
//!   other characters than letters, digits and hyphens: an application may take `X_Forwarded_For` for `X-Forwarded-For`.
//! - Host, the body's length, Via, [what is told of the client](super::forwarded) and of its session of TLS, and [what the rule
//!   sets](super::setting), are ours to write. What a client itself sends in a field of the last two never goes on, from a trusted proxy
//!   neither. Expect was answered here.

use std::net::IpAddr;

use httparse::Header;

use super::forwarded::{self, Client};
use super::{HostField, Proxy, setting};
use crate::applications::application::{Address, Place};
use crate::applications::head::{fields_named, is_hop_by_hop, push_field};
use crate::applications::passing::passes;
use crate::applications::rules::Asked;
use crate::applications::trailers;
use crate::applications::variables::local_part;
use crate::message::Version;
use crate::message::request::{Body, Method, Request, list};
use crate::message::target::encode;

/// What is known of a request beside its head.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is asked of the upstream.
    pub asked: &'a Asked,
    /// How it is asked.
    pub proxy: &'a Proxy,
    /// Which one it is.
    pub to: &'a Address,
    /// Who asks.
    pub peer: IpAddr,
    /// The length of the body, if the request has one.
    pub length: Option<u64>,
    /// It comes in chunks, for there are fields behind it.
    pub is_chunked: bool,
    /// It came by HTTPS.
    pub is_encrypted: bool,
    /// It came before the handshake of that was over.
    pub is_early: bool,
    /// By this session.
    pub tls: Option<&'a exos_tls::About>,
    /// What it is sent in Sec-WebSocket-Key, where its client has said nothing there.
    pub websocket_key: Option<&'a str>,
    /// The connection is to stay open behind the answer.
    pub keeps: bool,
    /// By which the upstream is asked whether what is kept still holds, instead of those of the client.
    pub validators: Option<Validators<'a>>,
}

/// The validators of a request to an upstream, instead of those of its client.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag, as it is written.
    pub tag: Option<&'a [u8]>,
    /// When it was changed, as it is written.
    pub modified: Option<&'a [u8]>,
}

/// The fields of a request that an upstream is sent as they came.
#[derive(Clone, Copy, Debug)]
pub struct Sent<'f, 'b> {
    /// All fields of the request.
    pub fields: &'f [Header<'b>],
    /// It is from a proxy that is believed.
    pub is_trusted: bool,
    /// The names of those that do not go on, for the rule says what they are.
    pub withheld: &'f [String],
}

impl<'f, 'b> Sent<'f, 'b> {
    /// Those with this name.
    pub fn named(self, name: &str) -> impl Iterator<Item = &'f Header<'b>> {
        let named = self.fields.iter();
        let named = named.filter(move |it| it.name.eq_ignore_ascii_case(name));
        let is_withheld = self.withheld.iter().any(|it| it.eq_ignore_ascii_case(name));
        let named = named.filter(move |_| !is_withheld);
        named.filter(move |field| goes_on(self.fields, field, self.is_trusted))
    }
}

/// Appends the head of a request for an upstream.
pub fn push(out: &mut Vec<u8>, request: &Request<'_, '_>, about: &About<'_>) {
    let (target, authority) = local_part(request.target);
    let host = authority.or(request.host);
    out.extend_from_slice(request.method_name.as_bytes());
    out.push(b' ');
    push_target(out, target, about.asked, about.proxy);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    push_host(out, host, about);
    let protocols = upgrade(request).filter(|_| about.proxy.upgrades);
    let wants_trailers = trailers::are_wanted(request);
    let own = match &protocols {
        Some(_) => Some("upgrade"),
        None => (!about.keeps).then_some("close"),
    };
    let options: Vec<&str> = own
        .into_iter()
        .chain(wants_trailers.then_some("TE"))
        .collect();
    if !options.is_empty() {
        push_field(out, "Connection", options.join(", ").as_bytes());
    }
    if wants_trailers {
        push_field(out, "TE", b"trailers");
    }
    if let Some(protocols) = protocols {
        push_field(out, "Upgrade", &protocols);
        if let Some(key) = about.websocket_key {
            push_field(out, "Sec-WebSocket-Key", key.as_bytes());
        }
    }
    let peer = about.peer.to_canonical();
    let is_trusted = about.proxy.trusted.iter().any(|it| it.contains(peer));
    for field in request.fields.iter() {
        let is_replaced = about.validators.is_some() && is_validator(field.name);
        let is_told = about.proxy.is_told(field.name) || about.proxy.sets(field.name);
        // What a proxy before us says of its client holds for ours.
        let is_said = about.is_early && field.name.eq_ignore_ascii_case("early-data");
        let is_key =
            about.websocket_key.is_some() && field.name.eq_ignore_ascii_case("sec-websocket-key");
        let is_ours = is_replaced || is_told || is_said || is_key;
        if goes_on(request.fields, field, is_trusted) && !is_ours {
            push_field(out, field.name, field.value);
        }
    }
    if let Some(validators) = &about.validators {
        let of_tag = validators.tag.map(|tag| ("If-None-Match", tag));
        let of_time = validators.modified.map(|time| ("If-Modified-Since", time));
        let all = [of_tag, of_time].into_iter().flatten();
        all.for_each(|(name, value)| push_field(out, name, value));
    }
    if let Some(left) = max_forwards(request) {
        let left = left.saturating_sub(1).to_string();
        push_field(out, "Max-Forwards", left.as_bytes());
    }
    let client = Client {
        fields: request.fields,
        ip: peer,
        host,
        is_encrypted: about.is_encrypted,
        is_trusted,
    };
    forwarded::push(out, &client);
    if about.is_early {
        push_field(out, "Early-Data", b"1"); // RFC 8470 §5.1.
    }
    for (name, fact) in &about.proxy.tls_fields {
        if let Some(value) = about.tls.and_then(|tls| fact.value(tls, about.is_early)) {
            push_field(out, name, value.as_bytes());
        }
    }
    setting::push(out, &about.proxy.set, &client);
    // RFC 9110 §7.6.3: behind those of proxies before us.
    let version = request.version.name();
    let version = version.strip_prefix("HTTP/").unwrap_or(version);
    out.extend_from_slice(b"Via: ");
    out.extend_from_slice(version.as_bytes());
    out.extend_from_slice(b" exos\r\n");
    // §8.6: who takes content is told that there is none.
    let takes_content = !matches!(request.method_name, "GET" | "HEAD" | "OPTIONS" | "DELETE");
    if about.is_chunked {
        push_field(out, "Transfer-Encoding", b"chunked");
    } else if let Some(length) = about.length.or(takes_content.then_some(0)) {
        push_field(out, "Content-Length", length.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// The protocols to which a client wants to change, as a list; nothing where it wants none that can be passed on: HTTP/2 would be
/// requests that nobody here has judged, and a request with a body is not over yet.
pub fn upgrade(request: &Request<'_, '_>) -> Option<Vec<u8>> {
    let is_asked = is_hop_by_hop(request.fields, "upgrade") && request.version != Version::Http10;
    if !is_asked || request.body != Body::Length(0) {
        return None;
    }
    let protocols = fields_named(request.fields, "upgrade").flat_map(|field| list(field.value));
    let is_http = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        name.starts_with(b"h2") || name.starts_with(b"http") || name.starts_with(b"tls")
    };
    let others: Vec<&[u8]> = protocols.filter(|name| !is_http(name)).collect();
    (!others.is_empty()).then(|| others.join(&b", "[..]))
}

/// Whether a field goes on that is behind the body: none by which an upstream would learn who asks.
pub fn goes_on_behind(name: &str, proxy: &Proxy) -> bool {
    passes(name)
        && !forwarded::is_written(name)
        && !forwarded::is_claim(name)
        && !proxy.is_told(name)
        && !proxy.sets(name)
}

/// Whether a request wants to change to a protocol that is passed on.
pub fn upgrades(request: &Request<'_, '_>, proxy: Option<&Proxy>) -> bool {
    let may_change = proxy.is_some_and(|proxy| proxy.upgrades);
    may_change && request.has_upgrade && upgrade(request).is_some()
}

/// Whether what the lines of an answer change to is among the protocols that a request has offered (RFC 9110 §7.8).
pub fn offers(request: &Request<'_, '_>, lines: &[u8]) -> bool {
    let offered = upgrade(request).unwrap_or_default();
    let values = lines.split(|&b| b == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&b| b == b':')?;
        let is_upgrade = line[..colon].eq_ignore_ascii_case(b"upgrade");
        is_upgrade.then(|| &line[colon + 1..])
    });
    let mut chosen = values.flat_map(list).peekable();
    chosen.peek().is_some()
        && chosen.all(|it| list(&offered).any(|offer| offer.eq_ignore_ascii_case(it)))
}

/// How often a request may still be passed on, if it says so (RFC 9110 §7.6.2): only OPTIONS does, of what is passed on.
pub fn max_forwards(request: &Request<'_, '_>) -> Option<u64> {
    let mut said = fields_named(request.fields, "max-forwards");
    let said = said.next().filter(|_| request.method == Method::Options)?;
    let digits = str::from_utf8(said.value.trim_ascii()).ok()?;
    digits.parse().ok()
}

/// Appends the target of a request for an upstream.
pub fn push_target(out: &mut Vec<u8>, target: &[u8], asked: &Asked, proxy: &Proxy) {
    if let Some(base) = &proxy.base {
        let question = target.iter().position(|&b| b == b'?');
        let query = question.map(|at| &target[at + 1..]);
        let path = [base.as_bytes(), &*asked.info].concat();
        let path: &[u8] = if path.is_empty() { b"/" } else { &path };
        return out.extend(encode_alone(path, query).into_bytes());
    }
    let (path, query) = match target.iter().position(|&b| b == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    if !proxy.raw && !path.is_empty() && path != b"*" && !is_plain(path) {
        let path = [&*asked.script, &*asked.info].concat();
        return out.extend(encode_alone(&path, query).into_bytes());
    }
    // RFC 9112 §3.2.1: an empty path is sent as "/".
    if !target.starts_with(b"/") {
        out.push(b'/');
    }
    out.extend_from_slice(target);
}

/// Whether nobody can take a path for another one than it was judged as here: no segment is empty or of dots, and nothing that
/// separates segments or makes dots is encoded.
fn is_plain(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| {
        let name = segment.split(|&b| b == b';').next();
        matches!(name, Some(b"." | b".."))
    };
    let mut inner = path.split(|&b| b == b'/').skip(1).peekable();
    while let Some(segment) = inner.next() {
        // Behind the last slash there may be nothing.
        if is_dots(segment) || segment.is_empty() && inner.peek().is_some() {
            return false;
        }
    }
    let is_hidden = |code: &[u8]| {
        if code[0] != b'%' {
            return false;
        }
        let code = code.to_ascii_lowercase();
        matches!(&*code, b"%2e" | b"%2f" | b"%5c")
    };
    !path.contains(&b'\\') && !path.windows(3).any(is_hidden)
}

/// A resolved path as it is sent. Servers of Java take what is behind a semicolon off a segment, and may find dots then.
fn encode_alone(path: &[u8], query: Option<&[u8]>) -> String {
    let mut out = encode(path, None);
    if out.contains("/.;") || out.contains("/..;") {
        out = out.replace(';', "%3B");
    }
    if let Some(query) = query {
        out.push('?');
        out.push_str(encode(b"", Some(query)).trim_start_matches('?'));
    }
    out
}

fn push_host(out: &mut Vec<u8>, host: Option<&[u8]>, about: &About<'_>) {
    match (&about.proxy.host, host) {
        (HostField::Named(name), _) => push_field(out, "Host", name.as_bytes()),
        (HostField::Client, Some(host)) => push_field(out, "Host", host),
        // A request of HTTP/1.0 may have none.
        (HostField::Client | HostField::Upstream, _) => {
            let by_default = match about.to {
                Address::Https(..) => 443,
                _ => 80,
            };
            let own = match about.to.of_http() {
                Some(Place::Tcp(at)) if at.port() == by_default => match at.ip() {
                    IpAddr::V4(ip) => ip.to_string(),
                    IpAddr::V6(ip) => format!("[{ip}]"),
                },
                Some(Place::Tcp(at)) => at.to_string(),
                _ => "localhost".to_owned(),
            };
            push_field(out, "Host", own.as_bytes());
        }
    }
}

/// Whether a field asks whether there is another version (RFC 9111 §4.3.1).
fn is_validator(name: &str) -> bool {
    let validators = ["if-none-match", "if-modified-since"];
    validators.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether a field means nothing to a proxy, and none is written here of this name: a rule may have one written.
pub fn is_free(name: &str) -> bool {
    let is_written = [
        "early-data",
        "http2-settings",
        "max-forwards",
        "sec-websocket-key",
        "via",
    ];
    !name.is_empty()
        && passes(name)
        && !is_written.iter().any(|it| it.eq_ignore_ascii_case(name))
        && !forwarded::is_written(name)
        && !is_validator(name)
}

/// Whether a field goes on as it came.
fn goes_on(fields: &[Header<'_>], field: &Header<'_>, is_trusted: bool) -> bool {
    let name = field.name;
    // They are about the connection, and written here.
    let is_ours = ["http2-settings", "max-forwards"]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(name));
    let is_claim = forwarded::is_written(name) || !is_trusted && forwarded::is_claim(name);
    passes(name) && !is_ours && !is_claim && !is_hop_by_hop(fields, name)
}

#[cfg(test)]
#[path = "request/tests.rs"]
mod tests;
