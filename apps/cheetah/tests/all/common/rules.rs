//! Why our answer to a request may differ from nginx's: a table of rules, each with its section.
//!
//! A rule looks at the request with a reading of its own ([`Seen`]), which shares nothing with the server's parser: what
//! we refuse must have the fault that the status speaks of, and what we answer although nginx refuses it must be right.

use super::seen::{
    Seen, climbs_above_root, field, is_date, is_host, is_length, is_range, is_target, is_token,
    is_version, path,
};

/// When our answer, or what it is compared with, may be what it is.
pub struct Rule {
    /// Our status; 0: no answer yet. Empty: any.
    pub ours: &'static [u16],
    /// The other's. 9 is an answer of HTTP/0.9, without a status.
    pub theirs: &'static [u16],
    pub why: &'static str,
    pub holds: fn(&Seen<'_>) -> bool,
}

/// We refuse, as the request has this fault.
const fn fault(ours: &'static [u16], why: &'static str, holds: fn(&Seen<'_>) -> bool) -> Rule {
    Rule {
        ours,
        theirs: &[],
        why,
        holds,
    }
}

/// Statuses that refuse a request before anything is looked for.
const REFUSALS: &[u16] = &[400, 405, 411, 413, 414, 417, 431, 501, 505];
const DATES: [&str; 2] = ["if-modified-since", "if-unmodified-since"];

pub const RULES: &[Rule] = &[
    fault(
        &[400],
        "RFC 9112 §3: a request line is a token, a target and a version, with one space between",
        |seen| {
            let first = seen.lines.first().copied().unwrap_or_default();
            first.split(|&b| b == b' ').count() != 3
                || !is_token(seen.method)
                || seen.target.iter().any(u8::is_ascii_control)
                || seen.target.is_empty()
                || !is_version(seen.version)
        },
    ),
    fault(
        &[400],
        "RFC 9112 §2.2: a CR without LF is no white space",
        |seen| seen.lines.iter().any(|line| line.contains(&b'\r')),
    ),
    fault(
        &[400],
        "RFC 9112 §3.2: a target is a path or an http address, in ASCII and without a fragment",
        |seen| !is_target(seen),
    ),
    fault(
        &[400],
        "RFC 3986 §2.1: a percent sign stands before two digits, and no name has a zero byte",
        |seen| path(seen).is_none(),
    ),
    fault(
        &[400],
        "RFC 3986 §5.2.4: nothing is above the root",
        |seen| path(seen).is_some_and(|path| climbs_above_root(&path)),
    ),
    fault(
        &[400],
        "RFC 9112 §5.1, §5.2: a field is a token and a colon at the beginning of a line",
        |seen| {
            seen.lines.iter().skip(1).any(|line| {
                let colon = line.iter().position(|&b| b == b':').unwrap_or(0);
                !is_token(&line[..colon])
            })
        },
    ),
    fault(
        &[400],
        "RFC 9110 §5.5: control characters in a value are invalid",
        |seen| {
            let is_bad = |b: &u8| b.is_ascii_control() && *b != b'\t';
            seen.fields
                .iter()
                .any(|(_, value)| value.iter().any(is_bad))
        },
    ),
    fault(
        &[400],
        "RFC 9112 §3.2: one Host, which HTTP/1.1 requires",
        |seen| seen.repeats(&["host"]) || !seen.has("host") && seen.version == b"HTTP/1.1",
    ),
    fault(
        &[400],
        "RFC 9110 §7.2: Host is a host and perhaps a port",
        |seen| seen.values("host").iter().any(|host| !is_host(host)),
    ),
    fault(
        &[400],
        "RFC 9112 §6.3: one Content-Length, which is a number",
        |seen| {
            seen.repeats(&["content-length"])
                || seen
                    .values("content-length")
                    .iter()
                    .any(|value| !is_length(value))
        },
    ),
    fault(
        &[400],
        "RFC 9112 §6.1: Transfer-Encoding beside Content-Length, or in HTTP/1.0",
        |seen| {
            seen.has("transfer-encoding")
                && (seen.has("content-length") || seen.version == b"HTTP/1.0")
        },
    ),
    fault(&[505], "RFC 9110 §15.6.6: another version", |seen| {
        let first = seen.lines.first().copied().unwrap_or_default();
        let version = first.rsplit(|&b| b == b' ').next().unwrap_or_default();
        is_version(version) && !version.starts_with(b"HTTP/1.")
    }),
    fault(
        &[411],
        "RFC 9110 §15.5.12: chunked bodies are not read",
        |seen| {
            seen.values("transfer-encoding")
                .iter()
                .any(|value| value.eq_ignore_ascii_case(b"chunked"))
        },
    ),
    fault(
        &[501],
        "RFC 9112 §6.1: a transfer coding that is not known",
        |seen| {
            let codings = seen.values("transfer-encoding");
            codings.len() > 1
                || codings
                    .iter()
                    .any(|value| !value.eq_ignore_ascii_case(b"chunked"))
        },
    ),
    fault(
        &[501],
        "RFC 9110 §9.1: a method that is not known; methods have case",
        |seen| {
            let known: [&[u8]; 9] = [
                b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE",
                b"PATCH",
            ];
            is_token(seen.method) && !known.contains(&seen.method)
        },
    ),
    fault(
        &[405],
        "RFC 9110 §15.5.6: a method that is not offered, whatever its target",
        |seen| {
            let known: [&[u8]; 6] = [b"POST", b"PUT", b"DELETE", b"CONNECT", b"TRACE", b"PATCH"];
            known.contains(&seen.method)
        },
    ),
    fault(
        &[417],
        "RFC 9110 §10.1.1: an expectation that is not known",
        |seen| {
            seen.values("expect")
                .iter()
                .any(|value| !value.eq_ignore_ascii_case(b"100-continue"))
        },
    ),
    fault(
        &[413],
        "RFC 9110 §15.5.14: a body longer than what is skipped",
        |seen| {
            let lengths = seen.values("content-length");
            lengths
                .iter()
                .any(|value| is_length(value) && value.len() > 4)
        },
    ),
    Rule {
        ours: &[],
        theirs: &[400],
        why: "RFC 3986 §3.2.2: a name may have dots in a row; in a whole address nginx knows letters and digits only",
        holds: |seen| {
            let whole = seen.target.windows(3).any(|three| three == b"://");
            let hosts = seen.values("host");
            whole
                || hosts
                    .iter()
                    .any(|host| host.windows(2).any(|two| two == b".."))
        },
    },
    Rule {
        ours: &[0],
        theirs: REFUSALS,
        why: "RFC 9112 §3: we answer when the head is whole, the other as soon as it has seen a fault",
        holds: |seen| !seen.is_whole,
    },
    Rule {
        ours: &[400],
        theirs: &[0],
        why: "RFC 9112 §3: the same, the other way round",
        holds: |seen| !seen.is_whole,
    },
    Rule {
        ours: &[200, 301, 403, 404],
        theirs: &[400, 405],
        why: "RFC 9110 §9.3.7: OPTIONS for a document, and for the whole server by `*`",
        holds: |seen| seen.method == b"OPTIONS",
    },
    Rule {
        ours: &[],
        theirs: &[400],
        why: "RFC 9112 §3.2: clients send an empty Host when there is no authority; a port does not change that",
        holds: |seen| {
            seen.values("host")
                .iter()
                .any(|host| host.is_empty() || host.starts_with(b":"))
        },
    },
    Rule {
        ours: &[],
        theirs: &[400],
        why: "RFC 9110 §5.3: lists may be sent in several lines; §13.1.3, §13.1.4: of several dates none counts",
        holds: |seen| {
            seen.repeats(&["expect", "if-match", "if-none-match"]) || seen.repeats(&DATES)
        },
    },
    Rule {
        ours: &[],
        theirs: &[400],
        why: "RFC 9110 §13.1.5: If-Range counts for nothing without Range, or where it is there twice",
        holds: |seen| seen.repeats(&["if-range"]),
    },
    Rule {
        ours: &[],
        theirs: &[400, 501],
        why: "RFC 9110 §5.5: white space before and behind a value is not part of it, tabs too",
        holds: |seen| {
            let names = ["host", "content-length", "transfer-encoding"];
            let has_tab = |line: &&&[u8]| line.contains(&b'\t');
            let mut tabs = seen
                .lines
                .iter()
                .filter(has_tab)
                .filter_map(|line| field(line));
            tabs.any(|(name, _)| names.contains(&name.as_str()))
        },
    },
    Rule {
        ours: &[206],
        theirs: &[206],
        why: "RFC 9110 §15.3.7.2: parts that touch or nearly do may be sent as one",
        holds: |seen| {
            seen.values("range")
                .iter()
                .any(|range| range.contains(&b','))
        },
    },
    Rule {
        ours: &[416],
        theirs: &[200],
        why: "RFC 9110 §15.5.17: there is no part of an empty document",
        holds: |seen| seen.has("range") && path(seen).is_some_and(|path| path == b"/empty"),
    },
    Rule {
        ours: &[0],
        theirs: &[],
        why: "RFC 9110 §10.1.1: we answer at once instead of sending 100 and reading the content, and close",
        holds: |seen| {
            seen.is_behind(|request, _| {
                let length = request.values("content-length");
                request.has("expect") && length.iter().any(|value| value.iter().any(|b| *b != b'0'))
            })
        },
    },
    Rule {
        ours: &[0],
        theirs: &[],
        why: "RFC 9112 §9.3: with `close` among the options a connection ends; nginx takes the last option",
        holds: |seen| {
            seen.is_behind(|request, _| {
                let mut options = request
                    .values("connection")
                    .into_iter()
                    .flat_map(|value| value.split(|&b| b == b','));
                options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
            })
        },
    },
    Rule {
        ours: &[],
        theirs: &[0],
        why: "RFC 9110 §7.6.1: Connection is a list of options; nginx looks for `close` anywhere in it",
        holds: |seen| {
            seen.is_behind(|request, _| {
                let text = |value: &&[u8]| String::from_utf8_lossy(value).to_ascii_lowercase();
                request
                    .values("connection")
                    .iter()
                    .any(|value| text(value).contains("close"))
            })
        },
    },
    Rule {
        ours: &[],
        theirs: &[0],
        why: "RFC 9112 §9.6: a server may close behind any response; nginx does behind 412",
        holds: |seen| seen.is_behind(|_, status| status == 412),
    },
    Rule {
        ours: &[200, 206, 412],
        theirs: &[304],
        why: "RFC 9110 §13.1.3: If-Modified-Since is ignored where it is no date",
        holds: |seen| {
            seen.values("if-modified-since")
                .iter()
                .any(|date| !is_date(date))
        },
    },
    Rule {
        ours: &[200],
        theirs: &[206, 416],
        why: "RFC 9110 §14.2: Range is for GET alone; what is not valid, or is there twice, is ignored",
        holds: |seen| {
            let ranges = seen.values("range");
            seen.method == b"HEAD"
                || ranges.len() > 1
                || ranges.iter().any(|range| !is_range(range))
        },
    },
    Rule {
        ours: &[304],
        theirs: &[200, 206, 416],
        why: "RFC 9110 §13.1.3: whatever is no later is not modified; nginx wants the same date, and it beside If-None-Match",
        holds: |seen| seen.has("if-modified-since"),
    },
    Rule {
        ours: &[200, 206, 304, 416],
        theirs: &[412],
        why: "RFC 9110 §13.1.4: If-Unmodified-Since is ignored beside If-Match, and where it is no date",
        holds: |seen| {
            let dates = seen.values("if-unmodified-since");
            seen.has("if-match") || dates.len() > 1 || dates.iter().any(|date| !is_date(date))
        },
    },
];
