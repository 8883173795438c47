//! The thread that follows files, and the cores that hear of their changes.

use crate::common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::folder::Folder;
use exos_cheetah::Site;
use exos_cheetah::caching::keeping::Errand;
use exos_cheetah::config::Config;
use exos_cheetah::limits::{CHANGES_QUEUED, PASSWORDS_QUEUED};
use exos_cheetah::serve::content::sites::Fresh;
use exos_cheetah::site::rules::access::{Asks, Verdict};
use exos_cheetah::site::store::cache::FromCache;
use exos_cheetah::site::{Cache, Change, Changes, Keeper, Limits, Omission, Tree};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn load_live(folder: &Folder) -> (Site, Tree) {
    common::folder::load_live(&folder.0, Limits::default(), Arc::default())
}

fn start(tree: Tree, listeners: usize) -> (Keeper, Vec<Changes>) {
    let cores = exos_host::affinity::allowed().unwrap();
    Keeper::start(
        vec![tree],
        Cache::new(u64::MAX).into(),
        cores,
        listeners,
        |_| {},
    )
    .unwrap()
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

/// What of kept answers is to be forgotten does not wait until a checkout of many files is read.
#[test]
fn answers_are_forgotten_between_two_files() {
    const FILES: usize = 8 * CHANGES_QUEUED;
    let folder = Folder::new();
    let (mut site, tree) = load_live(&folder);
    let (keeper, mut changes) = start(tree, 1);
    let changes = &mut changes[0];
    for n in 0..FILES {
        folder.write(&format!("{n}.txt"), format!("{n}"));
    }
    let until = Instant::now() + Duration::from_secs(120);
    let wait = || {
        assert!(Instant::now() < until, "changes come");
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut forgotten_at = None;
    let mut has_asked = false;
    while site.document_count() < FILES || forgotten_at.is_none() {
        for (_, change) in changes.take() {
            match change {
                Change::Forgotten(..) => forgotten_at = Some(site.document_count()),
                change => site.apply(change),
            }
        }
        if !has_asked && site.document_count() > 0 {
            // It is in the middle of them, and waits for room.
            has_asked = keeper.requests().send(Errand::ForgetAll).is_ok();
        }
        wait();
    }
    let at = forgotten_at.unwrap();
    assert!(at < FILES, "{at} of {FILES} files came before");
}

/// The keeper ends with its owner even while it waits for room, no matter who listens.
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

/// Several cores hear of everything, no matter who has gone. The bytes are in memory once for all of them.
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

/// Editors and builds make files and directories that go at once. However that meets who looks at them, there is nothing to say.
#[test]
fn nothing_is_said_of_what_vanishes() {
    let folder = Folder::new();
    let (_, tree) = load_live(&folder);
    let (say, said) = std::sync::mpsc::channel();
    let cores = exos_host::affinity::allowed().unwrap();
    let say = move |omission: &Omission| say.send(omission.to_string()).unwrap();
    let (keeper, mut changes) =
        Keeper::start(vec![tree], Cache::new(u64::MAX).into(), cores, 1, say).unwrap();
    for n in 0..exos_testing::cases(1000) {
        folder.write("temporary", "t");
        folder.write(&format!("d{n}/inside"), "t");
        std::fs::remove_file(folder.path("temporary")).unwrap();
        std::fs::remove_dir_all(folder.path(&format!("d{n}"))).unwrap();
        changes[0].take().count();
    }
    folder.write("last", "t");
    await_change(&mut changes[0], |change| change.puts_at(b"/last"));
    drop(keeper);
    assert_eq!(said.iter().collect::<Vec<_>>(), [""; 0]);
}

/// A site that is for those with a password in the file `.users`, and what follows it.
fn site_with_users(folder: &Folder, users: &str) -> (Config, Tree) {
    folder.write("a.txt", "a");
    folder.write(".users", users);
    let text = format!(
        "[[site]]\nroot = {:?}\n[[site.access]]\npath = \"*\"\nusers = \".users\"\n",
        folder.0
    );
    let config = Config::parse(&folder.path("serve.toml"), &text).unwrap();
    let (_, mut trees) =
        Fresh::read(config.clone(), true, &FromCache::new(None, Vec::new())).unwrap();
    (config, trees.remove(0))
}

/// What becomes of a request with a password of a client.
fn judge(config: &Config, peer: [u8; 4], sent: &str) -> Verdict {
    let access = &config.sites[0].settings.access;
    let asks = Asks {
        others: &[],
        path: b"/a.txt",
        peer: std::net::Ipv4Addr::from(peer).into(),
        now: exos_inet::Instant::START,
        is_new: true,
        authorization: Some(sent.as_bytes()),
    };
    access.judge(&asks, &[])
}

/// Waits for a change that is looked for.
fn await_change(changes: &mut Changes, mut is_it: impl FnMut(Change) -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !changes.take().any(|(_, change)| is_it(change)) {
        assert!(Instant::now() < until, "nobody tells");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const RIGHT: &str = "Basic YW5uOkhlbGxvIHdvcmxkIQ==";

/// A password takes long, so it is verified on a thread of its own, and all cores hear of it as of documents.
#[test]
fn passwords_are_verified_for_those_who_wait() {
    let folder = Folder::new();
    let (config, tree) = site_with_users(&folder, crate::sites::access::ANN);
    let Verdict::Verify(wanted) = judge(&config, [10, 0, 0, 1], RIGHT) else {
        panic!("it is known before it was verified");
    };
    let (keeper, mut changes) = start(tree, 2);
    keeper.requests().ask(0, wanted.clone()).unwrap();
    for changes in &mut changes {
        await_change(
            changes,
            |change| matches!(&change, Change::Verified(of) if *of == wanted),
        );
    }
    let passes = Verdict::Pass {
        user: Some(b"ann"[..].into()),
    };
    assert_eq!(judge(&config, [10, 0, 0, 1], RIGHT), passes);
    // A user that is taken out of the file is soon refused.
    folder.write(".users", "# nobody\n");
    let until = Instant::now() + Duration::from_secs(120);
    while judge(&config, [10, 0, 0, 1], RIGHT) == passes {
        assert!(Instant::now() < until, "it is never read again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// However many passwords a client tries at once, others are verified beside it.
#[test]
fn who_guesses_does_not_keep_others_out() {
    let folder = Folder::new();
    // Some hundred milliseconds each.
    let ann = crate::sites::access::ANN.replace("$5$", "$5$rounds=500000$");
    let (config, tree) = site_with_users(&folder, &ann);
    let (keeper, mut changes) = start(tree, 1);
    let ask = |peer, sent: &str| {
        let Verdict::Verify(wanted) = judge(&config, peer, sent) else {
            panic!("{sent} is known");
        };
        let until = Instant::now() + Duration::from_secs(120);
        while keeper.requests().ask(0, wanted.clone()).is_err() {
            assert!(Instant::now() < until, "there is never room");
            std::thread::sleep(Duration::from_millis(1));
        }
        wanted
    };
    let guesses = 4 * PASSWORDS_QUEUED;
    for n in 0..guesses {
        ask(
            [10, 0, 0, 1],
            &format!("Basic {}", STANDARD.encode(format!("ann:{n}"))),
        );
    }
    let other = ask([10, 0, 0, 2], "Basic YW5uOm90aGVy");
    let mut failed = 0;
    await_change(&mut changes[0], |change| match change {
        Change::Failed(of) => {
            failed += 1;
            assert!(of != other, "there was room");
            false
        }
        Change::Verified(of) => of == other,
        _ => false,
    });
    assert!(failed >= guesses / 2, "{failed} were refused at once");
}
