//! Programs and services that do as they like.

use crate::common::{content, open, read_all, serve, wait_until};
use exos_file_cache::limits::{EXTENT_LEN, MEMORY_MIN, SESSIONS_MAX};
use exos_file_cache::{Client, Error, Opened, Request};
use exos_iolite::{Aggregate, Options, Pool, Sender, Shape, Slice};
use exos_replacement::PolicyName;
use exos_testing::Random;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, connect, listen, recv, send, sendmsg, socket_with,
};
use std::os::fd::{AsFd as _, OwnedFd};
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

pub fn raw(path: &Path) -> OwnedFd {
    let socket = packets();
    connect(&socket, &SocketAddrUnix::new(path).expect("short")).expect("it serves");
    socket
}

pub fn bytes(words: [u64; exos_file_cache::WORDS]) -> Vec<u8> {
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
        bytes([5, 0, 0, 0]),
    ];
    let passed = std::fs::File::open(&path).expect("it is there");
    for (faults, message) in (1..).zip(known.into_iter().chain(any.map(bytes))) {
        let socket = raw(&place.socket);
        send(&socket, &message, SendFlags::NOSIGNAL).expect("it takes that");
        wait_until(&mut client, |statistics| {
            statistics.faults == faults && statistics.programs == 1
        });
    }
    // With a descriptor that nobody has asked for.
    let socket = raw(&place.socket);
    let before = client.statistics().expect("it answers").faults;
    ask_with(&socket, Request::Statistics, &passed);
    wait_until(&mut client, |statistics| statistics.faults == before + 1);
    // It has a name already.
    let socket = raw(&place.socket);
    for name in [1, 2] {
        let name = [name; exos_file_cache::NAME_LEN_MAX];
        let share = bytes(Request::Share { name }.words());
        send(&socket, &share, SendFlags::NOSIGNAL).expect("it takes that");
    }
    wait_until(&mut client, |statistics| statistics.faults == before + 2);
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

/// Answers as they are told, to one program.
fn scripted(path: &Path, then: &'static [[u64; 4]]) -> std::thread::JoinHandle<()> {
    let listener = packets();
    bind(&listener, &SocketAddrUnix::new(path).expect("short")).expect("it is free");
    listen(&listener, 8).expect("it is bound");
    std::thread::spawn(move || {
        let socket = accept(&listener).expect("the test connects");
        let beside = socket.try_clone().expect("descriptors");
        let pool = Pool::new("scripted", Shape::of(4)).expect("memory");
        let mut sender = Sender::connect(beside, &pool, Options::default()).expect("it is there");
        let mut say = |head: [u64; 4]| {
            let _ = recv(&socket, &mut [0; 64][..], RecvFlags::empty());
            let mut said = Aggregate::from(Slice::of_few(&bytes(head)).expect("it fits"));
            said.concatenate(pool.copy(&vec![7; head[2] as usize]).expect("room"));
            while !said.is_empty() {
                sender.write(&mut said).expect("the program is there");
            }
        };
        say([0, 0, 0, 1 << 30]);
        then.iter().for_each(|head| say(*head));
        // It ends when it is asked for more, or the program has ended.
        let _ = recv(&socket, &mut [0; 64][..], RecvFlags::empty());
    })
}

/// What a program was given by a short answer it has, whatever becomes of what was asked for behind it.
#[test]
fn no_byte_is_lost_behind_a_short_answer() {
    const SHORT: [u64; 4] = [0, 0, 100, 1 << 30];
    const CHANGED: [u64; 4] = [4, 0, 0, 1 << 30];
    const UNREADABLE: [u64; 4] = [5, 0, 0, 1 << 30];
    let scripts: [&'static [[u64; 4]]; 4] = [
        &[SHORT, CHANGED, CHANGED, CHANGED],
        &[SHORT, UNREADABLE, SHORT, CHANGED, CHANGED, CHANGED],
        &[SHORT, SHORT, CHANGED, CHANGED],
        // It ends.
        &[SHORT],
    ];
    for script in scripts {
        let folder = tempfile::tempdir().expect("room");
        let path = folder.path().join("service");
        let service = scripted(&path, script);
        let mut client = Client::connect(&path).expect("somebody is there");
        let any = std::fs::File::open("/proc/self/exe").expect("Linux has it");
        let Ok(Opened::Shared(mut file)) = client.open(&any) else {
            panic!("it says that it has it");
        };
        let mut read = 0;
        let error = loop {
            match client.read_next(&mut file) {
                Ok(bytes) => read += bytes.len() as u64,
                Err(error) => break error,
            }
            assert_eq!(read, file.position(), "{script:?}");
        };
        assert!(read >= 100, "{script:?}: {read}, {error}");
        assert_eq!(read, file.position(), "{script:?}: {error}");
        drop(client);
        service.join().expect("it has said all");
    }
}

/// More than was asked for is not taken.
#[test]
fn an_answer_that_is_too_long_is_a_fault() {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("service");
    let service = scripted(&path, &[[0, 0, 100, 1 << 30]]);
    let mut client = Client::connect(&path).expect("somebody is there");
    let any = std::fs::File::open("/proc/self/exe").expect("Linux has it");
    let Ok(Opened::Shared(file)) = client.open(&any) else {
        panic!("it says that it has it");
    };
    let read = client.read_at(&file, 0, 99);
    assert!(matches!(read, Err(Error::Fault(_))), "{read:?}");
    drop(client);
    service.join().expect("it has said all");
}

pub fn ask_with(socket: &OwnedFd, request: Request, file: &std::fs::File) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [file.as_fd()];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let message = bytes(request.words());
    let parts = [std::io::IoSlice::new(&message)];
    sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).expect("it serves");
}

/// Answers that are not taken have extents, which would give no memory back: they do not go, and what they take is known.
#[test]
fn answers_that_nobody_takes_are_counted() {
    let place = serve(PolicyName::Lru);
    let mut client = place.client();
    let shared = place.file("shared", &content(1, EXTENT_LEN));
    read_all(&mut client, &shared);
    let programs: Vec<OwnedFd> = (0..12)
        .map(|n| {
            let path = place.file(&format!("own{n}"), &content(n, EXTENT_LEN));
            read_all(&mut client, &path);
            let socket = raw(&place.socket);
            // Each is a program.
            let mut name = [0; exos_file_cache::NAME_LEN_MAX];
            name[0] = 1 + n as u8;
            let share = bytes(Request::Share { name }.words());
            send(&socket, &share, SendFlags::NOSIGNAL).expect("it serves");
            for (file, path) in [(0, &shared), (1, &path)] {
                let open = std::fs::File::open(path).expect("it is there");
                ask_with(&socket, Request::Open { file }, &open);
            }
            // The pipe is full of answers of one file when those of the other come.
            let all = EXTENT_LEN as u64;
            for (file, len) in [
                (0, all),
                (0, all),
                (0, all),
                (0, 1),
                (0, 1),
                (0, 1),
                (0, 1),
                (0, 1),
                (1, all),
            ] {
                let ask = bytes(
                    Request::Read {
                        file,
                        offset: 0,
                        len,
                    }
                    .words(),
                );
                send(&socket, &ask, SendFlags::NOSIGNAL).expect("it serves");
            }
            socket
        })
        .collect();
    wait_until(&mut client, |statistics| {
        statistics.passed_bytes >= (1 + 12 + 12 * 4) * EXTENT_LEN as u64
    });
    for n in 0..40 {
        let text = content(n, 300_000);
        let path = place.file(&format!("other{n}"), &text);
        assert!(read_all(&mut client, &path).to_vec() == text);
    }
    let statistics = client.statistics().expect("it answers");
    assert_eq!(statistics.failed, 0, "{statistics:?}");
    let slack = 4 * EXTENT_LEN as u64;
    assert!(statistics.held > MEMORY_MIN - slack, "{statistics:?}");
    drop(programs);
    wait_until(&mut client, |statistics| statistics.programs == 1);
}
