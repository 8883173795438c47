//! What several test files share: the captured frames and a small seeded generator.
pub mod generate;

use std::path::Path;

/// One captured frame and where it came from.
pub struct Captured {
    /// File name and number of the frame, from 1 on as tcpdump prints them.
    pub name: String,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// Every frame of every capture in `tests/data`.
pub fn captured() -> Vec<Captured> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    files.sort();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "pcap")
    });
    let frames: Vec<_> = files.iter().flat_map(|path| read_pcap(path)).collect();
    assert!(
        frames.len() > 200,
        "the captures are missing: {} frames",
        frames.len()
    );
    frames
}

/// Reads the classic format: a file header of 24 bytes, then records of a header of 16 bytes, whose
/// third word is the length, and the frame. Little-endian, as the machine that wrote it.
fn read_pcap(path: &Path) -> Vec<Captured> {
    let file = std::fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy();
    let (header, mut rest) = file.split_at(24);
    assert_eq!(
        header[..4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        "{name} is no pcap file"
    );
    assert_eq!(
        header[20..],
        [1, 0, 0, 0],
        "{name} holds no Ethernet frames"
    );
    let mut frames = Vec::new();
    while let Some((record, after)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
        let (frame, after) = after.split_at(len);
        let name = format!("{name}:{}", frames.len() + 1);
        frames.push(Captured {
            name,
            bytes: frame.to_vec(),
        });
        rest = after;
    }
    assert!(rest.is_empty());
    frames
}
