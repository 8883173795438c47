//! tcpdump reads the same expressions over the same packets, from a file: where the two languages are meant to agree,
//! they do. Deliberate differences (`language` lists them) are kept out of the packets here: no tags, no malformed
//! or cut headers, no IPv6 extension headers, and no `vlan`.
//!
//! Skipped, with a line saying so, when tcpdump is not installed.

use crate::common;

use common::{PORTS, Random, V4, hex, v6};
use exos_filter::Filter;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A classic pcap file, microseconds, Ethernet; the packet's number is its time in seconds.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, packet) in packets.iter().enumerate() {
        for word in [i as u32 + 1, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// Packets that nobody could disagree about.
fn packet(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![
        2,
        0,
        0,
        0,
        0,
        1 + random.below(2) as u8,
        2,
        0,
        0,
        0,
        0,
        1 + random.below(2) as u8,
    ];
    let protocol = [1, 6, 17, 58, 132, 50][random.below(6)];
    match random.below(5) {
        0 => {
            frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
            frame.extend(V4[random.below(5)]);
            frame.extend([0; 6]);
            frame.extend(V4[random.below(5)]);
            return frame;
        }
        1 | 2 => {
            let fragment: u16 = [0, 0x4000, 0x2000, 0x2001, 0x00b9][random.below(5)];
            let words = 5 + random.below(3);
            frame.extend([8, 0, 0x40 | words as u8, 0, 0, 60, 0, 1]);
            frame.extend(fragment.to_be_bytes());
            frame.extend([64, protocol, 0, 0]);
            frame.extend([V4[random.below(5)], V4[random.below(5)]].concat());
            frame.extend(vec![1; words * 4 - 20]);
        }
        _ => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 60, protocol, 64]);
            frame.extend([v6(random), v6(random)].concat());
        }
    }
    frame.extend(PORTS[random.below(7)].to_be_bytes());
    frame.extend(PORTS[random.below(7)].to_be_bytes());
    frame.extend((0..20 + random.below(40)).map(|i| i as u8));
    frame
}

/// An expression that both read alike.
fn expression(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.one_in(2) {
        let (left, right) = (expression(random, depth - 1), expression(random, depth - 1));
        // No parentheses: precedence is compared as well.
        return match random.below(6) {
            0 => format!("{left} and {right}"),
            1 => format!("{left} or {right}"),
            2 => format!("({left}) and ({right})"),
            3 => format!("({left}) or ({right})"),
            4 => format!("{left} or not {right}"),
            _ => format!("not ({left})"),
        };
    }
    let direction = random.pick(&["", "src ", "dst ", "src or dst ", "src and dst "]);
    let v4 = std::net::Ipv4Addr::from(V4[random.below(5)]);
    let address = std::net::Ipv6Addr::from(v6(random));
    let port = PORTS[random.below(7)];
    match random.below(14) {
        0 | 1 => random
            .pick(&["ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6", "sctp"])
            .to_owned(),
        2 | 3 => format!(
            "{}{direction}port {port}",
            random.pick(&["", "tcp ", "udp ", "sctp "])
        ),
        4 => format!("{direction}port {port} or {}", PORTS[random.below(7)]),
        5 => format!(
            "{}{direction}portrange {}-{}",
            random.pick(&["", "tcp ", "udp "]),
            port.min(500),
            port.max(500)
        ),
        6 | 7 => format!("{}{direction}host {v4}", random.pick(&["", "ip ", "arp "])),
        8 => format!("{direction}host {address}"),
        9 => format!(
            "{direction}net {}",
            random.pick(&["10.0.0.0/8", "10.0.0.0/30", "10", "192.168", "fd10::/16"])
        ),
        10 => format!(
            "ether {}host 02:00:00:00:00:02",
            random.pick(&["", "src ", "dst "])
        ),
        11 => format!(
            "{} {}",
            random.pick(&["less", "greater"]),
            40 + random.below(80)
        ),
        12 => format!(
            "{}proto {}",
            random.pick(&["", "ip ", "ip6 "]),
            random.pick(&["6", "17", "\\udp", "1"])
        ),
        _ => random
            .pick(&[
                "ip[8] = 64",
                "ip[12:4] > 0x0a000001",
                "ip[0] & 0xf > 5",
                "ether[5] & 1 != 0",
                "ip[6:2] & 0x1fff = 0",
            ])
            .to_owned(),
    }
}

/// The numbers of the packets that tcpdump keeps; its error when it refuses the expression.
fn tcpdump(file: &Path, text: &str) -> Result<Vec<usize>, String> {
    let output = Command::new("tcpdump")
        .args(["-n", "-tt", "-q", "-r"])
        .arg(file)
        .arg(text)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let number = |line: &str| line.split_once('.')?.0.parse::<usize>().ok();
    let kept = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(number)
        .collect();
    Ok(kept)
}

/// A file that goes when the test ends.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn tcpdump_agrees() {
    let random = &mut Random(2024);
    let packets: Vec<Vec<u8>> = (0..400).map(|_| packet(random)).collect();
    let path = std::env::temp_dir().join(format!("exos-filter-{}.pcap", std::process::id()));
    let file = TemporaryFile(path);
    std::fs::File::create(&file.0)
        .unwrap()
        .write_all(&pcap(&packets))
        .unwrap();
    if let Err(error) = tcpdump(&file.0, "ip or not ip") {
        common::skipped(&format!("tcpdump_agrees: tcpdump cannot be run: {error}"));
        return;
    }
    let mut hits = 0;
    for _ in 0..250 {
        let depth = random.below(3);
        let text = expression(random, depth);
        let filter = Filter::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let kept = match tcpdump(&file.0, &text) {
            Ok(kept) => kept,
            // It refuses expressions that its optimiser finds to be constant.
            Err(error) if error.contains("rejects all packets") => Vec::new(),
            Err(error) => panic!("{text}: {error}"),
        };
        for (i, packet) in packets.iter().enumerate() {
            let theirs = kept.contains(&(i + 1));
            assert_eq!(
                filter.matches(packet),
                theirs,
                "`{text}` on {}: tcpdump says {theirs}",
                hex(packet)
            );
        }
        hits += kept.len();
    }
    assert!(hits > 10_000, "the packets hardly match anything: {hits}");
}
