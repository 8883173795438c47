//! Shares of programs and of users, and what several users share.

use crate::common::{Place, content, open, read_all, serve, serve_users, wait_until};
use exos_file_cache::limits::{EXTENT_LEN, MEMORY_MIN, USER_SESSIONS_MAX};
use exos_file_cache::{Client, Error, Opened, Status, User};
use exos_iolite::Aggregate;
use exos_replacement::PolicyName;
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::{File, Permissions, create_dir, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Files of one extent, more than a program may keep.
fn files(place: &Place, name: &str) -> Vec<PathBuf> {
    let make = |n| {
        let path = place.file(&format!("{name}{n}"), &content(n, EXTENT_LEN));
        mode(&path, 0o644);
        path
    };
    (0..16).map(make).collect()
}

/// Keeps files until one of them is refused.
fn keep(client: &mut Client, files: &[PathBuf]) -> Vec<Aggregate> {
    let mut kept = Vec::new();
    for path in files {
        let file = open(client, path);
        match client.read_at(&file, 0, EXTENT_LEN) {
            Ok(bytes) => kept.push(bytes),
            Err(Error::Refused(Status::Share)) => return kept,
            Err(error) => panic!("{error}"),
        }
        client.close(file).expect("it serves");
    }
    panic!("all are kept");
}

#[test]
fn connections_of_a_program_have_one_share() {
    let place = serve(PolicyName::Lru);
    let mut one = place.client_of("one");
    let mut beside = place.client_of("one");
    let mut other = place.client_of("other");
    let kept = keep(&mut one, &files(&place, "kept"));
    let len = (kept.len() * EXTENT_LEN) as u64;
    assert_eq!(len, MEMORY_MIN / 4);
    let statistics = beside.statistics().expect("it answers");
    assert_eq!((statistics.share, statistics.share_held), (len, len));
    assert_eq!(statistics.over_share, 1);
    let path = place.file("more", &content(99, 1000));
    let file = open(&mut beside, &path);
    let error = beside
        .read_at(&file, 0, 1000)
        .expect_err("the share is full");
    assert!(error.to_string().contains("keeps as much"), "{error}");
    // Another has its own.
    assert_eq!(keep(&mut other, &files(&place, "other")).len(), kept.len());
    for (n, bytes) in kept.iter().enumerate() {
        assert!(bytes.to_vec() == content(n as u64, EXTENT_LEN));
    }
    drop(kept);
    let read = beside.read_at(&file, 0, 1000).expect("there is room");
    assert!(read.to_vec() == content(99, 1000));
}

/// All connections of a process, where none says another name.
#[test]
fn a_process_is_a_program() {
    let place = serve(PolicyName::Lru);
    let connect = || Client::connect(&place.socket).expect("it serves");
    let (mut one, mut other) = (connect(), connect());
    let kept = keep(&mut one, &files(&place, "kept"));
    assert_eq!((kept.len() * EXTENT_LEN) as u64, MEMORY_MIN / 4);
    assert_eq!(keep(&mut other, &files(&place, "other")).len(), 0);
    // A name is said before anything is read, and is one.
    for name in ["", "\0", "a name that is too long by far"] {
        let error = connect().share_as(name).expect_err("no name");
        assert!(matches!(error, Error::ShareName(_)), "{error}");
    }
    let faults = other.statistics().expect("it answers").faults;
    assert!(one.share_as("late").is_err());
    wait_until(&mut other, |statistics| statistics.faults == faults + 1);
}

/// Work of a thread that is another user's from then on.
fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
            set_thread_groups(&[]).expect("we are root");
            set_thread_res_gid(group, group, group).expect("we are root");
            set_thread_res_uid(user, user, user).expect("we are root");
            work()
        });
        thread.join().expect("it does what it does")
    })
}

fn mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

const ALICE: u32 = 54_321;
const BOB: u32 = 54_322;
const CAROL: u32 = 54_323;

/// A service of root's for two users; none where this is not root.
fn for_two() -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: a service of several users needs root");
        return None;
    }
    let user = |uid, memory| User {
        uid: Some(uid),
        memory,
    };
    let place = serve_users(
        PolicyName::S3Fifo,
        vec![user(ALICE, Some(3 << 20)), user(BOB, None)],
    );
    mode(place.folder.path(), 0o755);
    let folder = place.folder.path();
    let is_reached = as_user(BOB, || std::fs::read_dir(folder).is_ok());
    assert!(is_reached, "{}: others come there", folder.display());
    Some(place)
}

fn status(client: &mut Client, path: &Path) -> Status {
    let file = File::open(path).expect("this user may");
    match client.open(&file).expect("it answers") {
        Opened::Shared(_) => Status::Done,
        Opened::Not(status) => status,
    }
}

/// What one user reads, and another may not, is in no memory that the other has.
#[test]
fn users_share_what_all_may_read_and_nothing_else() {
    let Some(place) = for_two() else { return };
    let text = content(1, 2 * EXTENT_LEN);
    let (public, private) = (place.file("public", &text), place.file("private", &text));
    let folder = place.path("folder");
    create_dir(&folder).expect("room");
    let inside = place.file("folder/inside", &text);
    for path in [&public, &inside] {
        mode(path, 0o644);
    }
    std::os::unix::fs::chown(&private, Some(ALICE), None).expect("we are root");
    std::os::unix::fs::chown(&folder, Some(ALICE), None).expect("we are root");
    mode(&private, 0o600);
    mode(&folder, 0o700);
    as_user(ALICE, || {
        let mut client = Client::connect(&place.socket).expect("root serves");
        assert!(read_all(&mut client, &public).to_vec() == text);
        for path in [&private, &inside] {
            assert_eq!(status(&mut client, path), Status::Private);
        }
    });
    as_user(BOB, || {
        let mut client = Client::connect(&place.socket).expect("root serves");
        let before = client.statistics().expect("it answers");
        assert!(read_all(&mut client, &public).to_vec() == text);
        let after = client.statistics().expect("it answers");
        assert_eq!((after.misses, after.held), (before.misses, before.held));
        assert!(File::open(&private).is_err() && File::open(&inside).is_err());
    });
    as_user(CAROL, || {
        let error = Client::connect(&place.socket).expect_err("nobody named this user");
        assert!(
            error.to_string().contains("does not serve this user"),
            "{error}"
        );
    });
    // Opened to all, and closed again: as it is when it is opened here.
    mode(&private, 0o644);
    as_user(BOB, || {
        let mut client = Client::connect(&place.socket).expect("root serves");
        assert!(read_all(&mut client, &private).to_vec() == text);
    });
    mode(&private, 0o600);
    as_user(ALICE, || {
        let mut client = Client::connect(&place.socket).expect("root serves");
        assert_eq!(status(&mut client, &private), Status::Private);
    });
}

/// What a program keeps has a place of its user's, whatever became of its connection.
#[test]
fn what_is_kept_behind_a_connection_takes_its_users_place() {
    let Some(place) = for_two() else { return };
    let path = place.file("public", &content(1, 1000));
    mode(&path, 0o644);
    let kept = as_user(BOB, || {
        let mut kept = Vec::new();
        while let Ok(mut client) = Client::connect(&place.socket) {
            let file = open(&mut client, &path);
            kept.push(
                client
                    .read_at(&file, 0, 1000)
                    .expect("there is room")
                    .to_vec()
                    .len(),
            );
            std::mem::forget(client.read_at(&file, 0, 1000).expect("there is room"));
            assert!(kept.len() <= USER_SESSIONS_MAX);
        }
        kept
    });
    assert_eq!(kept, [1000; USER_SESSIONS_MAX]);
    as_user(ALICE, || {
        let mut client = Client::connect(&place.socket).expect("root serves");
        assert!(read_all(&mut client, &path).to_vec() == content(1, 1000));
        let statistics = client.statistics().expect("it answers");
        assert_eq!((statistics.faults, statistics.failed), (0, 0));
    });
}

/// Without the right to lease files of others nothing keeps them from being written, and closed to others, while they are read.
#[test]
fn several_users_need_leases() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("room");
    let error = std::thread::scope(|scope| {
        let without = scope.spawn(|| {
            use exos_host::caps::{CapabilitySet, keep_only};
            keep_only(CapabilitySet::all() - CapabilitySet::LEASE).expect("we are root");
            let options = exos_file_cache::Options {
                memory: MEMORY_MIN,
                policy: PolicyName::Lru.policy(),
                users: vec![User {
                    uid: Some(BOB),
                    memory: None,
                }],
            };
            exos_file_cache::Service::new(&folder.path().join("socket"), options).map(|_| ())
        });
        without.join().expect("it does not panic")
    });
    let error = error.expect_err("it has no right to lease files");
    assert!(error.to_string().contains("CAP_LEASE"), "{error}");
}

#[test]
fn a_user_has_a_share_and_connections_whatever_its_programs_are_called() {
    let Some(place) = for_two() else { return };
    let files = files(&place, "shared");
    let kept = as_user(ALICE, || {
        let programs = ["one", "two"].map(|name| {
            let mut client = place.client_of(name);
            let kept = keep(&mut client, &files);
            (client, kept)
        });
        let lens = programs.each_ref().map(|(_, kept)| kept.len());
        assert!(lens[0] * EXTENT_LEN <= MEMORY_MIN as usize / 4);
        lens.iter().sum::<usize>() * EXTENT_LEN
    });
    assert_eq!(kept, 3 << 20);
    as_user(BOB, || {
        let some: Vec<_> = (0..USER_SESSIONS_MAX).map(|_| place.client()).collect();
        let error = Client::connect(&place.socket).expect_err("a user has that many");
        assert!(matches!(error, Error::Full), "{error}");
        drop(some);
    });
}
