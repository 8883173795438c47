//! The header block of a request, rendered once.
//!
//! The fields that all requests of a load have in common (the server's name, what the client calls itself, what a person gave) are
//! entered into the server's table with the first request of a connection; from then on each is a byte. As browsers and nghttp2
//! do, the path is a literal every time: it would push out of the table what stays the same. Nothing enters the table later, so
//! the bytes never change. Where a server wants no table, or a request has other fields in common than the first on its
//! connection, all are literals.

use exos_http2::hpack::{STATIC, encoder};

use crate::request::Content;

/// What the fields that are entered may come to, each with 32 bytes more (RFC 7541 §4.1): half of the table that there is before
/// anything is said (§4.2). What is beyond stays a literal.
const ENTERED_LEN_MAX: usize = 2048;

/// Fields of a connection, which HTTP/2 has in frames (RFC 9113 §8.2.2), and that of the server's name (§8.3.1).
pub(crate) const NOT_SENT: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "host",
];

/// A request's header block.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it enters, as it does so.
    common: Box<[u8]>,
    first: Box<[u8]>,
    later: Box<[u8]>,
    plain: Box<[u8]>,
}

impl Block {
    /// Renders that of a request.
    pub fn new(content: &Content) -> Self {
        let own = own_fields(content);
        let common = common_fields(content);
        let mut fits = 0;
        let entered = common.iter().take_while(|(name, value)| {
            fits += name.len() + value.len() + 32;
            fits <= ENTERED_LEN_MAX
        });
        let (entered, rest) = common.split_at(entered.count());
        let mut start = Vec::new();
        encoder::push(&mut start, b":method", content.method.as_bytes());
        let scheme: &[u8] = if content.is_secured {
            b"https"
        } else {
            b"http"
        };
        encoder::push(&mut start, b":scheme", scheme);
        encoder::push(&mut start, b":path", content.target.as_bytes());
        let literals = |fields: &[(String, String)]| {
            let mut out = Vec::new();
            for (name, value) in fields {
                encoder::push(&mut out, name.as_bytes(), value.as_bytes());
            }
            out
        };
        let (mut enter, mut refer) = (Vec::new(), Vec::new());
        for (place, (name, value)) in entered.iter().enumerate() {
            encoder::push_kept(&mut enter, name.as_bytes(), value.as_bytes());
            // What was entered last is the first behind the static table (RFC 7541 §2.3.3).
            encoder::push_indexed(&mut refer, (STATIC.len() + entered.len() - place) as u32);
        }
        let tail = [literals(rest), literals(&own)].concat();
        let whole = |middle: &[u8]| [&start, middle, &tail].concat().into_boxed_slice();
        Self {
            first: whole(&enter),
            later: whole(&refer),
            plain: whole(&literals(entered)),
            common: enter.into_boxed_slice(),
        }
    }

    /// What the first request on a connection enters into the server's table.
    pub(super) fn common(&self) -> &[u8] {
        &self.common
    }

    /// The bytes of the first request on a connection.
    pub(super) fn first(&self) -> &[u8] {
        &self.first
    }

    /// The bytes where what it has in common with others was entered.
    pub(super) fn later(&self) -> &[u8] {
        &self.later
    }

    /// The bytes without a table.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }
}

/// What other requests of a load have too, in the order of a block.
pub(crate) fn common_fields(content: &Content) -> Vec<(String, String)> {
    let own_host = content.header("host").unwrap_or(&content.host);
    let mut fields = vec![(":authority".to_owned(), own_host.to_owned())];
    if content.header("user-agent").is_none() {
        fields.push(("user-agent".to_owned(), "exos-load".to_owned()));
    }
    for (name, value) in &content.headers {
        let name = name.to_ascii_lowercase();
        if !NOT_SENT.contains(&&name[..]) {
            fields.push((name, value.clone()));
        }
    }
    fields
}

/// What belongs to one request.
pub(crate) fn own_fields(content: &Content) -> Vec<(String, String)> {
    let length = content.body.as_ref().map(Vec::len);
    let says = content.header("content-length").is_some();
    let length = length.filter(|_| !says).map(|length| length.to_string());
    length
        .map(|length| ("content-length".to_owned(), length))
        .into_iter()
        .collect()
}
