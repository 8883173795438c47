//! A folder with a long file, and a visit of a server that reads it while it is sent.

use std::time::{Duration, SystemTime};

use exos_cheetah::Site;
use exos_cheetah::connections::Packets;
use exos_cheetah::limits::CHUNK_LEN;
use exos_cheetah::site::Limits;
use exos_cheetah::stream::Streams;
use exos_cheetah::stream::disk::Disk;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::folder::Folder;
use super::visit::Visit;

/// Not a whole number of chunks.
pub const LEN: usize = 5 * CHUNK_LEN + 12_345;

/// Files are long from here on.
pub const SHORT_LEN: u64 = 10_000;

/// The byte at a place of a file; files differ by their seeds.
pub fn byte(seed: usize, at: usize) -> u8 {
    ((at + seed) * 31 + at / 251 + at / 65_536) as u8
}

pub fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| byte(seed, at)).collect()
}

/// A folder with `/long.bin`, `/short.bin` and an index, all of a time long past.
pub fn folder() -> Folder {
    let folder = Folder::new();
    for (name, len) in [("long.bin", LEN), ("short.bin", 5000), ("index.html", 10)] {
        folder.write(name, content(0, len));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = std::fs::File::options().write(true).open(folder.path(name));
        file.unwrap().set_modified(time).unwrap();
    }
    folder
}

pub fn limits() -> Limits {
    let memory_len = SHORT_LEN;
    Limits {
        memory_len,
        ..Limits::default()
    }
}

/// Each way of reading that there is here.
pub fn disks() -> Vec<Disk> {
    let ring = Disk::ring(&[]);
    if let Err(e) = &ring {
        eprintln!("SKIPPED: no io_uring here: {e}");
    }
    let thread = Disk::thread(&[]).unwrap();
    ring.into_iter().chain([thread, Disk::here()]).collect()
}

/// A visit of a site whose long files are read in a way, with memory for this many chunks.
pub fn visit(site: Site, disk: Disk, chunks: usize) -> Visit {
    let mut visit = Visit::new(site, |_| {});
    visit
        .cheetah
        .set_streams(Streams::new(disk, (chunks * CHUNK_LEN) as u64));
    visit
}

/// Lets virtual time pass, but not while the disk works: that takes its own time.
pub fn run(visit: &mut Visit, time: Duration, bytes: usize) {
    let until = visit.now + time;
    while visit.now < until {
        visit.run(Duration::from_millis(10), bytes);
        let begun = std::time::Instant::now();
        while visit.cheetah.streams().under_way() > 0 {
            let now = visit.now;
            visit.cheetah.handle(
                now,
                super::visit::UNIX_SECS,
                &mut Packets::new(&mut visit.server),
            );
            if let Some(fd) = visit.cheetah.streams().fd() {
                let timeout = Timespec {
                    tv_sec: 0,
                    tv_nsec: 1_000_000,
                };
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap();
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the disk answers"
            );
        }
    }
}
