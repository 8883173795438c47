//! The thread that follows files, and the cores that hear of their changes.

use crate::common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::folder::Folder;
use exos_cheetah::Site;
use exos_cheetah::limits::CHANGES_QUEUED;
use exos_cheetah::site::{Changes, Keeper, Limits, Tree};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn load_live(folder: &Folder) -> (Site, Tree) {
    Site::load_live(&folder.0, Limits::default(), Arc::default()).unwrap()
}

fn start(tree: Tree, listeners: usize) -> (Keeper, Vec<Changes>) {
    let cores = exos_host::affinity::allowed().unwrap();
    Keeper::start(vec![tree], cores, listeners, |_| {}).unwrap()
}

/// What is at a path, and where it lies in memory.
fn body(site: &Site, path: &str) -> (Vec<u8>, *const u8) {
    let document = site.find(path.as_bytes()).unwrap().document().unwrap();
    let bytes = document.buffer().as_slice().as_ptr();
    (document.body().as_bytes().to_vec(), bytes)
}

/// A checkout of many files: each turn takes a few changes, and all come.
#[test]
fn the_keeper_hands_over_all_changes() {
    const FILES: usize = 500;
    let folder = Folder::new();
    let (mut site, tree) = load_live(&folder);
    let (_keeper, mut changes) = start(tree, 1);
    let changes = &mut changes[0];
    assert_eq!(changes.take().count(), 0, "nothing has happened");
    for n in 0..FILES {
        folder.write(&format!("{}/{n}.txt", n % 7), format!("{n}"));
    }
    let until = Instant::now() + Duration::from_secs(120);
    while site.document_count() < FILES {
        let count = site.document_count();
        assert!(Instant::now() < until, "{count} of {FILES}");
        let mut wake = [PollFd::from_borrowed_fd(changes.fd(), PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 10,
            tv_nsec: 0,
        };
        poll(&mut wake, Some(&patience)).unwrap();
        let taken = changes.take().map(|(_, change)| site.apply(change)).count();
        assert!(taken <= CHANGES_QUEUED, "a turn is bounded");
    }
    for n in 0..FILES {
        let body = body(&site, &format!("/{}/{n}.txt", n % 7)).0;
        assert_eq!(body, n.to_string().as_bytes());
    }
}

/// The keeper ends with its owner even while it waits for room, whoever listens.
#[test]
fn a_keeper_that_waits_for_room_ends() {
    let folder = Folder::new();
    let (_, tree) = load_live(&folder);
    let (keeper, changes) = start(tree, 2);
    for n in 0..3 * CHANGES_QUEUED {
        folder.write(&format!("{n}.txt"), "");
    }
    drop(keeper);
    drop(changes);
}

/// Several cores hear of everything, whoever has gone. The bytes are in memory once for all of them.
#[test]
fn all_listeners_have_the_same_documents_in_one_memory() {
    const FILES: usize = 5 * CHANGES_QUEUED;
    let folder = Folder::new();
    let (_, tree) = load_live(&folder);
    let (_keeper, mut changes) = start(tree, 3);
    drop(changes.pop());
    for n in 0..FILES {
        folder.write(&format!("{n}.txt"), format!("{n}"));
    }
    let mut sites = [Site::new(), Site::new()];
    let until = Instant::now() + Duration::from_secs(120);
    while sites.iter().any(|site| site.document_count() < FILES) {
        assert!(Instant::now() < until, "not all changes come to all");
        for (changes, site) in changes.iter_mut().zip(&mut sites) {
            changes.take().for_each(|(_, change)| site.apply(change));
        }
        std::thread::sleep(Duration::from_micros(100)); // The keeper may need the core.
    }
    for n in 0..FILES {
        let path = format!("/{n}.txt");
        let [one, other] = sites.each_ref().map(|site| body(site, &path));
        assert_eq!(one, other, "{path}");
        assert_eq!(one.0, n.to_string().as_bytes());
    }
}
