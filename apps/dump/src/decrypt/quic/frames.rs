//! Frames of QUIC (RFC 9000 §19, RFC 9221, draft-ietf-quic-ack-frequency): each as a line, and what is followed further.

use std::fmt::Write as _;

use exos_http3::varint;
use exos_tls::observer::Level;

use super::StreamPart;
use crate::limits::ACK_RANGES_SHOWN;

/// A frame.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    /// Its name and its numbers: `STREAM 4 0:58 fin`.
    pub(super) line: String,
    pub(super) content: Content<'a>,
}

/// What a frame carries.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// Nothing that is followed.
    Nothing,
    /// The largest number that has come of the other side.
    Ack(u64),
    /// A part of the handshake.
    Crypto { offset: u64, data: &'a [u8] },
    /// A part of a stream.
    Stream(StreamPart<'a>),
    /// Another name under which its sender is reached.
    NewId(&'a [u8]),
    /// The end.
    Close(Close),
}

/// Why a connection ends (§19.19).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    /// What is above QUIC ends it, by an error of its own.
    pub(crate) is_of_application: bool,
    pub(crate) code: u64,
    pub(crate) reason: Vec<u8>,
}

/// Takes the first frame of a packet; `None` where it is none that such a packet may have, or ends before it should.
pub(super) fn next<'a>(level: Level, rest: &mut &'a [u8]) -> Option<Frame<'a>> {
    let kind = varint::take(rest)?;
    if !is_of(level, kind) {
        return None;
    }
    let mut content = Content::Nothing;
    let line = match kind {
        0 => {
            let len = rest.iter().take_while(|byte| **byte == 0).count();
            *rest = &rest[len..];
            format!("PADDING {}", len + 1)
        }
        1 => "PING".to_owned(),
        2 | 3 => {
            content = Content::Ack(varint::take(&mut { *rest })?);
            ack(kind == 3, rest)?
        }
        4 => {
            let [stream, code, size] = numbers(rest)?;
            format!("RESET_STREAM {stream} {code:#x} at {size}")
        }
        5 => {
            let [stream, code] = numbers(rest)?;
            format!("STOP_SENDING {stream} {code:#x}")
        }
        6 => {
            let [offset] = numbers(rest)?;
            let data = vector(rest)?;
            content = Content::Crypto { offset, data };
            format!("CRYPTO {offset}:{}", end(offset, data)?)
        }
        7 => format!("NEW_TOKEN {}", vector(rest)?.len()),
        8..=0xf => {
            let (has_offset, has_len, is_last) = (kind & 4 != 0, kind & 2 != 0, kind & 1 != 0);
            let [id] = numbers(rest)?;
            let offset = if has_offset { varint::take(rest)? } else { 0 };
            let data = if has_len {
                vector(rest)?
            } else {
                std::mem::take(rest)
            };
            content = Content::Stream(StreamPart {
                id,
                offset,
                data,
                is_last,
            });
            let fin = if is_last { " fin" } else { "" };
            format!("STREAM {id} {offset}:{}{fin}", end(offset, data)?)
        }
        0x10 => format!("MAX_DATA {}", varint::take(rest)?),
        0x11 => {
            let [stream, most] = numbers(rest)?;
            format!("MAX_STREAM_DATA {stream} {most}")
        }
        0x12 | 0x13 => format!("MAX_STREAMS {} {}", way(kind), varint::take(rest)?),
        0x14 => format!("DATA_BLOCKED {}", varint::take(rest)?),
        0x15 => {
            let [stream, at] = numbers(rest)?;
            format!("STREAM_DATA_BLOCKED {stream} {at}")
        }
        0x16 | 0x17 => format!("STREAMS_BLOCKED {} {}", way(kind), varint::take(rest)?),
        0x18 => {
            let [number, before] = numbers(rest)?;
            let (&len, behind) = rest.split_first()?;
            let (id, behind) = behind.split_at_checked(len.into())?;
            *rest = behind.get(RESET_TOKEN_LEN..)?;
            content = Content::NewId(id);
            let mut line = format!("NEW_CONNECTION_ID {number} ");
            for byte in id {
                let _ = write!(line, "{byte:02x}"); // Text in memory takes everything.
            }
            if before > 0 {
                let _ = write!(line, " for those before {before}");
            }
            line
        }
        0x19 => format!("RETIRE_CONNECTION_ID {}", varint::take(rest)?),
        0x1a | 0x1b => {
            let (data, behind) = rest.split_first_chunk()?;
            *rest = behind;
            let name = match kind {
                0x1a => "PATH_CHALLENGE",
                _ => "PATH_RESPONSE",
            };
            format!("{name} {:016x}", u64::from_be_bytes(*data))
        }
        0x1c | 0x1d => {
            let code = varint::take(rest)?;
            if kind == 0x1c {
                varint::take(rest)?; // The type of the frame that was wrong.
            }
            content = Content::Close(Close {
                is_of_application: kind == 0x1d,
                code,
                reason: vector(rest)?.to_vec(),
            });
            "CONNECTION_CLOSE".to_owned()
        }
        0x1e => "HANDSHAKE_DONE".to_owned(),
        0x1f => "IMMEDIATE_ACK".to_owned(),
        0x30 => format!("DATAGRAM {}", std::mem::take(rest).len()),
        0x31 => format!("DATAGRAM {}", vector(rest)?.len()),
        0xaf => {
            let [number, threshold, delay, reordering] = numbers(rest)?;
            format!(
                "ACK_FREQUENCY {number} every {threshold} within {delay} us, reordering {reordering}"
            )
        }
        _ => return None,
    };
    Some(Frame { line, content })
}

/// Table 3 of RFC 9000 §12.4, and §12.5. What Initial packets say anybody can write, and what early ones do can be sent again.
fn is_of(level: Level, kind: u64) -> bool {
    match level {
        Level::Initial | Level::Handshake => matches!(kind, 0..=3 | 6 | 0x1c),
        Level::Early => !matches!(kind, 2 | 3 | 6 | 7 | 0x19 | 0x1b | 0x1e),
        Level::Traffic => true,
    }
}

/// Bytes by which a peer without memory ends a connection (§10.3).
const RESET_TOKEN_LEN: usize = 16;

/// Whose streams are meant.
fn way(kind: u64) -> &'static str {
    if kind & 1 == 0 {
        "both ways"
    } else {
        "one way"
    }
}

fn numbers<const N: usize>(rest: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = varint::take(rest)?;
    }
    Some(numbers)
}

/// Bytes behind their length.
fn vector<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::take(rest)?).ok()?;
    let (bytes, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(bytes)
}

/// Where data ends; no stream is longer than numbers are (§19.8).
fn end(offset: u64, data: &[u8]) -> Option<u64> {
    let end = offset + data.len() as u64;
    (end <= varint::MAX).then_some(end)
}

/// The ranges that are acknowledged, from the latest on (§19.3.1).
fn ack(has_ecn: bool, rest: &mut &[u8]) -> Option<String> {
    let [largest, _delay, count, first] = numbers(rest)?;
    let mut line = "ACK".to_owned();
    let (mut high, mut low) = (largest, largest.checked_sub(first)?);
    for at in 0..=count {
        if at > 0 {
            let [gap, len] = numbers(rest)?;
            high = low.checked_sub(gap + 2)?;
            low = high.checked_sub(len)?;
        }
        let _ = match (at < ACK_RANGES_SHOWN, low == high) {
            (true, true) => write!(line, " {high}"),
            (true, false) => write!(line, " {low}-{high}"),
            (false, _) if at == ACK_RANGES_SHOWN => write!(line, " ..."),
            (false, _) => Ok(()),
        };
    }
    if has_ecn {
        let [ect0, ect1, ce] = numbers(rest)?;
        let _ = write!(line, " ecn {ect0} {ect1} {ce}");
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut rest = bytes;
        let mut lines = Vec::new();
        while !rest.is_empty() {
            match next(Level::Traffic, &mut rest) {
                Some(frame) => lines.push(frame.line),
                None => break,
            }
        }
        lines
    }

    /// Each frame of RFC 9000 §19 with its numbers, and no shorter piece of it.
    #[test]
    fn frames_have_names_and_numbers() {
        let id = [&[0x18, 3, 1, 4][..], &[0xab; 4], &[0; 16]].concat();
        let cases: &[(&[u8], &str)] = &[
            (&[2, 9, 0, 1, 1, 0, 2], "ACK 8-9 4-6"),
            (&[3, 5, 0, 0, 0, 1, 2, 3], "ACK 5 ecn 1 2 3"),
            (&[4, 4, 0x41, 0x0c, 9], "RESET_STREAM 4 0x10c at 9"),
            (&[5, 4, 7], "STOP_SENDING 4 0x7"),
            (&[6, 0x40, 0x64, 2, 1, 2], "CRYPTO 100:102"),
            (&[7, 2, 1, 2], "NEW_TOKEN 2"),
            (&[0xf, 8, 3, 1, 9], "STREAM 8 3:4 fin"),
            (&[0x10, 7], "MAX_DATA 7"),
            (&[0x11, 4, 7], "MAX_STREAM_DATA 4 7"),
            (&[0x12, 7], "MAX_STREAMS both ways 7"),
            (&[0x13, 7], "MAX_STREAMS one way 7"),
            (&[0x14, 7], "DATA_BLOCKED 7"),
            (&[0x15, 4, 7], "STREAM_DATA_BLOCKED 4 7"),
            (&[0x17, 7], "STREAMS_BLOCKED one way 7"),
            (&id, "NEW_CONNECTION_ID 3 abababab for those before 1"),
            (&[0x19, 2], "RETIRE_CONNECTION_ID 2"),
            (
                &[0x1a, 0, 0, 0, 0, 0, 0, 0, 5],
                "PATH_CHALLENGE 0000000000000005",
            ),
            (
                &[0x1b, 1, 0, 0, 0, 0, 0, 0, 5],
                "PATH_RESPONSE 0100000000000005",
            ),
            (&[0x1c, 0, 6, 1, b'x'], "CONNECTION_CLOSE"),
            (&[0x1d, 0, 1, b'x'], "CONNECTION_CLOSE"),
            (&[0x31, 1, 5], "DATAGRAM 1"),
            (
                &[0x40, 0xaf, 0, 2, 0x59, 0xd8, 3],
                "ACK_FREQUENCY 0 every 2 within 6616 us, reordering 3",
            ),
        ];
        for (bytes, line) in cases {
            assert_eq!(lines(bytes), [*line]);
            for len in 1..bytes.len() {
                assert_eq!(lines(&bytes[..len]), [""; 0], "{line}: {len}");
            }
        }
        // To the packet's end.
        assert_eq!(lines(&[8, 4, 1, 2]), ["STREAM 4 0:2"]);
        assert_eq!(lines(&[0x30, 1, 2]), ["DATAGRAM 2"]);
        assert_eq!(
            lines(&[1, 0, 0, 0, 0x1e, 0x1f, 0]),
            [
                "PING",
                "PADDING 3",
                "HANDSHAKE_DONE",
                "IMMEDIATE_ACK",
                "PADDING 1"
            ]
        );
    }

    /// Each kind in each sort of packet (RFC 9000 §12.4, table 3).
    #[test]
    fn packets_have_frames_of_their_level() {
        let long = [0, 1, 2, 3, 6, 0x1c];
        let not_early = [2, 3, 6, 7, 0x19, 0x1b, 0x1e];
        for kind in (0..0x1f).chain([0x1f, 0x30, 0x31]) {
            assert_eq!(is_of(Level::Initial, kind), long.contains(&kind), "{kind}");
            assert_eq!(
                is_of(Level::Handshake, kind),
                long.contains(&kind),
                "{kind}"
            );
            assert_eq!(
                is_of(Level::Early, kind),
                !not_early.contains(&kind),
                "{kind}"
            );
            assert!(is_of(Level::Traffic, kind));
        }
        let stream = [8, 4, 1, 2];
        assert!(next(Level::Initial, &mut &stream[..]).is_none());
        assert!(next(Level::Early, &mut &stream[..]).is_some());
    }

    #[test]
    fn what_is_no_frame_ends() {
        for bytes in [
            &[0x20][..],
            &[2, 1, 0, 0, 2],       // Below packet 0.
            &[2, 9, 0, 1, 1, 9, 0], // And behind a gap.
            &[6, 0, 5, 1],          // Longer than the packet.
            &[
                0x0e, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0,
            ], // Beyond the end of streams.
            &[0x18, 1, 0, 9, 1],
        ] {
            assert_eq!(lines(bytes), [""; 0], "{bytes:?}");
        }
        // However many ranges there are, the line is bounded.
        let ranges = [&[2, 0x7f, 0xff, 0, 0x44, 0, 0][..], &[0; 2 * 1024]].concat();
        let shown = lines(&ranges);
        assert!(
            shown[0].ends_with(" ...") && shown[0].len() < 300,
            "{shown:?}"
        );
    }
}
