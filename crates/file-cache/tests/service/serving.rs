//! What is shared, what has to go, and what is not taken.

use crate::common::{content, open, read_all, serve, wait_until};
use crate::hostile::{ask_with, raw};
use exos_file_cache::limits::{BUFFER_LEN, EXTENT_LEN, FILES_MAX, MEMORY_MAX, MEMORY_MIN};
use exos_file_cache::{Client, Error, Opened, Options, Request, Service, Status};
use exos_replacement::PolicyName;
use std::os::fd::{AsRawFd as _, OwnedFd};

#[test]
fn two_programs_share_one_copy() {
    let place = serve(PolicyName::S3Fifo);
    let text = content(1, 3 * EXTENT_LEN + 5);
    let path = place.file("file", &text);
    let (mut one, mut other) = (place.client(), place.client());
    let first = read_all(&mut one, &path);
    let second = read_all(&mut other, &path);
    assert!(first.to_vec() == text && second.to_vec() == text);
    let statistics = other.statistics().expect("it answers");
    let buffers = text.len().div_ceil(BUFFER_LEN);
    assert_eq!(statistics.held, (buffers * BUFFER_LEN) as u64);
    assert_eq!(statistics.read_bytes, text.len() as u64);
    assert_eq!(statistics.misses, 4);
    assert!(statistics.hits >= 4, "{statistics:?}");
    assert_eq!(statistics.programs, 2);
}

#[test]
fn any_part_is_read() {
    let place = serve(PolicyName::Lru);
    let len = EXTENT_LEN + 1000;
    let text = content(2, len);
    let path = place.file("file", &text);
    let mut client = place.client();
    let file = open(&mut client, &path);
    for (offset, wanted) in [
        (0, 1),
        (1, 70_000),
        (EXTENT_LEN - 1, 2),
        (EXTENT_LEN, 1000),
        (len - 1, 1000),
        (len, 1),
        (usize::MAX, usize::MAX),
    ] {
        let bytes = client
            .read_at(&file, offset as u64, wanted)
            .expect("it is there");
        let start = offset.min(len);
        let end = start.saturating_add(wanted).min(len);
        assert!(bytes.to_vec() == text[start..end], "{offset} {wanted}");
    }
}

/// With each policy: what is read is right, memory is bounded, and what a program has is not replaced.
#[test]
fn more_files_than_memory() {
    for policy in PolicyName::ALL {
        let place = serve(policy);
        let mut client = place.client();
        let kept = content(0, 100_000);
        let path = place.file("kept", &kept);
        let held = read_all(&mut client, &path);
        let files: Vec<_> = (1..40)
            .map(|n| place.file(&n.to_string(), &content(n, 600_000)))
            .collect();
        for _ in 0..2 {
            for (n, path) in files.iter().enumerate() {
                let read = read_all(&mut client, path);
                assert!(
                    read.to_vec() == content(n as u64 + 1, 600_000),
                    "{policy}, file {n}"
                );
            }
        }
        assert!(held.to_vec() == kept, "{policy}");
        let statistics = client.statistics().expect("it answers");
        assert!(
            statistics.evictions > 0 && statistics.held <= MEMORY_MIN,
            "{policy}: {statistics:?}"
        );
        let before = statistics.misses;
        assert!(read_all(&mut client, &path).to_vec() == kept, "{policy}");
        let statistics = client.statistics().expect("it answers");
        assert_eq!(
            statistics.misses, before,
            "{policy}: what a program has stays"
        );
    }
}

/// A program holds a slice of each of more extents than are looked at when one has to go: others are served from the rest.
#[test]
fn what_one_program_holds_keeps_no_other_out() {
    for policy in PolicyName::ALL {
        let place = serve(policy);
        let (mut holder, mut other) = (place.client(), place.client());
        let held: Vec<_> = (0..120)
            .map(|n| {
                let path = place.file(&format!("small{n}"), &content(n, 500));
                (n, read_all(&mut holder, &path))
            })
            .collect();
        for n in 0..30 {
            let text = content(n + 1000, 600_000);
            let path = place.file(&format!("large{n}"), &text);
            assert!(read_all(&mut other, &path).to_vec() == text, "{policy}");
        }
        let statistics = other.statistics().expect("it answers");
        assert_eq!(statistics.failed, 0, "{policy}: {statistics:?}");
        assert!(statistics.evictions > 0, "{policy}: {statistics:?}");
        assert!(
            statistics.pinned <= 120,
            "{policy}: each is passed over once: {statistics:?}"
        );
        for (n, bytes) in &held {
            assert!(bytes.to_vec() == content(*n, 500), "{policy}");
        }
        // They go like others when nobody has them any more.
        drop((held, holder));
        wait_until(&mut other, |statistics| statistics.programs == 1);
        for round in 0..3 {
            for n in 0..30 {
                let path = place.path(&format!("large{n}"));
                assert!(read_all(&mut other, &path).len() == 600_000, "{policy}");
            }
            let statistics = other.statistics().expect("it answers");
            assert_eq!(statistics.failed, 0, "{policy}, {round}: {statistics:?}");
        }
    }
}

/// Stores into a mapping change no time of a tmpfs, registers in /sys none at all.
#[test]
fn files_whose_times_do_not_tell_are_not_taken() {
    let place = serve(PolicyName::S3Fifo);
    let mut client = place.client();
    let memory = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC);
    let memory = memory.expect("memory");
    rustix::io::write(&memory, b"text").expect("room");
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let in_memory = std::fs::File::open(path).expect("it is ours");
    drop(memory);
    let of_kernel = std::fs::File::open("/sys/kernel/notes");
    for file in [Ok(in_memory), of_kernel].into_iter().flatten() {
        let opened = client.open(&file).expect("it answers");
        assert!(
            matches!(opened, Opened::Not(Status::Unsuitable)),
            "{file:?}: {opened:?}"
        );
    }
}

#[test]
fn what_is_no_file_to_keep_is_not_taken() {
    let place = serve(PolicyName::S3Fifo);
    let mut client = place.client();
    let path = place.file("file", b"text");
    let _ = open(&mut client, &path);
    let writing = || {
        std::fs::File::options()
            .write(true)
            .open(&path)
            .expect("it is there")
    };
    let both = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .expect("it is there")
    };
    let (pipe, _end) = std::io::pipe().expect("descriptors");
    let by_path = rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let unsuitable: [(&str, OwnedFd); 7] = [
        ("for writing", writing().into()),
        ("for both", both().into()),
        ("a name", by_path.expect("it is there")),
        (
            "a folder",
            std::fs::File::open(place.folder.path())
                .expect("it is there")
                .into(),
        ),
        ("a pipe", pipe.into()),
        (
            "a device",
            std::fs::File::open("/dev/zero")
                .expect("Linux has it")
                .into(),
        ),
        (
            "made up",
            std::fs::File::open("/proc/self/status")
                .expect("Linux has it")
                .into(),
        ),
    ];
    let asks = raw(&place.socket);
    for (what, file) in unsuitable {
        let file = std::fs::File::from(file);
        let opened = client.open(&file).expect("it answers");
        assert!(
            matches!(opened, Opened::Not(Status::Unsuitable)),
            "{what}: {opened:?}"
        );
        // Nor where the program does not look what it is.
        let refused = client.statistics().expect("it answers").refused;
        ask_with(&asks, Request::Open { file: 0 }, &file);
        wait_until(&mut client, |statistics| statistics.refused == refused + 1);
    }
    let writer = writing();
    let file = std::fs::File::open(&path).expect("it is there");
    let opened = client.open(&file).expect("it answers");
    assert!(matches!(opened, Opened::Not(Status::Writing)), "{opened:?}");
    drop(writer);
    let _ = open(&mut client, &path);
}

#[test]
fn a_program_has_so_many_files() {
    let place = serve(PolicyName::S3Fifo);
    let path = place.file("file", b"text");
    let mut client = place.client();
    let mut files: Vec<_> = (0..FILES_MAX).map(|_| open(&mut client, &path)).collect();
    let file = std::fs::File::open(&path).expect("it is there");
    let opened = client.open(&file).expect("it answers");
    assert!(matches!(opened, Opened::Not(Status::TooMany)), "{opened:?}");
    client
        .close(files.pop().expect("there are some"))
        .expect("it serves");
    let opened = client.open(&file).expect("it answers");
    assert!(matches!(opened, Opened::Shared(_)), "{opened:?}");
}

#[test]
fn there_is_one_service_and_errors_say_what_to_do() {
    let place = serve(PolicyName::S3Fifo);
    let make = |path: &std::path::Path, memory| {
        Service::new(
            path,
            Options {
                memory,
                policy: PolicyName::Lru.policy(),
                users: Vec::new(),
            },
        )
    };
    let taken = make(&place.socket, MEMORY_MIN).expect_err("one runs");
    assert!(matches!(taken, Error::Taken(_)), "{taken}");
    for memory in [0, MEMORY_MIN - 1, MEMORY_MAX + 1, u64::MAX] {
        let error = make(&place.path("other"), memory).expect_err("no memory for a cache");
        assert!(matches!(error, Error::Memory(_)), "{error}");
    }
    let nobody = Client::connect(&place.path("nobody")).expect_err("nobody serves");
    assert!(nobody.to_string().contains("exos file-cache"), "{nobody}");
    let ours = place.path("short-lived");
    drop(make(&ours, MEMORY_MIN).expect("it is free"));
    assert!(!ours.exists(), "its name goes with it");
    let mut client = place.client();
    wait_until(&mut client, |statistics| statistics.programs == 1);
}
