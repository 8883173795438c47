//! What is checked of `exos-dump`: any bytes become text, in every style, and quickly.

use exos_dump::text::{Printer, Rows, Style};
use exos_dump::{Origin, Packet};

/// Lines that one packet may take beside its bytes: an HTTP head with -v takes one for each of its
/// lines.
const TEXT_PER_BYTE: usize = 400;

/// A frame, preceded by a byte that says how much longer it was before it was cut: its text holds no
/// control characters but line feeds and tabs, ends, and is the same when asked for again.
pub fn text(data: &[u8]) {
    let Some((&more, bytes)) = data.split_first() else {
        return;
    };
    let packet = Packet {
        time_ns: 0,
        bytes,
        len: bytes.len() + usize::from(more),
        origin: Origin::default(),
    };
    for verbosity in 0..4 {
        for link_header in [false, true] {
            let rows = link_header.then_some(Rows {
                link_header: more & 1 != 0,
                characters: more & 2 != 0,
            });
            let style = Style {
                verbosity,
                link_header,
                absolute_seq: more & 4 != 0,
                rows,
            };
            let (mut first, mut second) = (String::new(), String::new());
            Printer::new(style).print(&packet, &mut first);
            Printer::new(style).print(&packet, &mut second);
            assert_eq!(first, second);
            assert!(
                first.len() <= TEXT_PER_BYTE * (bytes.len() + 10),
                "{} bytes of text",
                first.len()
            );
            let plain = |c: char| c == '\n' || c == '\t' || (' '..='~').contains(&c);
            assert!(first.chars().all(plain), "{first:?}");
        }
    }
}
