//! Requests that come in fields of HTTP/2, and fields that leave in header blocks of it (RFC 9113 §8).
//!
//! A request is to all that answers it what it is when it comes as text. Where it has to be kept, it is kept as the text that HTTP/1.1
//! has for it.

use exos_http2::fields::Fields;
use exos_http2::hpack::encoder;
use exos_http2::message::RequestHead;
use httparse::{EMPTY_HEADER, Header};

use super::fault::Fault;
use super::request::{Body, FieldStore, Noted, Request, method, parse};
use super::version::Version;
use crate::limits::{FIELDS_MAX, HEAD_LEN_MAX, REQUEST_LINE_LEN_MAX, TRAILER_LEN_MAX};

/// Space for the header fields of one request.
pub struct Headers<'b>([Header<'b>; FIELDS_MAX]);

impl Headers<'_> {
    /// Empty space.
    #[inline]
    pub fn new() -> Self {
        Headers([EMPTY_HEADER; FIELDS_MAX])
    }
}

/// The request that a stream begins with; `is_end` where no body follows.
///
/// # Errors
///
/// The fault to answer with.
pub fn request<'b, 'f>(
    head: &RequestHead<'b>,
    is_end: bool,
    headers: &'f mut Headers<'b>,
) -> Result<Request<'b, 'f>, Fault> {
    let authority = head.authority();
    let host = authority.map(|value| Header {
        name: "host",
        value,
    });
    let protocol = head.protocol();
    let others = head.fields().map(|(name, value)| Header { name, value });
    let others = others.filter(|field| authority.is_none() || field.name != "host");
    let is_chunked = !is_end && head.length().is_none() && protocol.is_none();
    // What says so in the text is a field, too.
    let count_max = FIELDS_MAX - usize::from(is_chunked);
    let (mut count, mut len) = (0, 0);
    let mut noted = Noted::default();
    for field in host.into_iter().chain(upgrade(protocol)).chain(others) {
        if count == count_max {
            return Err(Fault::TooManyFields);
        }
        headers.0[count] = field;
        count += 1;
        len += field.name.len() + field.value.len() + ": \r\n".len();
        noted.note(&field)?;
    }
    // Of a tunnel it is the host that is asked for.
    let target = head.path().or(authority).unwrap_or_default();
    // What HTTP/1.1 refuses: a target that is no text.
    if str::from_utf8(target).is_err() {
        return Err(Fault::RequestLine);
    }
    let method_name = match protocol {
        Some(_) => UPGRADING,
        None => head.method(),
    };
    if method_name.len() + target.len() > REQUEST_LINE_LEN_MAX - " HTTP/1.1 \r\n".len() {
        return Err(Fault::TargetTooLong);
    }
    if len + method_name.len() + target.len() > HEAD_LEN_MAX - 1024 {
        return Err(Fault::HeadTooLong);
    }
    // The text has a field more where no length is said.
    if is_chunked && count == FIELDS_MAX {
        return Err(Fault::TooManyFields);
    }
    if noted.host.is_none() {
        return Err(Fault::HostMissing);
    }
    Ok(Request {
        method: method(method_name),
        method_name,
        target,
        host: noted.host,
        version: Version::Http2,
        head_len: 0,
        // A length of 0 may be said of a stream that ends with a frame of its own.
        body: match (is_end, head.length()) {
            _ if protocol.is_some() => Body::Length(0),
            (true, _) => Body::Length(0),
            (false, Some(length)) => Body::Length(length),
            (false, None) => Body::Chunked,
        },
        persistent: true,
        expects_continue: noted.expects_continue,
        expects_unknown: noted.expects_unknown,
        conditional: noted.conditional,
        has_upgrade: noted.upgrade,
        fields: &headers.0[..count],
    })
}

/// The method of a request of HTTP/1.1 that changes to another protocol (RFC 8441 §5).
pub(super) const UPGRADING: &str = "GET";

/// The fields by which HTTP/1.1 asks for a change to a protocol (RFC 9110 §7.8): none on a stream has these names.
pub(super) fn upgrade(protocol: Option<&[u8]>) -> impl Iterator<Item = Header<'_>> {
    let fields = protocol.map(|protocol| [("connection", &b"upgrade"[..]), ("upgrade", protocol)]);
    let fields = fields.into_iter().flatten();
    fields.map(|(name, value)| Header { name, value })
}

/// A request as text. A body without a length is said to be chunked. Nothing where the text would not be that of this request: what is sent
/// on is of what was judged, or of nothing.
///
/// # Errors
///
/// The fault to answer with.
pub fn head_text(request: &Request<'_, '_>) -> Result<Vec<u8>, Fault> {
    let text = written(request);
    let mut store = FieldStore::new();
    let parsed = parse(&text, &mut store)?.ok_or(Fault::FieldSyntax)?;
    let same = parsed.head_len == text.len()
        && (parsed.method_name, parsed.target) == (request.method_name, request.target)
        && (parsed.host, parsed.body) == (request.host, request.body);
    match same {
        true => Ok(text),
        false => Err(Fault::FieldSyntax),
    }
}

fn written(request: &Request<'_, '_>) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    for part in [
        request.method_name.as_bytes(),
        b" ",
        request.target,
        b" HTTP/1.1\r\n",
    ] {
        text.extend_from_slice(part);
    }
    // RFC 9113 §8.2.3: browsers send each crumb of a cookie by itself; HTTP/1.1 has one field of them.
    let is_cookie = |field: &&Header<'_>| field.name == "cookie";
    let crumbs: Vec<&[u8]> = request
        .fields
        .iter()
        .filter(is_cookie)
        .map(|it| it.value)
        .collect();
    if !crumbs.is_empty() {
        for part in [b"cookie: ", &crumbs.join(&b"; "[..])[..], b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    for field in request.fields.iter().filter(|field| !is_cookie(field)) {
        for part in [field.name.as_bytes(), b": ", field.value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    if request.body == Body::Chunked {
        text.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// The header blocks of answers before the last one (RFC 9110 §15.2), which this text holds one behind the other.
pub fn interim_blocks(mut text: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    while let Some(end) = text.windows(4).position(|it| it == b"\r\n\r\n") {
        let (head, behind) = text.split_at(end + 4);
        text = behind;
        let line_end = head.iter().position(|&b| b == b'\n').unwrap_or(0);
        let status = head.split(|&b| b == b' ').nth(1).unwrap_or_default();
        let mut block = Vec::new();
        encoder::push(&mut block, b":status", status);
        push_lines(&mut block, &head[line_end + 1..]);
        blocks.push(block);
    }
    blocks
}

/// Fields as lines, as they are behind a chunked body: names are tokens, and values have no line ends. Where not all of them were kept the
/// lines are more than is taken behind a body, so that who reads that refuses it, and nobody goes on with some of them.
pub fn lines_of(fields: &Fields) -> Vec<u8> {
    let mut lines = Vec::new();
    if fields.is_too_long() {
        lines.extend_from_slice(b"x: ");
        lines.resize(TRAILER_LEN_MAX, b'x');
        lines.extend_from_slice(b"\r\n");
        return lines;
    }
    for (name, value) in fields.iter() {
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    lines
}

/// Appends to a header block the fields of these lines, up to an empty one.
pub fn push_lines(block: &mut Vec<u8>, lines: &[u8]) {
    let mut name = Vec::new();
    for line in lines.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|&b| b == b':') else {
            return;
        };
        name.clear();
        name.extend(line[..colon].iter().map(u8::to_ascii_lowercase));
        encoder::push(block, &name, line[colon + 1..].trim_ascii());
    }
}

#[cfg(test)]
mod tests {
    use exos_http2::connection::{Connection, Event};
    use exos_http2::frame;
    use exos_http2::hpack::Decoder;

    use super::*;

    /// What a server is told of a request with these fields.
    fn with_request(
        fields: &[(&str, &str)],
        is_end: bool,
        check: impl FnOnce(Result<&Request, Fault>),
    ) {
        let fields: Vec<(&[u8], &[u8])> = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        assert!(offer(&fields, is_end, check), "a request");
    }

    /// Has a server hear of a request with these fields; false when it is none by the rules of HTTP/2.
    fn offer(
        fields: &[(&[u8], &[u8])],
        is_end: bool,
        check: impl FnOnce(Result<&Request, Fault>),
    ) -> bool {
        let (mut bytes, mut block) = (frame::PREFACE.to_vec(), Vec::new());
        frame::push_settings(&mut bytes, &[]);
        for (name, value) in fields {
            encoder::push(&mut block, name, value);
        }
        frame::push_headers(&mut bytes, 1, &[&block], is_end, 16_384);
        let mut out = Vec::new();
        let mut connection = Connection::server(&mut out);
        let mut at = 0;
        for _ in 0..2 {
            at += connection.receive(&bytes[at..], &mut out).unwrap().0;
        }
        let Ok((_, event)) = connection.receive(&bytes[at..], &mut out) else {
            return false;
        };
        let Some(Event::Request { head, is_end, .. }) = event else {
            return false;
        };
        let mut headers = Headers::new();
        check(
            request(&head, is_end, &mut headers)
                .as_ref()
                .map_err(|fault| *fault),
        );
        true
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/a?b"),
        (":authority", "here:8443"),
    ];

    #[test]
    fn a_request_is_what_its_text_is() {
        let more = [
            ("host", "here:8443"),
            ("range", "bytes=0-1"),
            ("expect", "100-continue"),
        ];
        let fields = [&GET[..], &more].concat();
        with_request(&fields, true, |request| {
            let request = request.unwrap();
            assert_eq!(
                (request.method, request.target),
                (super::super::request::Method::Get, &b"/a?b"[..])
            );
            assert_eq!(request.host, Some(&b"here:8443"[..]));
            assert!(request.conditional && request.expects_continue);
            assert_eq!((request.body, request.fields.len()), (Body::Length(0), 3));
            let text = head_text(request).unwrap();
            let mut store = FieldStore::new();
            let parsed = parse(&text, &mut store).unwrap().unwrap();
            assert_eq!(parsed.fields, request.fields);
            assert_eq!((parsed.target, parsed.host), (request.target, request.host));
            assert_eq!((parsed.body, parsed.head_len), (request.body, text.len()));
        });
    }

    #[test]
    fn crumbs_are_one_cookie() {
        let crumbs = [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2")];
        with_request(&[&GET[..], &crumbs].concat(), true, |request| {
            let text = String::from_utf8(head_text(request.unwrap()).unwrap()).unwrap();
            assert!(text.contains("\r\ncookie: a=1; b=2\r\n"), "{text}");
            assert_eq!(text.matches("cookie").count(), 1);
        });
    }

    #[test]
    fn bodies_have_a_length_or_come_in_chunks() {
        let post = [("content-length", "7")];
        with_request(&[&GET[..], &post].concat(), false, |request| {
            assert_eq!(request.unwrap().body, Body::Length(7));
        });
        with_request(&GET, false, |request| {
            let request = request.unwrap();
            assert_eq!(request.body, Body::Chunked);
            let text = head_text(request).unwrap();
            let mut store = FieldStore::new();
            assert_eq!(
                parse(&text, &mut store).unwrap().unwrap().body,
                Body::Chunked
            );
        });
    }

    /// RFC 8441 §5.
    #[test]
    fn a_tunnel_is_a_change_of_protocol() {
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            GET[1],
            GET[2],
            GET[3],
            ("sec-websocket-version", "13"),
        ];
        for is_end in [false, true] {
            with_request(&fields, is_end, |request| {
                let request = request.unwrap();
                assert!(request.is_tunnel());
                assert_eq!(request.body, Body::Length(0));
                let text = String::from_utf8(head_text(request).unwrap()).unwrap();
                let wanted = "GET /a?b HTTP/1.1\r\nhost: here:8443\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                              sec-websocket-version: 13\r\n\r\n";
                assert_eq!(text, wanted);
                let mut store = FieldStore::new();
                let parsed = parse(text.as_bytes(), &mut store).unwrap().unwrap();
                assert!(!parsed.is_tunnel() && parsed.has_upgrade, "of HTTP/1.1");
                assert!(parsed.asked_by(Version::Http3).is_tunnel());
            });
        }
        with_request(&GET, true, |request| assert!(!request.unwrap().is_tunnel()));
    }

    /// What says that a body comes in chunks is a field of the text: with it there are as many as there may be.
    #[test]
    fn the_longest_text_is_that_of_its_request() {
        for (count, is_sound) in [(62, true), (63, false)] {
            let more = vec![("x", "y"); count];
            with_request(
                &[&GET[..], &more].concat(),
                false,
                |request| match request {
                    Ok(request) => assert!(is_sound && head_text(request).is_ok()),
                    Err(fault) => assert!(!is_sound && fault == Fault::TooManyFields),
                },
            );
        }
    }

    #[test]
    fn what_http_1_refuses_is_refused() {
        let long = format!("/{}", "a".repeat(9000));
        let fields = |n: usize, len: usize| vec![("x", "y".repeat(len)); n];
        let with = |more: &[(&'static str, String)]| {
            let own = GET.map(|(name, value)| (name, value.to_owned()));
            [&own[..], more].concat()
        };
        let path = GET.map(|(name, value)| match name {
            ":path" => (name, long.clone()),
            _ => (name, value.to_owned()),
        });
        let host = GET.map(|(name, value)| match name {
            ":authority" => (name, "a b".to_owned()),
            _ => (name, value.to_owned()),
        });
        for (all, fault) in [
            (with(&fields(64, 1)), Fault::TooManyFields),
            (with(&fields(16, 1000)), Fault::HeadTooLong),
            (path.to_vec(), Fault::TargetTooLong),
            (host.to_vec(), Fault::HostInvalid),
            (with(&[])[..3].to_vec(), Fault::HostMissing),
        ] {
            let all: Vec<(&str, &str)> =
                all.iter().map(|(name, value)| (*name, &**value)).collect();
            with_request(&all, true, |request| assert_eq!(request.err(), Some(fault)));
        }
    }

    /// What is taken is taken by HTTP/1.1 too, for the request that it is: an upstream is told what that makes of the text.
    #[test]
    fn what_is_taken_has_a_text() {
        let text = |n: usize| format!("x{n}");
        let filled: Vec<String> = (0..FIELDS_MAX - 1).map(text).collect();
        let full = |count: usize| {
            let more = filled[..count].iter().map(|name| (&**name, "1"));
            let post = [(":method", "POST"), GET[1], GET[2], GET[3]];
            post.into_iter().chain(more).collect::<Vec<_>>()
        };
        let most = FIELDS_MAX - 1;
        with_request(&full(most), false, |it| {
            assert_eq!(it.err(), Some(Fault::TooManyFields));
        });
        with_request(&full(most), true, |it| {
            assert!(head_text(it.unwrap()).is_ok())
        });
        with_request(&full(most - 1), false, |it| {
            assert!(head_text(it.unwrap()).is_ok())
        });
        let long = "M".repeat(4000);
        let value = "y".repeat(1000);
        let mut fields = vec![(":method", &*long), GET[1], GET[2], GET[3]];
        fields.extend([("x", &*value); 12]);
        with_request(&fields, true, |it| {
            assert_eq!(it.err(), Some(Fault::HeadTooLong))
        });
    }

    /// Each byte in a target, a method, a name and a value: refused by both, or taken by both alike.
    #[test]
    fn each_byte_is_judged_as_by_http_1() {
        let mut taken = 0;
        for byte in 0..=u8::MAX {
            let with = |text: &[u8]| [text, &[byte]].concat();
            for (method, path, name, value) in [
                (b"GET".to_vec(), with(b"/a"), b"x".to_vec(), b"y".to_vec()),
                (with(b"GE"), b"/a".to_vec(), b"x".to_vec(), b"y".to_vec()),
                (b"GET".to_vec(), b"/a".to_vec(), with(b"x"), b"y".to_vec()),
                (b"GET".to_vec(), b"/a".to_vec(), b"x".to_vec(), with(b"y")),
                (
                    b"GET".to_vec(),
                    b"/a".to_vec(),
                    b"host".to_vec(),
                    with(b"y"),
                ),
            ] {
                let fields: [(&[u8], &[u8]); 5] = [
                    (b":method", &method),
                    (b":scheme", b"http"),
                    (b":path", &path),
                    (b":authority", b"y"),
                    (&name, &value),
                ];
                let is_taken = |request: Result<&Request, Fault>| {
                    if let Ok(request) = request {
                        assert!(head_text(request).is_ok(), "{request:?}");
                        taken += 1;
                    }
                };
                offer(&fields, false, is_taken);
            }
        }
        assert!(taken > 300, "{taken}");
    }

    #[test]
    fn each_answer_before_the_last_is_a_block() {
        let text =
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 102 \r\n\r\n";
        let mut said = Vec::new();
        for block in interim_blocks(text) {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let mut fields = Vec::new();
            let field = |name: &[u8], value: &[u8]| fields.push(text(&[name, value].join(&b'=')));
            Decoder::new(0).decode(&block, field).unwrap();
            said.push(fields.join(" "));
        }
        assert_eq!(said, [":status=103 link=</a> link=</b>", ":status=102"]);
    }

    #[test]
    fn lines_become_a_block() {
        let mut block = Vec::new();
        push_lines(
            &mut block,
            b"Content-Type: text/plain\r\nX-A:  b \r\n\r\nbody: no\r\n",
        );
        let mut fields = Vec::new();
        let field = |name: &[u8], value: &[u8]| fields.push((name.to_vec(), value.to_vec()));
        Decoder::new(0).decode(&block, field).unwrap();
        let wanted = [(&b"content-type"[..], &b"text/plain"[..]), (b"x-a", b"b")];
        assert_eq!(
            fields,
            wanted.map(|(name, value)| (name.to_vec(), value.to_vec()))
        );
    }
}
