//! What one program keeps, sends or asks for holds up no other.

use crate::common::{AT_MOST, Place, content, open, serve, wait_until};
use crate::hostile::{ask_with, bytes, raw};
use exos_file_cache::limits::{BUFFER_LEN, EXTENT_LEN, MEMORY_MIN};
use exos_file_cache::{Client, Error, NAME_LEN_MAX, Request, Status};
use exos_iolite::{Aggregate, Read, Receiver, Trust, Wait};
use exos_replacement::PolicyName;
use rustix::net::{SendFlags, send};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

const EXTENTS: usize = MEMORY_MIN as usize / EXTENT_LEN;

/// A program that asks as it likes.
struct Program {
    socket: OwnedFd,
    receiver: Receiver,
}

impl Program {
    /// One with the share of a name, and a file.
    fn new(place: &Place, name: &str, path: &PathBuf) -> Self {
        let socket = raw(&place.socket);
        let beside = socket.try_clone().expect("descriptors");
        let receiver = Receiver::accept(beside, Trust::Trusted).expect("it serves");
        let mut program = Self { socket, receiver };
        let mut padded = [0; NAME_LEN_MAX];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        program.ask(Request::Share { name: padded });
        let file = File::open(path).expect("it is there");
        ask_with(&program.socket, Request::Open { file: 0 }, &file);
        drop(program.take(2 * 32));
        program
    }

    fn ask(&self, request: Request) {
        send(&self.socket, &bytes(request.words()), SendFlags::NOSIGNAL).expect("it serves");
    }

    fn read(&self, offset: usize, len: usize) {
        self.ask(Request::Read {
            file: 0,
            offset: offset as u64,
            len: len as u64,
        });
    }

    fn take(&mut self, len: usize) -> Aggregate {
        let mut all = Aggregate::new();
        while all.len() < len {
            let wait = Wait::SleepAtMost(AT_MOST);
            match self.receiver.read_wait(len - all.len(), wait) {
                Ok(Read::Data(data)) => all.concatenate(data),
                other => panic!("{other:?} after {} bytes of {len}", all.len()),
            }
        }
        all
    }
}

/// A settled file of all of the memory.
fn large(place: &Place, client: &mut Client) -> PathBuf {
    let path = place.file("large", &content(1, MEMORY_MIN as usize));
    let file = open(client, &path);
    client.close(file).expect("it serves");
    path
}

/// Another program reads more than the memory, and is never told that there is no room.
fn others_are_served(place: &Place, client: &mut Client) {
    for n in 0..2 * EXTENTS as u64 {
        let path = place.file("other", &content(n, EXTENT_LEN));
        let file = open(client, &path);
        let read = client.read_at(&file, 0, EXTENT_LEN).expect("there is room");
        assert!(read.to_vec() == content(n, EXTENT_LEN));
        client.close(file).expect("it serves");
    }
}

#[test]
fn a_part_of_each_extent_keeps_only_that() {
    let place = serve(PolicyName::Lru);
    let (mut keeper, mut other) = (place.client(), place.client());
    let path = large(&place, &mut keeper);
    let file = open(&mut keeper, &path);
    let kept: Vec<Aggregate> = (0..EXTENTS)
        .map(|n| keeper.read_at(&file, (n * EXTENT_LEN) as u64, 40))
        .map(|read| read.expect("there is room"))
        .collect();
    let held = keeper.statistics().expect("it answers").share_held;
    assert_eq!(held, (EXTENTS * BUFFER_LEN) as u64);
    others_are_served(&place, &mut other);
    let all = content(1, MEMORY_MIN as usize);
    for (n, bytes) in kept.iter().enumerate() {
        assert!(bytes.to_vec() == all[n * EXTENT_LEN..][..40]);
    }
}

/// Requests that are always there, for few bytes each, keep nothing.
#[test]
fn answers_that_were_taken_keep_nothing() {
    let place = serve(PolicyName::Lru);
    let mut other = place.client();
    let path = large(&place, &mut other);
    let mut program = Program::new(&place, "few", &path);
    let mut asked = 0;
    let mut ask = |program: &Program| {
        for _ in 0..16 {
            program.read(asked % EXTENTS * EXTENT_LEN, 1);
            asked += 1;
        }
    };
    ask(&program);
    for _ in 0..4 * EXTENTS / 16 {
        ask(&program);
        drop(program.take(16 * 33));
    }
    let before = other.statistics().expect("it answers");
    ask(&program);
    others_are_served(&place, &mut other);
    let after = other.statistics().expect("it answers");
    assert!(after.pinned - before.pinned < 8, "{before:?} {after:?}");
}

/// An answer that was begun is given, whatever another connection of the share takes meanwhile.
#[test]
fn an_answer_has_its_share_when_it_is_made() {
    let place = serve(PolicyName::Lru);
    let (mut beside, mut other) = (place.client_of("one"), place.client());
    let path = large(&place, &mut other);
    let mut program = Program::new(&place, "one", &path);
    // With their heads three fill the pipe but for a part of the fourth.
    (0..4).for_each(|n| program.read(n * EXTENT_LEN, EXTENT_LEN));
    wait_until(&mut other, |statistics| {
        statistics.passed_bytes == 4 * EXTENT_LEN as u64
    });
    let file = open(&mut beside, &path);
    let mut kept = Vec::new();
    for (from, len) in [(4, EXTENT_LEN), (20, BUFFER_LEN)] {
        for n in from.. {
            match beside.read_at(&file, (n * EXTENT_LEN) as u64, len) {
                Ok(bytes) => kept.push(bytes),
                Err(Error::Refused(Status::Share)) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    let held: usize = kept.iter().map(Aggregate::len).sum();
    assert_eq!((held + 4 * EXTENT_LEN) as u64, MEMORY_MIN / 4);
    let mut taken = program.take(4 * (32 + EXTENT_LEN));
    for n in 0..4 {
        let mut answer = taken.split(32);
        taken = answer.split(EXTENT_LEN);
        assert!(answer.to_vec() == content(1, MEMORY_MIN as usize)[n * EXTENT_LEN..][..EXTENT_LEN]);
    }
}

/// All files of all connections that there may be can be open.
#[test]
fn a_service_may_have_the_descriptors_that_it_may_need() {
    let _place = serve(PolicyName::Lru);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let is_enough = |files| files >= exos_file_cache::limits::DESCRIPTORS as u64;
    assert!(limit.current.is_none_or(is_enough), "{limit:?}");
}
