//! Packets to show: made of random but honest fields, and some made by hand.
pub mod packets;

pub use exos_testing::Random;
use std::process::{Command, Stdio};

/// A packet as it lies in a file: its captured bytes, and how many it had.
#[derive(Clone, Debug)]
pub struct Captured {
    pub bytes: Vec<u8>,
    pub len: usize,
}

impl From<Vec<u8>> for Captured {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self { bytes, len }
    }
}

impl Captured {
    /// This packet as a capture with this snap length has it.
    pub fn cut(&self, snaplen: usize) -> Self {
        let mut cut = self.clone();
        cut.bytes.truncate(snaplen);
        cut
    }
}

/// A classic pcap file, microseconds, Ethernet; the packet's number is its time in seconds.
pub fn pcap(packets: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 2 | 4 << 16, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, packet) in packets.iter().enumerate() {
        for word in [
            i as u32 + 1,
            0,
            packet.bytes.len() as u32,
            packet.len as u32,
        ] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&packet.bytes);
    }
    file
}

/// True when this program can be run; else says that something is skipped.
pub fn have(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// What tcpdump says of this file, one text for each packet. `-#` has it number them, so that it is
/// known where each begins.
pub fn tcpdump(file: &[u8], options: &[&str]) -> Vec<String> {
    let capture = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&capture, file).expect("a file to be written");
    let output = Command::new("tcpdump")
        .args(["-n", "-#"])
        .args(options)
        .arg("-r")
        .arg(capture.path())
        .output()
        .expect("tcpdump runs");
    let text = String::from_utf8(output.stdout).expect("tcpdump writes ASCII");
    let mut packets: Vec<String> = Vec::new();
    for line in text.lines() {
        let number = format!("{:5}  ", packets.len() + 1);
        match (line.strip_prefix(&number), packets.last_mut()) {
            (Some(text), _) => packets.push(text.to_owned()),
            (None, Some(last)) => *last += &format!("\n{line}"),
            (None, None) => panic!("tcpdump begins with {line}"),
        }
    }
    packets
}
