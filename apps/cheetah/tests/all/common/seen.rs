//! A request as its bytes lie there, read by the RFCs' grammar in the plainest way, for tests that judge what a server
//! made of it.

use std::str::from_utf8;

/// A request as its bytes lie there, well formed or not.
pub struct Seen<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub version: &'a [u8],
    /// The request line and all others before the empty one, without CR LF or LF.
    pub lines: Vec<&'a [u8]>,
    /// Names and values without white space around them, of lines that have a colon.
    pub fields: Vec<(String, &'a [u8])>,
    /// The empty line has come.
    pub is_whole: bool,
    /// The request before it on the connection, and how the other server has answered that.
    pub before: Option<(Box<Seen<'a>>, u16)>,
}

impl<'a> Seen<'a> {
    /// The request at the beginning of a stream; empty lines before it do not count (RFC 9112 §2.2).
    pub fn new(stream: &'a [u8]) -> Seen<'a> {
        let mut stream = stream;
        while let Some(rest) = stream.strip_prefix(b"\r\n").or(stream.strip_prefix(b"\n")) {
            stream = rest;
        }
        let mut lines: Vec<&[u8]> = stream.split(|&b| b == b'\n').collect();
        // Behind the last LF begins a line that has not come.
        lines.pop();
        let lines = lines
            .into_iter()
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let (mut head, mut is_whole) = (Vec::new(), false);
        for line in lines {
            is_whole = line.is_empty();
            if is_whole {
                break;
            }
            head.push(line);
        }
        let first = head.first().copied().unwrap_or_default();
        let mut words = first.split(|&b| b == b' ');
        let mut word = || words.next().unwrap_or_default();
        Seen {
            method: word(),
            target: word(),
            version: word(),
            fields: head.iter().skip(1).filter_map(|line| field(line)).collect(),
            lines: head,
            is_whole,
            before: None,
        }
    }

    /// What holds of the request before it, and of how the other server has answered that.
    pub fn is_behind(&self, holds: fn(&Seen<'_>, u16) -> bool) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|(request, status)| holds(request, *status))
    }

    /// The values of the fields of a name.
    pub fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let named = self.fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| *value).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    pub fn repeats(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.values(name).len() > 1)
    }
}

pub fn field(line: &[u8]) -> Option<(String, &[u8])> {
    let colon = line.iter().position(|&b| b == b':')?;
    let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
    let mut value = &line[colon + 1..];
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    Some((name, value))
}

pub fn is_token(text: &[u8]) -> bool {
    let is_special = |b: &u8| b"!#$%&'*+-.^_`|~".contains(b);
    !text.is_empty()
        && text
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || is_special(b))
}

pub fn is_version(text: &[u8]) -> bool {
    let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = text else {
        return false;
    };
    major.is_ascii_digit() && minor.is_ascii_digit()
}

pub fn is_host(text: &[u8]) -> bool {
    let text = from_utf8(text).unwrap_or("@");
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (text, ""),
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.strip_suffix(']') {
            Some(inside) if !inside.is_empty() => inside.replace(':', ""),
            _ => return false,
        },
        None => host.to_owned(),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._~%!$&'()*+,;=".contains(c);
    name.chars().all(is_name) && port.len() < 6 && port.chars().all(|c| c.is_ascii_digit())
}

/// A form of target that GET has: a path, or the whole address of a document.
pub fn is_target(seen: &Seen<'_>) -> bool {
    let Ok(target) = from_utf8(seen.target) else {
        return false;
    };
    let lower = target.to_ascii_lowercase();
    let rest = lower.strip_prefix("http://");
    let rest = rest.or_else(|| lower.strip_prefix("https://"));
    let is_whole = rest.is_some_and(|rest| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        end > 0 && is_host(&rest.as_bytes()[..end])
    });
    let is_all = target == "*" && seen.method == b"OPTIONS";
    (target.starts_with('/') || is_whole || is_all) && target.is_ascii() && !target.contains('#')
}

/// The path decoded, before dots are resolved; `None` where that is impossible.
pub fn path(seen: &Seen<'_>) -> Option<Vec<u8>> {
    let text = from_utf8(seen.target).ok()?;
    let local = match text.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => text,
    };
    let raw = local.split('?').next()?.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < raw.len() {
        let byte = match raw[at] {
            b'%' => {
                let digits = from_utf8(raw.get(at + 1..at + 3)?).ok()?;
                let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
                at += 2;
                u8::from_str_radix(digits, 16)
                    .ok()
                    .filter(|&b| is_hex && b > 0)?
            }
            byte => byte,
        };
        out.push(byte);
        at += 1;
    }
    Some(out)
}

pub fn climbs_above_root(path: &[u8]) -> bool {
    let mut depth = 0;
    path.split(|&b| b == b'/').any(|segment| {
        depth += match segment {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

pub fn is_length(value: &[u8]) -> bool {
    let digits = from_utf8(value).unwrap_or_default();
    digits.chars().all(|c| c.is_ascii_digit()) && digits.parse::<u64>().is_ok()
}

/// `bytes=` and parts of which none ends before it begins (RFC 9110 §14.1.1).
pub fn is_range(value: &[u8]) -> bool {
    let text = from_utf8(value).unwrap_or_default();
    let parts = text.strip_prefix("bytes=").unwrap_or("-");
    parts.split(',').all(|part| {
        let (first, last) = part.trim().split_once('-').unwrap_or(("", ""));
        let number = |text: &str| text.parse::<u64>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) => first <= last,
            (Some(_), None) => last.is_empty(),
            (None, Some(_)) => first.is_empty(),
            (None, None) => false,
        }
    })
}

/// The preferred form of a date (RFC 9110 §5.6.7), of a day of the week that it is; years from 1900 on.
pub fn is_date(value: &[u8]) -> bool {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let words: Vec<&str> = from_utf8(value).unwrap_or_default().split(' ').collect();
    let [weekday, day, "Nov", year, time, "GMT"] = words[..] else {
        return false; // All that is changed here is of a November.
    };
    let (Ok(day), Ok(year)) = (day.parse::<usize>(), year.parse::<usize>()) else {
        return false;
    };
    let parts: Vec<&str> = time.split(':').collect();
    let is_below = |part: &str, most: u32| part.parse().is_ok_and(|number: u32| number < most);
    let is_time =
        matches!(parts[..], [h, m, s] if is_below(h, 24) && is_below(m, 60) && is_below(s, 60));
    // Sakamoto's method: 2 is November's share; January and February do not come.
    let weekday_is = (year + year / 4 - year / 100 + year / 400 + 2 + day) % 7;
    is_time
        && value.len() == 29
        && (1..31).contains(&day)
        && weekday.strip_suffix(',') == Some(DAYS[weekday_is])
}
