//! The frames of a request, rendered once: all of its fields are literals or entries of the fixed table (RFC 9204 §3.1), so they are the
//! same on every connection.

use bytes::Bytes;
use exos_http3::frame::{kind, push_head};
use exos_http3::qpack::encoder;

use crate::http2::{common_fields, own_fields};
use crate::request::Content;

/// Those of a request.
pub(crate) fn frames(content: &Content) -> Bytes {
    let mut section = Vec::new();
    encoder::begin(&mut section);
    let mut field = |name: &str, value: &str| {
        encoder::push(&mut section, name.as_bytes(), value.as_bytes());
    };
    field(":method", &content.method);
    field(":scheme", "https");
    field(":path", &content.target);
    for (name, value) in common_fields(content).iter().chain(&own_fields(content)) {
        field(name, value);
    }
    let mut out = Vec::new();
    push_head(&mut out, kind::HEADERS, section.len() as u64);
    out.extend(section);
    if let Some(body) = content.body.as_ref().filter(|body| !body.is_empty()) {
        push_head(&mut out, kind::DATA, body.len() as u64);
        out.extend_from_slice(body);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Version;
    use exos_http3::heads::Heads;
    use exos_http3::request::{Part, Reader};

    #[test]
    fn a_server_reads_what_was_asked() {
        let content = Content {
            method: "PUT".to_owned(),
            version: Version::Http3,
            headers: vec![
                ("X-A".to_owned(), "1".to_owned()),
                ("Host".to_owned(), "b".to_owned()),
            ],
            body: Some(b"12345".to_vec()),
            ..Content::get(&"https://a:81/p?q".parse().unwrap())
        };
        let frames = frames(&content);
        let mut reader = Reader::default();
        let mut kept = Heads::default();
        let (taken, Some(Part::Head(head))) = reader.receive(&frames, &mut kept).unwrap() else {
            panic!("a head");
        };
        let request = head.request();
        assert_eq!(
            (request.method(), request.path()),
            ("PUT", Some(&b"/p?q"[..]))
        );
        assert_eq!(
            (request.authority(), request.length()),
            (Some(&b"b"[..]), Some(5))
        );
        let fields: Vec<&str> = request.fields().map(|(name, _)| name).collect();
        assert_eq!(fields, ["user-agent", "x-a", "content-length"]);
        let part = reader.receive(&frames[taken..], &mut kept);
        let (_, Some(Part::Data(body))) = part.unwrap() else {
            panic!("a body");
        };
        assert_eq!((body, reader.end()), (&b"12345"[..], Ok(())));
    }
}
