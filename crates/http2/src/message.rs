//! What the fields of a message have to be, and the request that they make (RFC 9113 §8.2, §8.3; RFC 8441 §4).
//!
//! What breaks these rules is a fault of its stream. What HTTP itself says about a request (its target, its host) is for who answers
//! it.

use crate::fields::Fields;
use crate::priority::Priority;

/// Where in its fields a request has what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    method: u16,
    path: Option<u16>,
    authority: Option<u16>,
    protocol: Option<u16>,
    is_https: bool,
    /// Fields before this are of the protocol.
    regular_from: u16,
    /// The length of the body, where the request says it.
    pub length: Option<u64>,
    /// Which response is to come first.
    pub priority: Option<Priority>,
}

impl Layout {
    /// Another protocol is to be spoken on its stream (RFC 8441 §4).
    pub fn is_tunnel(&self) -> bool {
        self.protocol.is_some()
    }
}

/// A request whose fields keep to the rules.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    fields: &'a Fields,
    layout: Layout,
}

/// What breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl<'a> RequestHead<'a> {
    /// With a layout that was found in these fields ([`request`]).
    #[inline]
    pub fn new(fields: &'a Fields, layout: Layout) -> RequestHead<'a> {
        RequestHead { fields, layout }
    }

    /// The method: a token.
    pub fn method(&self) -> &'a str {
        text(self.fields.get(self.layout.method.into()).1)
    }

    /// Path and query, not empty; none of CONNECT without a protocol. It holds no spaces and no control characters.
    pub fn path(&self) -> Option<&'a [u8]> {
        Some(self.fields.get(self.layout.path?.into()).1)
    }

    /// The host, and perhaps a port.
    pub fn authority(&self) -> Option<&'a [u8]> {
        Some(self.fields.get(self.layout.authority?.into()).1)
    }

    /// What is to be spoken on its stream from the answer on (RFC 8441 §4): a token, of CONNECT alone.
    pub fn protocol(&self) -> Option<&'a [u8]> {
        Some(self.fields.get(self.layout.protocol?.into()).1)
    }

    /// Whether it says `https`.
    pub fn is_https(&self) -> bool {
        self.layout.is_https
    }

    /// The length of the body, if it says one.
    pub fn length(&self) -> Option<u64> {
        self.layout.length
    }

    /// All fields that are not the protocol's: names in lower case, values without line ends.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let fields = self.fields;
        let regular = usize::from(self.layout.regular_from)..fields.count();
        regular.map(|at| {
            let (name, value) = fields.get(at);
            (text(name), value)
        })
    }
}

/// Names were found to be ASCII.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

/// The layout of a request's fields (§8.3.1).
///
/// # Errors
///
/// What is wrong with them.
pub fn request(fields: &Fields) -> Result<Layout, Malformed> {
    let mut layout = Layout::default();
    let (mut method, mut scheme) = (None, None);
    let mut pseudo = fields.iter().take_while(|(name, _)| name.starts_with(b":"));
    for (at, (name, value)) in pseudo.by_ref().enumerate() {
        let at = at as u16;
        let before = match name {
            b":method" if is_token(value) => method.replace(at),
            b":scheme" if is_scheme(value) => scheme.replace(at),
            b":path" if is_target(value) => layout.path.replace(at),
            b":authority" if is_value(value) => layout.authority.replace(at),
            b":protocol" if is_token(value) => layout.protocol.replace(at),
            b":method" | b":scheme" | b":path" | b":authority" | b":protocol" => {
                return Err(Malformed("the value of a pseudo field"));
            }
            _ => return Err(Malformed("a pseudo field that no request has")),
        };
        if before.is_some() {
            return Err(Malformed("a pseudo field twice"));
        }
        layout.regular_from = at + 1;
    }
    drop(pseudo);
    layout.method = method.ok_or(Malformed("no method"))?;
    let is_connect = fields.get(layout.method.into()).1 == b"CONNECT";
    match (is_connect, layout.protocol, scheme, layout.path) {
        // RFC 9113 §8.5: a tunnel has a host, and nothing else.
        (true, None, None, None) if layout.authority.is_some() => {}
        // RFC 8441 §4: one in which a protocol is spoken has all that other requests have.
        (false, None, Some(scheme), Some(_)) | (true, Some(_), Some(scheme), Some(_)) => {
            layout.is_https = fields.get(scheme.into()).1 == b"https";
        }
        _ => return Err(Malformed("pseudo fields that do not go together")),
    }
    regular(fields, &mut layout)?;
    match layout {
        // It has no content that could be so long (RFC 9110 §9.3.6).
        Layout {
            protocol: Some(_),
            length: Some(_),
            ..
        } => Err(Malformed("the length of a tunnel")),
        layout => Ok(layout),
    }
}

/// The fields behind those of the protocol.
fn regular(fields: &Fields, layout: &mut Layout) -> Result<(), Malformed> {
    let authority = layout.authority.map(|at| fields.get(at.into()).1);
    for at in usize::from(layout.regular_from)..fields.count() {
        let (name, value) = fields.get(at);
        check_field(name, value)?;
        match name {
            b"content-length" => {
                let length = number(value).ok_or(Malformed("a content-length that is none"))?;
                if layout
                    .length
                    .replace(length)
                    .is_some_and(|before| before != length)
                {
                    return Err(Malformed("two lengths"));
                }
            }
            b"host" if authority.is_some_and(|it| !it.eq_ignore_ascii_case(value)) => {
                return Err(Malformed("a host beside another authority"));
            }
            b"priority" => {
                let priority = layout.priority.unwrap_or_default();
                layout.priority = Some(priority.with(value));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The fields behind a body (§8.1): none of the protocol's.
///
/// # Errors
///
/// What is wrong with them.
pub fn trailers(fields: &Fields) -> Result<(), Malformed> {
    fields
        .iter()
        .try_for_each(|(name, value)| check_field(name, value))
}

/// One field that is not the protocol's (§8.2.1, §8.2.2).
///
/// # Errors
///
/// What is wrong with it.
pub fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    if name.is_empty() || !name.iter().all(|b| is_name(*b)) {
        return Err(Malformed("the name of a field"));
    }
    if !is_value(value) {
        return Err(Malformed("the value of a field"));
    }
    match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            Err(Malformed("a field about connections"))
        }
        b"te" if value != b"trailers" => Err(Malformed("a te other than trailers")),
        _ => Ok(()),
    }
}

/// A character of a token (RFC 9110 §5.6.2) that is no capital letter.
const fn is_name(byte: u8) -> bool {
    is_token_character(byte) && !byte.is_ascii_uppercase()
}

const fn is_token_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|b| is_token_character(*b))
}

fn is_scheme(value: &[u8]) -> bool {
    let is_rest = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
    value.first().is_some_and(u8::is_ascii_alphabetic) && value.iter().all(is_rest)
}

/// A path, or the star of OPTIONS; what it means is looked at later. Addresses are of ASCII (RFC 3986 §2).
fn is_target(value: &[u8]) -> bool {
    let is_begun = matches!(value, [b'/', ..] | b"*");
    is_begun && value.iter().all(u8::is_ascii_graphic)
}

/// No control characters but tabs, and no space around (§8.2.1; RFC 9110 §5.5).
fn is_value(value: &[u8]) -> bool {
    let is_space = |b: Option<&u8>| b.is_some_and(|b| matches!(b, b' ' | b'\t'));
    let is_text = |b: &u8| *b == b'\t' || (*b >= b' ' && *b != 0x7f);
    !is_space(value.first()) && !is_space(value.last()) && value.iter().all(is_text)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example:8443"),
        (":path", "/a?b"),
    ];

    fn of(all: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        all.iter()
            .for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        fields
    }

    fn with(more: &[(&str, &str)]) -> Fields {
        of(&[&GET[..], more].concat())
    }

    #[test]
    fn a_request_is_found_in_its_fields() {
        let fields = with(&[
            ("accept", "*/*"),
            ("content-length", "12"),
            ("priority", "u=1, i"),
        ]);
        let layout = request(&fields).unwrap();
        let head = RequestHead::new(&fields, layout);
        assert_eq!((head.method(), head.path()), ("GET", Some(&b"/a?b"[..])));
        assert_eq!(head.authority(), Some(&b"a.example:8443"[..]));
        assert_eq!((head.length(), head.is_https()), (Some(12), true));
        let names: Vec<&str> = head.fields().map(|(name, _)| name).collect();
        assert_eq!(names, ["accept", "content-length", "priority"]);
        let priority = layout.priority.unwrap();
        assert_eq!((priority.urgency, priority.is_incremental), (1, true));
    }

    #[test]
    fn what_breaks_the_rules_is_malformed() {
        let without = |left_out: usize| {
            let all = GET.iter().enumerate().filter(|(at, _)| *at != left_out);
            of(&all.map(|(_, field)| *field).collect::<Vec<_>>())
        };
        assert!(request(&without(2)).is_ok(), "an authority need not be");
        for left_out in [0, 1, 3] {
            assert!(request(&without(left_out)).is_err(), "{left_out}");
        }
        for field in [
            (":method", "GET"),
            (":path", "/"),
            (":status", "200"),
            (":protocol", "websocket"),
            ("Accept", "*/*"),
            ("", ""),
            ("a b", ""),
            ("a:", ""),
            ("connection", "close"),
            ("keep-alive", ""),
            ("proxy-connection", ""),
            ("upgrade", "h2c"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("a", " b"),
            ("a", "b\t"),
            ("a", "b\nc"),
            ("a", "b\rc"),
            ("a", "b\0c"),
            ("a", "b\u{7f}c"),
            ("content-length", "1a"),
            ("content-length", ""),
            ("content-length", "+1"),
            ("host", "b.example"),
        ] {
            assert!(request(&with(&[field])).is_err(), "{field:?}");
        }
        assert!(request(&with(&[("content-length", "1"), ("content-length", "2")])).is_err());
        assert!(request(&with(&[("te", "trailers"), ("host", "a.example:8443")])).is_ok());
        assert!(
            request(&with(&[("a", "b"), (":path", "/")])).is_err(),
            "behind a regular one"
        );
    }

    #[test]
    fn pseudo_fields_have_values_of_their_kind() {
        for (name, value) in [
            (":method", ""),
            (":method", "G T"),
            (":scheme", ""),
            (":scheme", "1a"),
            (":path", ""),
            (":path", "a"),
            (":path", "/a b"),
            (":path", "/\u{7f}"),
            (":path", "/\u{e4}"),
            (":path", "*a"),
            (":authority", "a\r\nb"),
        ] {
            let all = GET.map(|(its, own)| {
                if its == name {
                    (its, value)
                } else {
                    (its, own)
                }
            });
            assert!(request(&of(&all)).is_err(), "{name} {value:?}");
        }
    }

    /// RFC 9113 §8.5.
    #[test]
    fn a_tunnel_has_neither_scheme_nor_path() {
        let connect = (":method", "CONNECT");
        let fields = of(&[connect, (":authority", "a:443")]);
        let head = RequestHead::new(&fields, request(&fields).unwrap());
        assert_eq!(head.path(), None);
        assert!(request(&of(&[connect])).is_err());
        assert!(request(&of(&[connect, (":authority", "a"), (":path", "/")])).is_err());
    }

    /// RFC 8441 §4.
    #[test]
    fn a_tunnel_with_a_protocol_has_all_that_a_request_has() {
        let all = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":path", "/chat"),
            (":authority", "a.example"),
        ];
        let fields = of(&all);
        let head = RequestHead::new(&fields, request(&fields).unwrap());
        let (protocol, path) = (head.protocol(), head.path());
        assert_eq!(
            (protocol, path),
            (Some(&b"websocket"[..]), Some(&b"/chat"[..]))
        );
        assert!(head.is_https() && head.authority().is_some());
        for left_out in [0, 2, 3] {
            let rest = all.iter().enumerate().filter(|(at, _)| *at != left_out);
            let rest: Vec<_> = rest.map(|(_, field)| *field).collect();
            assert!(request(&of(&rest)).is_err(), "{left_out}");
        }
        for more in [
            (":protocol", "other"),
            ("content-length", "0"),
            ("content-length", "5"),
            ("upgrade", "websocket"),
            ("connection", "upgrade"),
        ] {
            let fields = of(&[&all[..], &[more]].concat());
            assert!(request(&fields).is_err(), "{more:?}");
        }
        for protocol in ["", "web socket", "a,b"] {
            let fields = all.map(|(name, value)| match name {
                ":protocol" => (name, protocol),
                _ => (name, value),
            });
            assert!(request(&of(&fields)).is_err(), "{protocol:?}");
        }
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        assert_eq!(trailers(&of(&[("a", "b")])), Ok(()));
        assert!(trailers(&of(&[(":path", "/")])).is_err());
        assert!(trailers(&of(&[("A", "b")])).is_err());
    }
}
