//! Files that are lent to all threads of a program.

use crate::apart::Apart;
use crate::common::{AT_MOST, Place, content, serve};
use exos_buf::Foreign as _;
use exos_file_cache::limits::{EXTENT_LEN, MEMORY_MIN};
use exos_file_cache::{Error, Lender, LentFile, NotLent, Status};
use exos_replacement::PolicyName;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a program may keep of the least memory.
const SHARE: u64 = MEMORY_MIN / 4;

fn lender(place: &Place) -> Lender {
    Lender::new(Some(place.socket.clone()), Vec::new())
}

fn lend(lender: &Lender, path: &Path) -> Result<LentFile, NotLent> {
    let end = Instant::now() + AT_MOST;
    loop {
        let file = File::open(path).expect("it is there");
        let len = file.metadata().expect("it is there").len();
        match lender.lend(file.into(), len) {
            Err(NotLent::Refused(Status::Unsettled)) if Instant::now() < end => {}
            answer => return answer,
        }
    }
}

fn bytes(lent: &LentFile) -> Vec<u8> {
    let mut bytes = vec![0; lent.len()];
    lent.copy_to(0, &mut bytes);
    bytes
}

/// Files of an extent each.
fn extents(place: &Place, count: u64) -> Vec<PathBuf> {
    (0..count)
        .map(|n| place.file(&format!("file{n}"), &content(n, EXTENT_LEN)))
        .collect()
}

/// Two programs, several threads: one copy, which stays while the file changes, and goes back when nobody uses it.
#[test]
fn a_file_is_there_once_for_all_threads_of_all_programs() {
    let place = serve(PolicyName::S3Fifo);
    let text = content(7, EXTENT_LEN + 20);
    let path = place.file("file", &text);
    let lenders = [lender(&place), lender(&place)];
    let lent: Vec<LentFile> = std::thread::scope(|scope| {
        let of = |n: usize| {
            let (lender, path) = (lenders[n % 2].clone(), &path);
            scope.spawn(move || lend(&lender, path).expect("it is there"))
        };
        let threads: Vec<_> = (0..6).map(of).collect();
        let lent = threads.into_iter().map(|it| it.join().expect("it reads"));
        lent.collect()
    });
    assert!(lent.iter().all(|it| bytes(it) == text));
    let mut client = place.client();
    let statistics = client.statistics().expect("it answers");
    assert_eq!((statistics.misses, statistics.hits), (2, 10));
    // In three references of each.
    let taken = EXTENT_LEN as u64;
    assert_eq!(lenders[0].lent(), 3 * taken);
    assert_eq!(lenders[0].limit(), Some(SHARE / 2));
    std::fs::write(&path, b"another version, and a short one").expect("room");
    let other = lend(&lenders[0], &path).expect("it is there");
    assert_eq!(bytes(&other), b"another version, and a short one");
    assert!(lent.iter().all(|it| bytes(it) == text));
    drop((lent, other));
    assert_eq!((lenders[0].lent(), lenders[1].lent()), (0, 0));
}

/// What is lent outlives the connection; a program that keeps all that it may is told at once, and has more when it lets go.
#[test]
fn a_program_keeps_its_share_at_most() {
    let place = serve(PolicyName::S3Fifo);
    let lender = lender(&place);
    let files = extents(&place, SHARE / EXTENT_LEN as u64 + 1);
    let last = files.len() - 1;
    let mut lent: Vec<(usize, LentFile)> = (0..last)
        .map(|n| (n, lend(&lender, &files[n]).expect("there is room")))
        .collect();
    assert!(matches!(lend(&lender, &files[last]), Err(NotLent::Share)));
    let statistics = place.client().statistics().expect("it answers");
    assert_eq!(statistics.over_share, 0, "the service was not asked");
    lent.truncate(last - 1);
    lent.push((last, lend(&lender, &files[last]).expect("there is room")));
    drop(lender);
    for (n, lent) in &lent {
        assert!(bytes(lent) == content(*n as u64, EXTENT_LEN));
    }
}

#[test]
fn where_nobody_serves_it_is_told_at_once() {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("file");
    std::fs::write(&path, b"text").expect("room");
    let lender = Lender::new(Some(folder.path().join("none")), Vec::new());
    let told = lend(&lender, &path).expect_err("nobody serves");
    assert!(matches!(told, NotLent::NoService(_)), "{told}");
    let again = lend(&lender, &path).expect_err("nobody serves");
    assert!(matches!(again, NotLent::NotNow), "{again}");
}

#[test]
fn a_file_that_is_written_is_not_lent() {
    let place = serve(PolicyName::S3Fifo);
    let lender = lender(&place);
    let other = place.file("other", &content(2, 5000));
    let writer = File::options().append(true).open(&other).expect("room");
    let told = lend(&lender, &other).expect_err("somebody may write it");
    let is_so = matches!(told, NotLent::Refused(Status::Changed | Status::Writing));
    assert!(is_so, "{told}");
    drop(writer);
    assert_eq!(
        bytes(&lend(&lender, &other).expect("nobody does")),
        content(2, 5000)
    );
}

/// A service that is silent is waited for a moment, and what it lent before stays when the connection is given up.
#[test]
fn a_silent_service_is_waited_for_a_moment() {
    let service = Apart::new();
    let place = &service.place;
    let files = extents(place, 4);
    let lender = lender(place);
    let first = lend(&lender, &files[0]).expect("it is there");
    let second = lend(&lender, &files[1]).expect("it is there");
    service.stop();
    let told = lend(&lender, &files[2]).expect_err("it is silent");
    assert!(matches!(told, NotLent::NoService(Error::Silent)), "{told}");
    let told = lend(&lender, &files[2]).expect_err("it is silent");
    assert!(matches!(told, NotLent::NotNow), "{told}");
    let end = Instant::now() + AT_MOST;
    while lender.ended() == 0 {
        assert!(Instant::now() < end, "the connection is not given up");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(lender.limit(), None);
    assert!(bytes(&first) == content(0, EXTENT_LEN));
    assert!(bytes(&second) == content(1, EXTENT_LEN));
}

#[test]
fn a_service_that_has_ended_is_told_of() {
    let mut service = Apart::new();
    let files = extents(&service.place, 2);
    let lender = lender(&service.place);
    let first = lend(&lender, &files[0]).expect("it is there");
    assert_eq!(lender.ended(), 0);
    service.begin_again();
    let second = lend(&lender, &files[1]).expect("another is there");
    assert_eq!(lender.ended(), 1);
    assert!(bytes(&first) == content(0, EXTENT_LEN) && bytes(&second) == content(1, EXTENT_LEN));
}
