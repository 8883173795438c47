//! What programs keep in their shares by policies of their own.

use crate::common::{Place, content, open, serve, wait_until};
use crate::own_policy::{ShortStay, count};
use exos_file_cache::limits::{BUFFER_LEN, EXTENT_LEN, MEMORY_MIN};
use exos_file_cache::{Client, Kept, KeptCounts, Status};
use exos_replacement::PolicyName;
use std::fs::File;
use std::path::{Path, PathBuf};

fn kept(place: &Place, policy: Box<dyn exos_replacement::Policy>) -> Kept {
    Kept::new(place.client(), policy).expect("it serves")
}

/// A file that is settled.
fn settled(place: &Place, name: &str, content: &[u8]) -> PathBuf {
    let path = place.file(name, content);
    let mut client = place.client();
    let file = open(&mut client, &path);
    client.close(file).expect("it serves");
    path
}

fn read(kept: &mut Kept, path: &Path) -> Vec<u8> {
    let file = kept.open(File::open(path).expect("it is there"));
    let file = file.expect("it serves").expect("it is settled");
    let mut all = Vec::new();
    loop {
        let bytes = kept.read_at(&file, all.len() as u64, usize::MAX);
        let bytes = bytes.expect("it is there").to_vec();
        if bytes.is_empty() {
            kept.close(file).expect("it serves");
            return all;
        }
        all.extend(bytes);
    }
}

/// What is kept is read without a question, in any part, and is what the file is.
#[test]
fn what_is_kept_is_not_asked_for_again() {
    let place = serve(PolicyName::S3Fifo);
    let text = content(1, EXTENT_LEN + 1000);
    let path = settled(&place, "file", &text);
    let mut kept = kept(&place, PolicyName::Lru.policy());
    for _ in 0..3 {
        assert!(read(&mut kept, &path) == text);
    }
    let file = kept.open(File::open(&path).expect("it is there"));
    let file = file.expect("it serves").expect("it is settled");
    for (offset, len, is) in [
        (7, 5, 7..12),
        (EXTENT_LEN - 2, 100, EXTENT_LEN - 2..EXTENT_LEN),
        (EXTENT_LEN + 999, 100, EXTENT_LEN + 999..EXTENT_LEN + 1000),
        (EXTENT_LEN + 1000, 1, 0..0),
    ] {
        let bytes = kept.read_at(&file, offset as u64, len);
        assert!(bytes.expect("it is there").to_vec() == text[is], "{offset}");
    }
    let KeptCounts { hits, misses, .. } = kept.counts();
    assert_eq!((hits, misses), (2 * 2 + 3, 2));
    // Another version is another file.
    let other = content(2, text.len());
    std::fs::write(&path, &other).expect("room");
    settled(&place, "meanwhile", b"text");
    while let Err(status) = kept
        .open(File::open(&path).expect("it is there"))
        .expect("it serves")
    {
        assert!(
            matches!(status, Status::Unsettled | Status::Changed),
            "{status:?}"
        );
    }
    assert!(read(&mut kept, &path) == other);
}

/// With each policy by name: what is kept is bounded, stays in memory whatever others read, and what is read is right.
#[test]
fn what_is_kept_stays_whatever_others_read() {
    for policy in PolicyName::ALL {
        let place = serve(PolicyName::Lru);
        let files: Vec<_> = (0..12)
            .map(|n| settled(&place, &format!("file{n}"), &content(n, EXTENT_LEN)))
            .collect();
        let mut kept = kept(&place, policy.policy());
        let limit = MEMORY_MIN / 4 / 2;
        for (n, path) in (0..).zip(&files) {
            assert!(read(&mut kept, path) == content(n, EXTENT_LEN), "{policy}");
        }
        let mut other = place.client();
        for n in 0..80 {
            let path = settled(&place, &format!("other{n}"), &content(n, EXTENT_LEN));
            let file = open(&mut other, &path);
            other.read_at(&file, 0, EXTENT_LEN).expect("it is there");
            other.close(file).expect("it serves");
        }
        let there = limit / EXTENT_LEN as u64;
        assert_eq!(kept.counts().given_up, 12 - there, "{policy}");
        let mut hits = 0;
        for (n, path) in files.iter().enumerate().rev() {
            let before = kept.counts().hits;
            let text = content(n as u64, EXTENT_LEN);
            assert!(read(&mut kept, path) == text, "{policy}");
            hits += kept.counts().hits - before;
        }
        assert_eq!(hits, there, "{policy}: the last that were read");
    }
}

/// Two that keep half of one share each, and one whose share others fill: neither is told at each read that there is no room.
#[test]
fn what_is_kept_leaves_room_for_what_is_read() {
    let place = serve(PolicyName::Lru);
    let files: Vec<_> = (0..12)
        .map(|n| settled(&place, &format!("file{n}"), &content(n, EXTENT_LEN)))
        .collect();
    let new = || Kept::new(place.client_of("one"), PolicyName::Lru.policy()).expect("it serves");
    let read_by = |both: &mut [Kept; 2]| {
        for (n, path) in (0..).zip(&files) {
            for kept in &mut *both {
                assert!(read(kept, path) == content(n, EXTENT_LEN));
            }
        }
    };
    let mut client = place.client_of("one");
    let mut told = || client.statistics().expect("it answers").over_share;
    read_by(&mut [new(), new()]);
    assert_eq!(told(), 0);
    let mut third = place.client_of("one");
    let held = [0, 1].map(|n| {
        let file = open(&mut third, &files[n]);
        third.read_at(&file, 0, EXTENT_LEN).expect("there is room")
    });
    // Once they know, the two keep less.
    let mut both = [new(), new()];
    read_by(&mut both);
    let before = told();
    read_by(&mut both);
    assert_eq!((told(), before > 0), (before, true));
    drop(held);
}

fn read_through(client: &mut Client, files: &[PathBuf]) {
    for path in files {
        let file = open(client, path);
        client.read_at(&file, 0, EXTENT_LEN).expect("it is there");
        client.close(file).expect("it serves");
    }
}

/// A program that walks through more than memory, with a policy of its own: what others use stays, and what it has left goes first.
#[test]
fn a_part_of_its_own_is_replaced_within() {
    let make = |place: &Place, name: &str, count: u64| -> Vec<PathBuf> {
        let make = |n| settled(place, &format!("{name}{n}"), &content(n, EXTENT_LEN));
        (0..count).map(make).collect()
    };
    for policy in PolicyName::ALL {
        let place = serve(PolicyName::Lru);
        let (used, walked) = (make(&place, "used", 20), make(&place, "walked", 60));
        let (mut other, mut walker) = (place.client(), place.client());
        walker.replace_by(policy).expect("it serves");
        read_through(&mut other, &used);
        read_through(&mut walker, &walked);
        let before = other.statistics().expect("it answers");
        assert!(before.evictions > 0, "{policy}: {before:?}");
        assert!(before.held <= (20 * EXTENT_LEN) as u64 + MEMORY_MIN / 4);
        read_through(&mut other, &used);
        let after = other.statistics().expect("it answers");
        assert_eq!(
            after.misses, before.misses,
            "{policy}: all of it has stayed"
        );
        // What another reads is everybody's, and stays when its program has ended; the rest goes first.
        let last = [walked[59].clone()];
        read_through(&mut walker, &last);
        read_through(&mut other, &last);
        drop(walker);
        wait_until(&mut other, |statistics| statistics.programs == 1);
        let more = make(&place, "more", 11);
        read_through(&mut other, &more);
        let before = other.statistics().expect("it answers");
        read_through(&mut other, &used);
        read_through(&mut other, &last);
        let after = other.statistics().expect("it answers");
        assert_eq!(after.misses, before.misses, "{policy}");
    }
}

/// The example: short files stay, by a policy that the program has written.
#[test]
fn a_program_has_a_policy_of_its_own() {
    let place = serve(PolicyName::Lru);
    let lens = [("a", 100), ("b", BUFFER_LEN + 1), ("c", 200), ("d", 300)];
    let paths = lens.map(|(name, len)| settled(&place, name, &vec![b'\n'; len]));
    let limit = 3 * BUFFER_LEN as u64;
    let mut kept = kept(&place, Box::new(ShortStay::default())).with_limit(limit);
    let mut count_all = |which: &[usize]| {
        let before = kept.counts();
        for n in which {
            let name = paths[*n].to_str().expect("it is text");
            let (bytes, lines) = count(&mut kept, name).expect("it is there");
            assert_eq!((bytes, lines), (lens[*n].1 as u64, lens[*n].1));
        }
        let after = kept.counts();
        (after.hits - before.hits, after.misses - before.misses)
    };
    assert_eq!(count_all(&[0, 1]), (0, 2));
    // The long one has gone for the short one.
    assert_eq!(count_all(&[2, 0, 2]), (2, 1));
    assert_eq!(count_all(&[3, 0, 3, 2]), (3, 1));
    // For the long one two of them go.
    assert_eq!(count_all(&[1, 1, 0, 2, 3]), (2, 3));
}
