//! What is in the payloads of frames: views that say what is wrong with a length, a padding or a value (RFC 9113 §6).

use super::{FrameHead, StreamId, flag};
use crate::error::{ErrorCode, Fault};

/// A payload without its padding (§6.1, §6.2).
///
/// # Errors
///
/// [`Fault::FrameLength`] where there is no room for the padding's length, [`Fault::Padding`] where it is longer than the rest.
#[inline]
pub fn without_padding<'a>(head: &FrameHead, payload: &'a [u8]) -> Result<&'a [u8], Fault> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Fault::FrameLength)?;
    let len = rest.len().checked_sub(usize::from(padding));
    Ok(&rest[..len.ok_or(Fault::Padding)?])
}

/// The header block of a HEADERS frame, and the stream on which the frame says that this one depends.
///
/// # Errors
///
/// What is wrong with its length or padding.
#[inline]
pub fn headers<'a>(
    head: &FrameHead,
    payload: &'a [u8],
) -> Result<(&'a [u8], Option<StreamId>), Fault> {
    let rest = without_padding(head, payload)?;
    if !head.has(flag::PRIORITY) {
        return Ok((rest, None));
    }
    let (&[a, b, c, d, _weight], block) = rest.split_first_chunk().ok_or(Fault::FrameLength)?;
    let depends_on = u32::from_be_bytes([a & 0x7f, b, c, d]);
    Ok((block, Some(depends_on)))
}

/// The stream on which another depends, of a PRIORITY frame (§6.3).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn priority(payload: &[u8]) -> Result<StreamId, Fault> {
    match payload {
        &[a, b, c, d, _weight] => Ok(u32::from_be_bytes([a & 0x7f, b, c, d])),
        _ => Err(Fault::FrameLength),
    }
}

/// The pairs of SETTINGS: identifiers and values (§6.5.1).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn settings(payload: &[u8]) -> Result<impl Iterator<Item = (u16, u32)> + '_, Fault> {
    let (pairs, rest) = payload.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(Fault::FrameLength);
    }
    let value = |pair: &[u8; 6]| {
        let [a, b, c, d, e, f] = *pair;
        (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
    };
    Ok(pairs.iter().map(value))
}

/// The code of RST_STREAM (§6.4).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn reset(payload: &[u8]) -> Result<ErrorCode, Fault> {
    let bytes = payload.try_into().map_err(|_| Fault::FrameLength)?;
    Ok(ErrorCode(u32::from_be_bytes(bytes)))
}

/// By how much WINDOW_UPDATE opens a window (§6.9); 0 is for the caller to refuse.
///
/// # Errors
///
/// [`Fault::FrameLength`].
#[inline]
pub fn window_update(payload: &[u8]) -> Result<u32, Fault> {
    let bytes: [u8; 4] = payload.try_into().map_err(|_| Fault::FrameLength)?;
    Ok(u32::from_be_bytes(bytes) & 0x7fff_ffff)
}

/// The eight bytes of PING (§6.7).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn ping(payload: &[u8]) -> Result<[u8; 8], Fault> {
    payload.try_into().map_err(|_| Fault::FrameLength)
}

/// The last stream that is seen to, and why no others are, of GOAWAY (§6.8).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn go_away(payload: &[u8]) -> Result<(StreamId, ErrorCode), Fault> {
    let (&[a, b, c, d, e, f, g, h], _why) =
        payload.split_first_chunk().ok_or(Fault::FrameLength)?;
    let last = u32::from_be_bytes([a & 0x7f, b, c, d]);
    Ok((last, ErrorCode(u32::from_be_bytes([e, f, g, h]))))
}

/// The stream and the value of PRIORITY_UPDATE (RFC 9218 §7.1).
///
/// # Errors
///
/// [`Fault::FrameLength`].
pub fn priority_update(payload: &[u8]) -> Result<(StreamId, &[u8]), Fault> {
    let (&[a, b, c, d], value) = payload.split_first_chunk().ok_or(Fault::FrameLength)?;
    Ok((u32::from_be_bytes([a & 0x7f, b, c, d]), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(flags: u8) -> FrameHead {
        FrameHead {
            len: 0,
            kind: 0,
            flags,
            stream: 1,
        }
    }

    #[test]
    fn padding_is_taken_off() {
        let padded = head(flag::PADDED);
        assert_eq!(without_padding(&head(0), b"\x01ab"), Ok(&b"\x01ab"[..]));
        assert_eq!(without_padding(&padded, b"\x01ab"), Ok(&b"a"[..]));
        assert_eq!(without_padding(&padded, b"\x02ab"), Ok(&b""[..]));
        assert_eq!(without_padding(&padded, b"\x03ab"), Err(Fault::Padding));
        assert_eq!(without_padding(&padded, b""), Err(Fault::FrameLength));
    }

    #[test]
    fn a_header_block_lies_behind_what_it_depends_on() {
        let both = head(flag::PADDED | flag::PRIORITY);
        let payload = b"\x01\x80\0\0\x07\x10block\0";
        assert_eq!(headers(&both, payload), Ok((&b"block"[..], Some(7))));
        assert_eq!(headers(&both, b"\0\0\0\0\0"), Err(Fault::FrameLength));
        assert_eq!(headers(&head(0), b"block"), Ok((&b"block"[..], None)));
    }

    #[test]
    fn payloads_of_another_length_are_faults() {
        for len in 0..20 {
            let payload = vec![0; len];
            assert_eq!(priority(&payload).is_ok(), len == 5, "{len}");
            assert_eq!(settings(&payload).is_ok(), len % 6 == 0, "{len}");
            assert_eq!(reset(&payload).is_ok(), len == 4, "{len}");
            assert_eq!(window_update(&payload).is_ok(), len == 4, "{len}");
            assert_eq!(ping(&payload).is_ok(), len == 8, "{len}");
            assert_eq!(go_away(&payload).is_ok(), len >= 8, "{len}");
            assert_eq!(priority_update(&payload).is_ok(), len >= 4, "{len}");
        }
    }

    #[test]
    fn values_are_read() {
        let pairs: Vec<_> = settings(&[0, 4, 0, 1, 0, 0, 0, 5, 0, 0, 64, 0])
            .unwrap()
            .collect();
        assert_eq!(pairs, [(4, 65_536), (5, 16_384)]);
        assert_eq!(window_update(&[0x80, 0, 0, 9]), Ok(9));
        assert_eq!(reset(&[0, 0, 0, 8]), Ok(ErrorCode::CANCEL));
        let gone = go_away(b"\x80\0\0\x05\0\0\0\x0bwhy");
        assert_eq!(gone, Ok((5, ErrorCode::ENHANCE_YOUR_CALM)));
        assert_eq!(priority_update(b"\0\0\0\x03u=1"), Ok((3, &b"u=1"[..])));
    }
}
