//! What chargen sends: RFC 864's popular pattern.
//!
//! Lines of 72 of the 95 printing characters, each line beginning one character later than the last,
//! ended by CR LF. After 95 lines it repeats. One buffer of several such rounds is shared by all
//! connections; at any position of a stream, its byte is the buffer's at that position modulo its length.

use exos_buf::Buffer;

const LINE_CHARACTERS: usize = 72;
const LINE_LEN: usize = LINE_CHARACTERS + 2;
const PRINTING: usize = 95;

/// Rounds in the buffer: 450 kB, which stays in a core's cache and makes few slices of a window.
const ROUNDS: usize = 64;

/// The buffer, its checksums prepared.
pub fn pattern() -> Buffer {
    let mut bytes = Vec::with_capacity(ROUNDS * PRINTING * LINE_LEN);
    for line in 0..ROUNDS * PRINTING {
        let characters = (line..line + LINE_CHARACTERS).map(|n| b' ' + (n % PRINTING) as u8);
        bytes.extend(characters);
        bytes.extend(b"\r\n");
    }
    let buffer = Buffer::from(bytes);
    buffer.prepare_sums();
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first lines as the RFC prints them, and the seam between two rounds.
    #[test]
    fn the_pattern_of_the_rfc_without_a_seam() {
        let buffer = pattern();
        let lines: Vec<&[u8]> = buffer.as_slice().split_inclusive(|&b| b == b'\n').collect();
        let first =
            br##" !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefg"##;
        assert_eq!(&lines[0][..72], first);
        assert!(lines[1].starts_with(b"!\"#$") && lines[1].ends_with(b"gh\r\n"));
        assert_eq!(lines.len(), 95 * 64);
        for pair in lines.windows(2) {
            assert_eq!(pair[0].len(), 74);
            assert_eq!(pair[0][1..72], pair[1][..71]);
        }
        let (first, last) = (lines[0], lines[lines.len() - 1]);
        assert_eq!(
            last[1..72],
            first[..71],
            "the next buffer goes on where this one ends"
        );
    }
}
