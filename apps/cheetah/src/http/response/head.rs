//! The heads of responses: finding where a prepared one ends, and making one for a single response.

use exos_buf::{Buffer, Slice};

use crate::message::Version;

/// Appends a response with a head made for it alone: its first lines formatted, its fields copied behind them.
#[inline(never)]
pub(crate) fn make_afresh(opening: &Slice, response: &[Slice], out: &mut Vec<Slice>) {
    let mut head = opening.as_bytes().to_vec();
    let mut left = len_of(response, Version::Http11) - response[0].len();
    let mut body = Vec::new();
    for slice in &response[1..] {
        let of_head = slice.len().min(left);
        left -= of_head;
        slice.sub(0..of_head).append_to(&mut head);
        body.extend((of_head < slice.len()).then(|| slice.sub(of_head..slice.len())));
    }
    out.push(Buffer::from(head).into());
    out.extend(body);
}

/// The length of a response's head. It ends with an empty line, which is within one slice: the line before it is of
/// the same document's or part's fields. In HTTP/2 it is the first two slices.
pub(crate) fn len_of(response: &[Slice], version: Version) -> usize {
    if version.has_streams() {
        return response.iter().take(2).map(Slice::len).sum();
    }
    let mut before = 0;
    for slice in response {
        if let Some(end) = end_of_head(slice.as_bytes()) {
            return before + end;
        }
        before += slice.len();
    }
    before
}

/// Where the empty line ends, looking at every fourth byte or so.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut at = 3;
    loop {
        at += match bytes.get(at)? {
            b'\n' if bytes[..=at].ends_with(b"\r\n\r\n") => return Some(at + 1),
            b'\r' | b'\n' => 1,
            _ => 4,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is() {
        for len in 0..40 {
            let head = [&vec![b'x'; len][..], b"\r\n\r\n"].concat();
            for body in [&b""[..], b"\r\n\r\n", b"body"] {
                let bytes = [&head, body].concat();
                assert_eq!(end_of_head(&bytes), Some(len + 4), "{bytes:?}");
            }
            assert_eq!(end_of_head(&head[..len + 3]), None);
        }
    }
}
