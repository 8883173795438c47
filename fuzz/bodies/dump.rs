//! What is checked of `exos-dump`: any bytes become text, in every style, and quickly.

use exos_dump::file::pcapng::{Interface, Writer};
use exos_dump::file::{CaptureReader, Item};
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

/// A capture file, whose packets are shown with the secrets that it brings along: read to its end or to an error, without a panic and without more packets than there
/// can be; what was read and is written again is read the same.
pub fn file(data: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(data) else {
        return;
    };
    let (mut count, mut copy) = (0, Vec::new());
    let mut writer = Writer::new(&mut copy).expect("memory takes everything");
    let mut times = Vec::new();
    let interface = Interface {
        name: "any",
        snaplen: 0,
        filter: "",
    };
    let number = writer
        .interface(interface)
        .expect("memory takes everything");
    let mut printer = Printer::new(Style::default());
    while let Ok(Some(item)) = reader.next_item() {
        let packet = match item {
            Item::Packet(packet) => packet,
            Item::Secrets(lines) => {
                printer.add_keys(lines);
                continue;
            }
        };
        let mut text = String::new();
        printer.print(&packet, &mut text);
        let plain = |c: char| c == '\n' || c == '\t' || (' '..='~').contains(&c);
        assert!(text.chars().all(plain), "{text:?}");
        count += 1;
        assert!(packet.bytes.len() <= packet.len.max(data.len()));
        // The smallest block of a packet.
        assert!(count <= data.len() / 16);
        writer
            .packet(number, &packet)
            .expect("memory takes everything");
        times.push((packet.time_ns, packet.bytes.len(), packet.origin.direction));
    }
    let mut again = CaptureReader::new(&copy[..]).expect("we wrote it");
    for (time_ns, len, direction) in times {
        let Ok(Some(Item::Packet(packet))) = again.next_item() else {
            panic!("we wrote one more");
        };
        assert_eq!((packet.time_ns, packet.bytes.len()), (time_ns, len));
        assert_eq!(packet.origin.direction, direction);
    }
    assert!(again.next_item().expect("we wrote it").is_none());
}
