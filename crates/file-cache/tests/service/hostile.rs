//! Programs and services that do as they like.

use crate::common::{content, open, read_all, serve, wait_until};
use exos_file_cache::limits::{EXTENT_LEN, SESSIONS_MAX};
use exos_file_cache::{Client, Error, Request};
use exos_iolite::{Aggregate, Options, Pool, Sender, Shape, Slice};
use exos_replacement::PolicyName;
use exos_testing::Random;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    connect, listen, recv, send, socket_with,
};
use std::os::fd::OwnedFd;
use std::path::Path;

fn packets() -> OwnedFd {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    );
    socket.expect("descriptors")
}

fn raw(path: &Path) -> OwnedFd {
    let socket = packets();
    connect(&socket, &SocketAddrUnix::new(path).expect("short")).expect("it serves");
    socket
}

fn bytes(words: [u64; exos_file_cache::WORDS]) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn a_program_that_breaks_the_rules_is_left() {
    let place = serve(PolicyName::S3Fifo);
    let path = place.file("file", &content(1, 100_000));
    let mut client = place.client();
    let file = open(&mut client, &path);
    let mut random = Random(3);
    let mut any = [[0; 4]; 20];
    any.iter_mut()
        .flatten()
        .for_each(|word| *word = random.next());
    let known = [
        vec![1, 2, 3],
        vec![0; 100],
        bytes(Request::Open { file: 1 }.words()),
        bytes(
            Request::Read {
                file: 1,
                offset: 0,
                len: 1,
            }
            .words(),
        ),
        bytes([9, 0, 0, 0]),
    ];
    for (faults, message) in (1..).zip(known.into_iter().chain(any.map(bytes))) {
        let socket = raw(&place.socket);
        send(&socket, &message, SendFlags::NOSIGNAL).expect("it takes that");
        wait_until(&mut client, |statistics| {
            statistics.faults == faults && statistics.programs == 1
        });
    }
    let read = client
        .read_at(&file, 0, 100_000)
        .expect("others are served");
    assert!(read.to_vec() == content(1, 100_000));
}

/// It asks and asks, and takes no answer: what it may have of the memory it has, and others are served.
#[test]
fn a_program_that_takes_no_answers_holds_nobody_up() {
    let place = serve(PolicyName::S3Fifo);
    let path = place.file("file", &content(1, 4 * EXTENT_LEN));
    let mut client = place.client();
    read_all(&mut client, &path);
    let socket = raw(&place.socket);
    for _ in 0..1000 {
        let ask = bytes(Request::Statistics.words());
        if send(&socket, &ask, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            break;
        }
    }
    for _ in 0..5 {
        assert!(read_all(&mut client, &path).to_vec() == content(1, 4 * EXTENT_LEN));
    }
    drop(socket);
    wait_until(&mut client, |statistics| statistics.programs == 1);
}

#[test]
fn too_many_programs_are_turned_away() {
    let place = serve(PolicyName::S3Fifo);
    let mut all: Vec<Client> = (0..SESSIONS_MAX).map(|_| place.client()).collect();
    let error = Client::connect(&place.socket).expect_err("there are too many");
    assert!(matches!(error, Error::Full), "{error}");
    all.truncate(1);
    wait_until(&mut all[0], |statistics| {
        statistics.programs == 1 && statistics.turned_away == 1
    });
    drop(place.client());
}

/// One that says anything: the program has an error, in time, and no more.
#[test]
fn a_service_that_says_anything_is_not_believed() {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("service");
    let listener = packets();
    bind(&listener, &SocketAddrUnix::new(&path).expect("short")).expect("it is free");
    listen(&listener, 8).expect("it is bound");
    let service = std::thread::spawn(move || {
        let mut random = Random(5);
        for round in 0..200_u64 {
            let socket = accept(&listener).expect("the test connects");
            let beside = socket.try_clone().expect("descriptors");
            let pool = Pool::new("hostile", Shape::of(4)).expect("memory");
            let mut sender =
                Sender::connect(beside, &pool, Options::default()).expect("it is there");
            let mut head = [0; 4].map(|_: u64| random.next() % 9);
            match round % 4 {
                0 => head = head.map(|_| random.next()),
                1 => head = [0, 0, random.next() % (1 << 20), 7],
                2 => head[1] = 0,
                _ => {}
            }
            let mut said = Aggregate::from(Slice::of_few(&bytes(head)).expect("it fits"));
            said.concatenate(pool.copy(&vec![1; random.below(60_000)]).expect("room"));
            let _ = recv(&socket, &mut [0; 64][..], RecvFlags::empty());
            let _ = sender.write(&mut said);
        }
    });
    let file = std::fs::File::open("/proc/self/exe").expect("Linux has it");
    for _ in 0..200 {
        let mut client = Client::connect(&path).expect("somebody is there");
        // Whatever comes of it.
        let _ = client.open(&file);
        let _ = client.statistics();
    }
    service.join().expect("it has not failed");
}
