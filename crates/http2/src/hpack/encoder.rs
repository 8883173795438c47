//! Fields into header blocks, without a table of our own (RFC 7541 §6).
//!
//! A block that names fixed entries alone, and has everything else in it, means the same wherever it stands and however often: it
//! can be made once and sent on all connections.

use super::huffman;
use super::table::find_static;

/// Appends a field that a fixed entry has, or of which one has the name, or that is all in it.
pub fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match find_static(name, value) {
        Some((number, true)) => push_indexed(out, number),
        Some((number, false)) => {
            push_number(out, 0, 4, number);
            push_string(out, value);
        }
        None => {
            out.push(0);
            push_string(out, name);
            push_string(out, value);
        }
    }
}

/// A block of these fields.
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        push(&mut block, name.as_ref(), value.as_ref());
    }
    block
}

/// Appends a field that an entry has (§6.1).
pub fn push_indexed(out: &mut Vec<u8>, number: u32) {
    push_number(out, 0x80, 7, number);
}

/// Appends a field that the peer adds to its table (§6.2.1), with the name of a fixed entry where one has it.
pub fn push_kept(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match find_static(name, value) {
        Some((number, _)) => push_number(out, 0x40, 6, number),
        None => {
            out.push(0x40);
            push_string(out, name);
        }
    }
    push_string(out, value);
}

/// Appends a number behind the upper bits of its first byte (§5.1).
pub fn push_number(out: &mut Vec<u8>, first: u8, prefix_bits: u32, number: u32) {
    let mask = (1u32 << prefix_bits) - 1;
    if number < mask {
        return out.push(first | number as u8);
    }
    out.push(first | mask as u8);
    let mut rest = number - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a string, coded where that is shorter (§5.2).
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    let coded_len = huffman::coded_len(text);
    if coded_len < text.len() {
        push_number(out, 0x80, 7, coded_len as u32);
        huffman::encode(text, out);
    } else {
        push_number(out, 0, 7, text.len() as u32);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    #[test]
    fn what_is_encoded_is_decoded() {
        let long = vec![b'~'; 5000];
        let fields: [(&[u8], &[u8]); 7] = [
            (b":status", b"200"),
            (b":status", b"503"),
            (b"server", b"exos"),
            (b"x-frame-options", b"DENY"),
            (b"etag", b""),
            (b"x-long", &long),
            (b"x-bytes", &[0xff, 0x80]),
        ];
        let mut block = Vec::new();
        fields
            .iter()
            .for_each(|(name, value)| push(&mut block, name, value));
        let mut decoder = Decoder::new(4096);
        for _ in 0..2 {
            let mut left = fields.iter();
            let mut check = |name: &[u8], value: &[u8]| {
                assert_eq!(left.next(), Some(&(name, value)));
            };
            decoder.decode(&block, &mut check).unwrap();
            assert_eq!(left.len(), 0);
        }
        assert_eq!(decoder.changes(), 0, "nothing is kept");
    }

    #[test]
    fn kept_fields_are_named_afterwards() {
        let mut block = Vec::new();
        push_number(&mut block, 0x20, 5, 200);
        push_kept(&mut block, b"user-agent", b"exos");
        push_kept(&mut block, b"x-a", b"b");
        push_indexed(&mut block, 63);
        let (mut decoder, mut names) = (Decoder::new(4096), Vec::new());
        decoder
            .decode(&block, |name, _| names.push(name.to_vec()))
            .unwrap();
        assert_eq!(names, [&b"user-agent"[..], b"x-a", b"user-agent"]);
    }

    /// RFC 7541 §C.1.
    #[test]
    fn numbers_of_the_rfc() {
        for (number, prefix, bytes) in [
            (10, 5, &[10][..]),
            (1337, 5, &[31, 154, 10]),
            (42, 8, &[42]),
        ] {
            let mut out = Vec::new();
            push_number(&mut out, 0, prefix, number);
            assert_eq!(out, bytes);
        }
    }
}
