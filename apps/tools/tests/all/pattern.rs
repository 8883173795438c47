//! What chargen sends.

use exos_tools::service::pattern;

/// The first lines as the RFC prints them, and the seam between two rounds.
#[test]
fn the_pattern_of_the_rfc_without_a_seam() {
    let buffer = pattern();
    let lines: Vec<&[u8]> = buffer.as_slice().split_inclusive(|&b| b == b'\n').collect();
    let first = br##" !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefg"##;
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
