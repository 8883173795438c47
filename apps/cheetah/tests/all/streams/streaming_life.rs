//! What happens to files and clients while long files are sent: changes, slow readers, clients that go, disks that do
//! not answer; and what it costs the others.

use crate::common;
use crate::common::long;
use crate::common::visit;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::folder::Folder;
use exos_cheetah::Site;
use exos_cheetah::connections::Packets;
use exos_cheetah::limits::{CHUNK_LEN, FETCH_TIME, READ_TIME, READS_AT_ONCE};
use exos_cheetah::site::Settings;
use exos_cheetah::stream::disk::Disk;
use long::{LEN, byte, content, disks, folder, limits};
use visit::{UNIX_SECS, Visit};

const GET: &[u8] = b"GET /long.bin HTTP/1.1\r\nHost: h\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

fn counter(visit: &Visit, name: &str) -> u64 {
    let counters = visit.cheetah.counters();
    counters
        .iter()
        .find(|(known, _)| *known == name)
        .expect(name)
        .1
}

/// The content of a response, of which only a part may have come.
fn body(received: &[u8]) -> &[u8] {
    let head = received
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head");
    &received[head + 4..]
}

fn is_whole(visit: &Visit, place: usize, seed: usize) -> bool {
    body(&visit.connections[place].received) == content(seed, LEN)
}

/// Descriptors of this process for files of a folder.
fn descriptors(folder: &Folder) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let names = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    names
        .filter(|name| name.starts_with(&folder.0) && name != &folder.0)
        .count()
}

/// Writes a file under another name, and gives it its own at once.
fn replace(path: &Path, content: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    fs::rename(new, path).unwrap();
}

/// A download is half done when something happens to its file; what becomes of it?
fn half_way(disk: Disk, happens: impl Fn(&Path)) -> (Visit, Folder) {
    let folder = folder();
    let mut visit = long::visit(folder.load_within(limits()), disk, 64);
    visit.ask("10.0.0.1", GET);
    // The client reads 20 kB a second: most of the file is not read yet.
    long::run(&mut visit, SECOND, 20_000);
    assert!(visit.connections[0].received.len() > 1000);
    assert!(
        counter(&visit, "stream_bytes") < LEN as u64,
        "it is under way"
    );
    happens(&folder.path("long.bin"));
    long::run(&mut visit, 30 * SECOND, usize::MAX);
    (visit, folder)
}

#[test]
fn a_response_goes_on_with_the_file_that_it_began_with() {
    let replaced = |path: &Path| replace(path, &content(1, LEN));
    let removed = |path: &Path| fs::remove_file(path).unwrap();
    let linked = |path: &Path| fs::hard_link(path, path.with_extension("also")).unwrap();
    let guarded = |path: &Path| {
        let mut rights = fs::metadata(path).unwrap().permissions();
        rights.set_readonly(true);
        fs::set_permissions(path, rights).unwrap();
    };
    for happens in [&replaced as &dyn Fn(&Path), &removed, &linked, &guarded] {
        for disk in disks() {
            let name = disk.name();
            let (visit, folder) = half_way(disk, happens);
            assert!(is_whole(&visit, 0, 0), "{name}");
            assert_eq!(counter(&visit, "http_broken_off"), 0, "{name}");
            assert_eq!(descriptors(&folder), 0, "{name}: it is closed");
        }
    }
}

/// No byte of another version is sent: the connection is reset instead.
#[test]
fn a_file_that_is_written_to_ends_its_responses() {
    let open = |path: &Path| File::options().write(true).open(path).unwrap();
    let written = |path: &Path| {
        open(path)
            .write_all_at(&[1; 100], LEN as u64 - 100)
            .unwrap()
    };
    let shorter = |path: &Path| open(path).set_len(LEN as u64 / 2).unwrap();
    let longer = |path: &Path| open(path).set_len(LEN as u64 + 1).unwrap();
    for happens in [&written as &dyn Fn(&Path), &shorter, &longer] {
        for disk in disks() {
            let name = disk.name();
            let (visit, folder) = half_way(disk, happens);
            let side = &visit.connections[0];
            assert!(side.over.is_some(), "{name}: it is reset");
            let got = body(&side.received);
            assert!(got.len() < LEN && *got == content(0, got.len()), "{name}");
            assert_eq!(counter(&visit, "http_broken_off"), 1, "{name}");
            assert!(counter(&visit, "stream_files_changed") > 0, "{name}");
            let streams = visit.cheetah.streams();
            assert_eq!((streams.free(), descriptors(&folder)), (64, 0), "{name}");
        }
    }
}

/// The table is behind the file system: who asks waits until it is not.
#[test]
fn a_request_waits_until_the_table_knows_the_file_that_is_there() {
    let folder = folder();
    let settings: Arc<Settings> = Arc::default();
    let (site, mut tree) = common::folder::load_live(&folder.0, limits(), settings);
    let mut visit = long::visit(site, Disk::here(), 64);
    replace(&folder.path("long.bin"), &content(7, LEN));
    visit.ask("10.0.0.1", GET);
    visit.run(5 * SECOND, usize::MAX);
    assert_eq!(
        visit.connections[0].received, b"",
        "nobody knows of the new one yet"
    );
    tree.poll(std::time::Instant::now(), &mut |_, change| {
        visit.change(change)
    });
    visit.run(5 * SECOND, usize::MAX);
    assert!(is_whole(&visit, 0, 7));
    // One that goes away is not found any more.
    fs::remove_file(folder.path("long.bin")).unwrap();
    visit.ask("10.0.0.1", GET);
    visit.run(SECOND, usize::MAX);
    tree.poll(std::time::Instant::now(), &mut |_, change| {
        visit.change(change)
    });
    visit.run(SECOND, usize::MAX);
    assert!(visit.connections[1].received.starts_with(b"HTTP/1.1 404 "));
    assert_eq!(counter(&visit, "stream_failures"), 0);
}

/// Sixty readers at different speeds, most of them slow, with memory for sixteen chunks.
#[test]
fn memory_is_bounded_and_nobody_starves() {
    const CHUNKS: usize = 16;
    for disk in disks() {
        let name = disk.name();
        let folder = folder();
        for n in 0..20 {
            folder.write(&format!("{n}.bin"), content(n, LEN));
        }
        let mut visit = long::visit(folder.load_within(limits()), disk, CHUNKS);
        for n in 0..60 {
            let request = format!("GET /{}.bin HTTP/1.1\r\nHost: h\r\n\r\n", n % 20);
            visit.ask("10.0.0.1", request.as_bytes());
        }
        for n in 0..600 {
            // All read a little, and more and more.
            long::run(&mut visit, SECOND / 10, 50_000 + n * 1000);
            let streams = visit.cheetah.streams();
            assert!(streams.memory_len() <= CHUNKS * CHUNK_LEN, "{name}");
        }
        assert!(
            counter(&visit, "stream_memory_waits") > 0,
            "{name}: it was short"
        );
        let is_done = |place: &usize| is_whole(&visit, *place, place % 20);
        let done = (0..60).filter(is_done).count();
        assert_eq!(
            (done, visit.cheetah.streams().free()),
            (60, CHUNKS),
            "{name}"
        );
        assert!(
            counter(&visit, "stream_chunks_shared") > 60,
            "{name}: three read the same"
        );
    }
}

/// Readers that take nothing hold two chunks each, and leave room for one that reads.
#[test]
fn readers_that_take_nothing_hold_little() {
    const CHUNKS: usize = 64;
    let folder = folder();
    for n in 0..60 {
        folder.write(&format!("{n}.bin"), content(n, LEN));
    }
    let mut visit = long::visit(folder.load_within(limits()), Disk::here(), CHUNKS);
    for n in 0..20 {
        visit.ask(
            "10.0.0.1",
            format!("GET /{n}.bin HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(),
        );
    }
    visit.run(SECOND, 0);
    let held = CHUNKS - visit.cheetah.streams().free();
    // What is under way to a client whose window is shut is nothing; before, it was a window.
    assert!(held <= 20 * 4, "{held} chunks for 20 readers");
    for n in 20..60 {
        visit.ask(
            "10.0.0.1",
            format!("GET /{n}.bin HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes(),
        );
    }
    visit.run(SECOND, 0);
    let place = visit.ask("10.0.0.3", GET);
    // Those before it are given up after a minute, unless there is room at once.
    for _ in 0..100 {
        visit.run(SECOND, 0);
        read(&mut visit, place);
    }
    let got = body(&visit.connections[place].received);
    assert!(
        got.len() == LEN && *got == content(0, LEN),
        "{} bytes",
        got.len()
    );
}

/// Reads all that one connection has.
fn read(visit: &mut Visit, place: usize) {
    let id = visit.connections[place].id;
    let bytes = visit.client.tcp.readable(id).to_vec();
    visit.client.tcp.consume(id, bytes.len());
    visit.connections[place].received.extend(bytes);
}

/// A file that comes from a slow disk costs the others nothing: they are answered in the turn in which they ask, and no
/// turn asks for more than it may.
#[test]
fn others_are_answered_while_a_disk_is_slow() {
    let folder = folder();
    let (disk, hand) = Disk::by_hand();
    let mut visit = long::visit(folder.load_within(limits()), disk, 256);
    for _ in 0..100 {
        visit.ask("10.0.0.1", GET);
    }
    visit.run(SECOND, usize::MAX);
    let mut left = hand.perform(1);
    assert_eq!(
        (left, counter(&visit, "stream_files_opened")),
        (0, 0),
        "opened once for all"
    );
    let mut turns = 0;
    while !(0..100).all(|n| visit.connections[n].received.len() > LEN) {
        let other = visit.ask("10.0.0.3", b"GET /short.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        visit.run(SECOND / 100, usize::MAX);
        assert!(
            visit.connections[other]
                .received
                .ends_with(&content(0, 5000)),
            "at once"
        );
        let before = left;
        let now = visit.now;
        visit
            .cheetah
            .handle(now, UNIX_SECS, &mut Packets::new(&mut visit.server));
        left = hand.perform(0);
        assert!(
            left <= before + 2 * READS_AT_ONCE + visit.connections.len(),
            "{left}"
        );
        left = hand.perform(3);
        turns += 1;
        assert!(turns < 1000, "it goes on");
    }
    assert!((0..100).all(|n| is_whole(&visit, n, 0)));
    let chunks = counter(&visit, "stream_chunks");
    assert!(
        chunks <= 2 * LEN.div_ceil(CHUNK_LEN) as u64,
        "{chunks} chunks read for a hundred"
    );
}

#[test]
fn a_disk_that_does_not_answer_ends_what_waits_for_it() {
    let folder = folder();
    let (disk, hand) = Disk::by_hand();
    let mut visit = long::visit(folder.load_within(limits()), disk, 64);
    visit.ask("10.0.0.1", GET);
    visit.run(SECOND, usize::MAX);
    let place = visit.ask("10.0.0.1", GET);
    hand.perform(1); // It is open, and that is all.
    visit.run(READ_TIME + SECOND, usize::MAX);
    for side in &visit.connections[..=place] {
        assert!(side.over.is_some(), "it is reset");
        assert_eq!(body(&side.received), b"");
    }
    assert_eq!(counter(&visit, "http_read_timeouts"), 2);
    // Nor is one answered for that cannot even be opened.
    hand.perform(usize::MAX);
    visit.run(SECOND, usize::MAX);
    hand.perform(usize::MAX);
    visit.run(SECOND, usize::MAX);
    assert_eq!(
        visit.cheetah.streams().free(),
        64,
        "what came later is free"
    );
    let place = visit.ask("10.0.0.1", GET);
    visit.run(FETCH_TIME + SECOND, usize::MAX);
    assert!(
        visit.connections[place]
            .received
            .starts_with(b"HTTP/1.1 503 ")
    );
}

/// Clients go away in the middle, in every state; nothing of them stays.
#[test]
fn clients_that_go_leave_nothing() {
    for disk in disks() {
        let name = disk.name();
        let folder = folder();
        let mut visit = long::visit(folder.load_within(limits()), disk, 8);
        for n in 0..40u64 {
            let place = visit.ask("10.0.0.1", GET);
            long::run(&mut visit, Duration::from_millis(10 * (n % 7)), 100_000);
            visit.give_up(place);
        }
        long::run(&mut visit, 2 * SECOND, usize::MAX);
        assert_eq!(visit.cheetah.connections(), 0, "{name}");
        assert_eq!(visit.cheetah.streams().free(), 8, "{name}");
        assert_eq!(descriptors(&folder), 0, "{name}");
    }
}

/// The site is exchanged, and the server stops: what is under way ends as it began.
#[test]
fn a_stop_lets_long_responses_end() {
    let folder = folder();
    let mut visit = long::visit(folder.load_within(limits()), Disk::here(), 64);
    visit.ask("10.0.0.1", GET);
    visit.run(SECOND, 10_000);
    let old: Site = Site::new();
    drop(visit.cheetah.server_mut().set_sites(old));
    visit.stop();
    assert!(visit.cheetah.is_busy());
    visit.run(20 * SECOND, 100_000);
    assert!(
        is_whole(&visit, 0, 0),
        "{} bytes",
        visit.connections[0].received.len()
    );
    assert!(!visit.cheetah.is_busy(), "it has said goodbye");
}

/// What the other tests compare is told apart.
#[test]
fn contents_are_told_apart() {
    assert_ne!(byte(0, 0), byte(0, CHUNK_LEN), "chunks differ");
    assert_ne!(content(0, 100), content(1, 100));
}
