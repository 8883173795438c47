//! What was read does not change, and is of one version of the file.

use crate::common::{content, open, read_all, serve};
use exos_file_cache::limits::EXTENT_LEN;
use exos_file_cache::{Error, Opened};
use exos_iolite::Aggregate;
use exos_replacement::PolicyName;
use exos_testing::Random;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn a_file_that_changes_is_another_version() {
    let place = serve(PolicyName::S3Fifo);
    let before = content(1, 2 * EXTENT_LEN);
    let path = place.file("file", &before);
    let mut client = place.client();
    let file = open(&mut client, &path);
    let first = client.read_at(&file, 0, EXTENT_LEN).expect("it is there");
    // Its length is the same, and its name.
    let after = content(2, 2 * EXTENT_LEN);
    std::fs::write(&path, &after).expect("room");
    assert!(first.to_vec() == before[..EXTENT_LEN]);
    let again = client
        .read_at(&file, 0, EXTENT_LEN)
        .expect("it is in memory");
    assert!(
        again.to_vec() == before[..EXTENT_LEN],
        "of the version that was opened"
    );
    let rest = client.read_at(&file, EXTENT_LEN as u64, EXTENT_LEN);
    assert!(matches!(rest, Err(Error::Changed)), "{rest:?}");
    assert!(read_all(&mut client, &path).to_vec() == after);
    assert!(first.to_vec() == before[..EXTENT_LEN]);
}

/// A writer fills a file with one byte after the other, in place, cut to nothing first, and by another in its place; what is read by reference is
/// never of two. Some thousand reads, and `EXOS_SEEDS` times as many where that is set.
#[test]
fn nothing_is_torn_by_a_writer() {
    let reads = exos_testing::cases(5_000);
    let place = serve(PolicyName::S3Fifo);
    let path = place.file("file", &[0; 50_000]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut random = Random(7);
            for byte in (0..=255)
                .cycle()
                .take_while(|_| !is_over.load(Ordering::Relaxed))
            {
                write(&path, byte, &mut random);
                // Sometimes it is left alone for long enough to be read.
                std::thread::sleep(Duration::from_micros(random.next() % 60_000));
            }
        });
        let mut client = place.client();
        let (mut by_reference, mut versions) = (0, std::collections::HashSet::new());
        let end = Instant::now() + Duration::from_secs(exos_testing::cases(300));
        let mut kept: Option<(u8, Aggregate)> = None;
        while by_reference < reads || versions.len() < 5 {
            assert!(
                Instant::now() < end,
                "{by_reference} reads, {} versions",
                versions.len()
            );
            let Ok(file) = std::fs::File::open(&path) else {
                continue;
            };
            let Opened::Shared(file) = client.open(&file).expect("it answers") else {
                continue;
            };
            match client.read_at(&file, 0, 50_000) {
                Ok(bytes) => {
                    let byte = assert_whole(&bytes);
                    by_reference += 1;
                    versions.insert(byte);
                    if let Some((byte, kept)) = kept.replace((byte, bytes)) {
                        assert_eq!(assert_whole(&kept), byte, "what was read has changed");
                    }
                }
                Err(Error::Changed) => {}
                Err(error) => panic!("{error}"),
            }
            client.close(file).expect("it serves");
        }
    });
}

/// Ends the writer with the test, however that ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn write(path: &std::path::Path, byte: u8, random: &mut Random) {
    let bytes = [byte; 50_000];
    match random.below(3) {
        0 => {
            let file = std::fs::File::options()
                .write(true)
                .open(path)
                .expect("it is there");
            file.write_all_at(&bytes, 0).expect("room");
        }
        1 => std::fs::write(path, bytes).expect("room"),
        _ => {
            let new = path.with_extension("new");
            let mut file = std::fs::File::create(&new).expect("room");
            file.write_all(&bytes).expect("room");
            std::fs::rename(&new, path).expect("room");
        }
    }
}

fn assert_whole(bytes: &Aggregate) -> u8 {
    let bytes = bytes.to_vec();
    assert_eq!(bytes.len(), 50_000);
    assert!(bytes == [bytes[0]; 50_000], "a torn file");
    bytes[0]
}
