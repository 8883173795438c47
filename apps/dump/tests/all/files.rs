//! Captures: what is written is read again, by us and by others, and damage is told apart from an end.

use crate::common;

use std::process::Command;
use std::rc::Rc;

use common::{Captured, Random, have, packets, pcap};
use exos_dump::file::pcapng::{Interface, Writer};
use exos_dump::file::{CaptureReader, FileError, Item};
use exos_dump::text::{Printer, Style};
use exos_dump::{Direction, Origin, Packet, Verdict};

/// A packet with all that can be known of it.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    time_ns: u64,
    bytes: Vec<u8>,
    len: usize,
    origin: Origin,
}

impl Known {
    fn packet(&self) -> Packet<'_> {
        Packet {
            time_ns: self.time_ns,
            bytes: &self.bytes,
            len: self.len,
            origin: self.origin.clone(),
        }
    }
}

fn known(random: &mut Random, number: u64) -> Known {
    let bytes = packets::plain_udp(random);
    let direction = random.pick(&[None, Some(Direction::In), Some(Direction::Out)]);
    let verdict = match random.below(3) {
        0 => None,
        1 => Some(Verdict {
            name: "wire".into(),
            is_drop: false,
        }),
        _ => Some(Verdict {
            name: "tx_bad_source".into(),
            is_drop: true,
        }),
    };
    Known {
        time_ns: 1_700_000_000_123_456_789 + number,
        len: bytes.len() + random.below(2) * 100,
        bytes,
        origin: Origin {
            interface: Some(Rc::from(["eth0", "eth1"][random.below(2)])),
            direction,
            program: random.one_in(2).then(|| Rc::from("my server")),
            slot: random.one_in(2).then(|| random.below(256) as u16),
            verdict,
        },
    }
}

fn write(packets: &[Known], lost: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for name in ["eth0", "eth1"] {
        let filter = "udp";
        writer
            .interface(Interface {
                name,
                snaplen: 0,
                filter,
            })
            .unwrap();
    }
    for packet in packets {
        let number = u32::from(packet.origin.interface.as_deref() == Some("eth1"));
        writer.packet(number, &packet.packet()).unwrap();
    }
    writer.statistics(0, 5, packets.len() as u64, lost).unwrap();
    file
}

/// All packets, and how it ended: what was lost, or what is wrong.
fn read(file: &[u8]) -> (Vec<Known>, Result<u64, FileError>) {
    let mut all = Vec::new();
    let mut reader = match CaptureReader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (all, Err(error)),
    };
    loop {
        match reader.next_item() {
            Ok(Some(Item::Secrets(_))) => {}
            Ok(Some(Item::Packet(packet))) => all.push(Known {
                time_ns: packet.time_ns,
                bytes: packet.bytes.to_vec(),
                len: packet.len,
                origin: packet.origin,
            }),
            Ok(None) => return (all, Ok(reader.lost())),
            Err(error) => return (all, Err(error)),
        }
    }
}

fn some(count: u64) -> Vec<Known> {
    let mut random = Random(5);
    (0..count).map(|i| known(&mut random, i)).collect()
}

#[test]
fn what_is_written_is_read() {
    let packets = some(100);
    let (again, end) = read(&write(&packets, 17));
    assert_eq!(again, packets);
    assert_eq!(end.unwrap(), 17);
}

/// A file that ends in the middle: the packets before that are read, then an error says where.
#[test]
fn a_file_cut_anywhere_gives_what_is_whole_and_then_an_error() {
    let packets = some(4);
    let file = write(&packets, 0);
    let mut whole = 0;
    for len in 0..file.len() {
        let (again, end) = read(&file[..len]);
        assert_eq!(again[..], packets[..again.len()]);
        whole += usize::from(end.is_ok());
        if let Err(error) = end {
            assert!(error.to_string().contains("at byte "), "{error}");
            assert!(error.to_string().contains("the file ends"), "{error}");
        }
    }
    // Behind the section's header, two interfaces and each packet it may end.
    assert_eq!(whole, 1 + 2 + packets.len());
}

#[test]
fn a_program_cannot_forge_a_verdict_by_its_name() {
    let mut packet = some(1).remove(0);
    packet.origin.program = Some(Rc::from("a, dropped x\x1b[31m\n"));
    packet.origin.verdict = None;
    let (again, _) = read(&write(&[packet], 0));
    assert_eq!(again[0].origin.verdict, None);
    assert_eq!(
        again[0].origin.program.as_deref(),
        Some("a_ dropped x_[31m_")
    );
}

/// A classic file in both byte orders and both units of time.
#[test]
fn classic_files_are_read() {
    let packet = packets::plain_udp(&mut Random(1));
    for (magic, fraction) in [(0xa1b2_c3d4_u32, 1000), (0xa1b2_3c4d, 1)] {
        for big in [false, true] {
            let word = |value: u32| {
                if big {
                    value.to_be_bytes()
                } else {
                    value.to_le_bytes()
                }
            };
            let version = u32::from_le_bytes(if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
            let version = if big { version.swap_bytes() } else { version };
            let mut file: Vec<u8> = [magic, version, 0, 0, 65535, 1]
                .into_iter()
                .flat_map(word)
                .collect();
            file.extend(
                [7, 123_456, packet.len() as u32, 2000]
                    .into_iter()
                    .flat_map(word),
            );
            file.extend(&packet);
            let (again, end) = read(&file);
            assert_eq!(end.unwrap(), 0);
            assert_eq!(again[0].bytes, packet);
            assert_eq!(
                (again[0].time_ns, again[0].len),
                (7_000_000_000 + 123_456 * fraction, 2000)
            );
        }
    }
}

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let word = |value: u32| {
        if big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let len = word(body.len() as u32 + 12);
    [&word(kind)[..], &len, body, &len].concat()
}

/// Blocks as others write them: big-endian, a unit of time that is a power of two, an offset, unknown
/// blocks and options, simple packets, statistics that tell of losses, and a second section.
#[test]
fn what_others_write_is_read() {
    let packet = packets::plain_udp(&mut Random(3));
    let padded = [&packet[..], &[0; 3][..packet.len().wrapping_neg() & 3]].concat();
    let section = |big: bool| {
        let magic = 0x1a2b_3c4d_u32;
        let magic = if big {
            magic.to_be_bytes()
        } else {
            magic.to_le_bytes()
        };
        let version = if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
        block(
            0x0a0d_0d0a,
            &[&magic[..], &version, &[0xff; 8]].concat(),
            big,
        )
    };
    let mut file = section(true);
    // Link type 1, snap length 20, an unknown option, units of 2^-1 s, ten seconds more.
    let described = [
        0, 1, 0, 0, 0, 0, 0, 20, 0x77, 0x77, 0, 1, 9, 0, 0, 0, 0, 9, 0, 1, 0x81, 0, 0, 0, 0, 14, 0,
        8, 0, 0, 0, 0, 0, 0, 0, 10,
    ];
    file.extend(block(1, &described, true));
    file.extend(block(0x0bad, &[1, 2, 3, 4], true));
    let len = (packet.len() as u32).to_be_bytes();
    file.extend(block(
        6,
        &[
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5][..],
            &len,
            &len,
            &padded,
            &[0, 4, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3],
        ]
        .concat(),
        true,
    ));
    file.extend(block(3, &[&len[..], &padded[..20]].concat(), true));
    file.extend(block(
        5,
        &[
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9,
        ],
        true,
    ));
    file.extend(section(false));
    file.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0], false));
    let len = (packet.len() as u32).to_le_bytes();
    file.extend(block(
        6,
        &[
            &[0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0][..],
            &len,
            &len,
            &padded,
        ]
        .concat(),
        false,
    ));
    let (again, end) = read(&file);
    assert_eq!(end.unwrap(), 12);
    assert_eq!(again.len(), 3);
    assert_eq!(
        (again[0].time_ns, &again[0].bytes),
        (12_500_000_000, &packet)
    );
    assert_eq!(
        (again[1].len, &again[1].bytes[..]),
        (packet.len(), &packet[..20])
    );
    assert_eq!((again[2].time_ns, &again[2].bytes), (5000, &packet));
}

#[test]
fn wrong_lengths_and_strange_contents_are_refused_by_name() {
    let mut packets = some(1);
    packets[0].origin.interface = Some(Rc::from("eth0"));
    let file = write(&packets, 0);
    let header = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let at = |offset: usize, bytes: &[u8]| {
        let mut damaged = file.clone();
        damaged[offset..offset + bytes.len()].copy_from_slice(bytes);
        read(&damaged).1.expect_err("damaged").to_string()
    };
    assert!(at(0, b"x").contains("neither a pcapng nor a pcap file"));
    assert!(at(4, &[1]).contains("a section header of"));
    assert!(at(8, &[1]).contains("no byte order mark"));
    assert!(at(12, &[2]).contains("pcapng version 2"));
    assert!(at(header + 4, &[0xff, 0xff, 0xff, 0x7f]).contains("lengths are multiples of 4"));
    assert!(at(header + 4, &[8, 0]).contains("lengths are multiples of 4"));
    assert!(at(header + 8, &[113]).contains("link type 113: only Ethernet"));
    assert!(at(header + 18, &[0xff]).contains("longer than its block"));
}

/// tcpdump says of our file what it says of the same packets in a classic one.
#[test]
fn tcpdump_reads_what_we_write() {
    if !have("tcpdump") {
        return;
    }
    let packets = some(100);
    let classic: Vec<Captured> = packets
        .iter()
        .map(|known| Captured {
            bytes: known.bytes.clone(),
            len: known.len,
        })
        .collect();
    let ours = common::tcpdump(&write(&packets, 3), &["-t"]);
    assert_eq!(ours, common::tcpdump(&pcap(&classic), &["-t"]));
    let mut printer = Printer::new(Style::default());
    for (packet, theirs) in packets.iter().zip(&ours) {
        let mut text = String::new();
        printer.print(&packet.packet(), &mut text);
        assert_eq!(&text, theirs);
    }
    let times = common::tcpdump(&write(&packets[..1], 0), &["-tt"]);
    assert!(times[0].starts_with("1700000000.123456"), "{}", times[0]);
}

/// Wireshark's reader finds interfaces, directions, comments and the number of packets.
#[test]
fn tshark_reads_what_we_write() {
    if !have("tshark") {
        return;
    }
    let packets = some(20);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, write(&packets, 3)).unwrap();
    let fields = [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.comment",
        "frame.len",
    ];
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-n", "-T", "fields", "-E", "separator=|", "-r"])
        .arg(file.path());
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected: Vec<String> = packets
        .iter()
        .map(|known| {
            let origin = &known.origin;
            let direction = match origin.direction {
                None => "",
                Some(Direction::In) => "1",
                Some(Direction::Out) => "2",
            };
            let comment = exos_dump::file::pcapng::comment::write(origin).unwrap_or_default();
            format!(
                "{}|{direction}|{comment}|{}",
                origin.interface.as_deref().unwrap(),
                known.len
            )
        })
        .collect();
    let same = |(ours, theirs): (&String, &str)| {
        // A direction that is unknown is shown as 0 or not at all, by version.
        let theirs = theirs
            .replace("0x00000001", "1")
            .replace("0x00000002", "2")
            .replace("|0x00000000|", "||");
        assert_eq!(*ours, theirs);
    };
    assert_eq!(text.lines().count(), expected.len(), "{text}");
    expected.iter().zip(text.lines()).for_each(same);
}
