//! Fields into field sections, by the fixed table and as literals (RFC 9204 §4.5).

use exos_http2::hpack::encoder::{push_number, push_string};
use exos_http2::hpack::huffman;

use super::table::find;

/// A section of these fields.
pub fn section<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut section = Vec::new();
    begin(&mut section);
    for (name, value) in fields {
        push(&mut section, name.as_ref(), value.as_ref());
    }
    section
}

/// Appends what a section begins with: it needs no entries (§4.5.1).
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field.
pub fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match find(name, value) {
        Some((number, true)) => push_number(out, 0xc0, 6, number),
        Some((number, false)) => {
            push_number(out, 0x50, 4, number);
            push_string(out, value);
        }
        None => {
            let coded_len = huffman::coded_len(name);
            if coded_len < name.len() {
                push_number(out, 0x28, 3, coded_len as u32);
                huffman::encode(name, out);
            } else {
                push_number(out, 0x20, 3, name.len() as u32);
                out.extend_from_slice(name);
            }
            push_string(out, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use exos_http2::fields::Fields;

    use super::*;
    use crate::qpack::{STATIC, decoder};

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = vec![b'~'; 5000];
        let others: [(&[u8], &[u8]); 6] = [
            (b":status", b"201"),
            (b"etag", b"\"1\""),
            (b"x-long-name-of-a-field", b"a"),
            (b"~", b""),
            (b"x-long", &long),
            (b"x-bytes", &[0xff, 0x80]),
        ];
        let entries = STATIC.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        let all: Vec<(&[u8], &[u8])> = entries.chain(others).collect();
        let (mut section, mut fields) = (Vec::new(), Fields::new());
        begin(&mut section);
        for (name, value) in &all {
            push(&mut section, name, value);
        }
        decoder::decode(&section, |name, value| fields.push(name, value)).unwrap();
        assert_eq!(fields.iter().collect::<Vec<_>>(), all);
    }
}
