//! Files that change under the server, in the real file system: each change is served, nothing is torn,
//! and what following changes gives is what loading again would give.
//!
//! The kernel queues its notice before the call that makes a change returns, and time is the test's
//! own: nothing here waits.

use crate::common;
use crate::common::live;
use crate::common::people;

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::folder::Folder;
use exos_cheetah::Site;
use exos_cheetah::Status;
use exos_cheetah::limits::{RESCAN_TIME, SETTLE_TIME, SETTLE_TIME_MAX};
use exos_cheetah::site::rules::fields::{FieldRule, FieldRules};
use exos_cheetah::site::rules::pattern::Pattern;
use exos_cheetah::site::{Entry, Limits, Settings};
use live::{Live, content};
use people::{change_something, picture};

#[test]
fn files_come_change_and_go() {
    let folder = Folder::new();
    folder.write("a.txt", "one");
    let mut live = Live::of(folder);
    live.folder.write("a.txt", "two");
    live.folder.write("b.html", "new");
    live.follow();
    assert_eq!(live.get("/a.txt").as_deref(), Some("two"));
    assert_eq!(live.get("/b.html").as_deref(), Some("new"));
    fs::remove_file(live.folder.path("a.txt")).unwrap();
    live.follow();
    assert!(live.site.find(b"/a.txt").is_none());
    let before = live.changes;
    live.follow();
    assert_eq!(live.changes, before, "nothing happened");
}

/// What is being sent is of one version; tag and bytes belong together in each.
#[test]
fn responses_under_way_keep_their_version() {
    let folder = Folder::new();
    folder.write("a.txt", "the first version");
    let mut live = Live::of(folder);
    let (old, sending) = (live.document("/a.txt"), live.document("/a.txt").whole());
    live.folder.write("a.txt", "the second one");
    live.follow();
    let new = live.document("/a.txt");
    assert!(sending.as_bytes().ends_with(b"the first version"));
    assert!(new.whole().as_bytes().ends_with(b"the second one"));
    assert_ne!(old.entity_tag(), new.entity_tag());
    live.folder.write("a.txt", "the first version");
    live.follow();
    assert_eq!(live.document("/a.txt").entity_tag(), old.entity_tag());
}

/// As editors and deployments do it: a whole new file takes the name of the old one.
#[test]
fn a_file_that_is_replaced_is_there_all_the_time() {
    let folder = Folder::new();
    folder.write("index.html", "old");
    let mut live = Live::of(folder);
    live.folder.write("index.html~1", "new");
    fs::rename(
        live.folder.path("index.html~1"),
        live.folder.path("index.html"),
    )
    .unwrap();
    live.follow_and(|site| {
        let page = content(site, "/").expect("a page at all times");
        assert!(page == "old" || page == "new");
        assert_eq!(content(site, "/index.html").unwrap(), page);
    });
    assert_eq!(live.get("/").as_deref(), Some("new"));
    assert!(live.site.find(b"/index.html~1").is_none());
}

#[test]
fn an_index_that_goes_leaves_a_directory_that_is_forbidden() {
    let folder = Folder::new();
    folder.write("d/index.html", "page");
    let mut live = Live::of(folder);
    assert_eq!(live.get("/d/").as_deref(), Some("page"));
    fs::remove_file(live.folder.path("d/index.html")).unwrap();
    live.follow();
    assert!(matches!(live.site.find(b"/d/"), Some(Entry::Forbidden)));
    assert!(matches!(live.site.find(b"/d"), Some(Entry::Directory)));
}

/// A coded file beside a document is its variant as long as it is no older, whichever of them changes.
#[test]
fn variants_come_change_and_go() {
    let coded = |site: &Site| -> Vec<String> {
        let Some(Entry::Document(variants)) = site.find(b"/a.html") else {
            panic!("a document at all times");
        };
        let coded = variants.coded().iter();
        assert_eq!(variants.plain().varies(), !variants.coded().is_empty());
        coded
            .map(|(coding, d)| {
                format!(
                    "{} {}",
                    coding.name(),
                    String::from_utf8_lossy(d.body().as_bytes())
                )
            })
            .collect()
    };
    let folder = Folder::new();
    folder.write_at("a.html", "page", 1000);
    let mut live = Live::of(folder);
    assert_eq!(coded(&live.site), [""; 0]);
    live.folder.write_at("a.html.gz", "zip", 1000);
    live.follow();
    assert_eq!(coded(&live.site), ["gzip zip"]);
    live.folder.write_at("a.html.br", "brotli", 2000);
    live.folder.write_at("a.html.gz", "other", 1000);
    live.follow();
    assert_eq!(coded(&live.site), ["br brotli", "gzip other"]);
    live.folder.write_at("a.html", "new page", 1500);
    live.follow();
    assert_eq!(
        coded(&live.site),
        ["br brotli"],
        "the other is of the old page"
    );
    fs::remove_file(live.folder.path("a.html.br")).unwrap();
    live.follow();
    assert_eq!(coded(&live.site), [""; 0]);
    assert_eq!(live.get("/a.html").as_deref(), Some("new page"));
    assert_eq!(picture(&live.site), picture(&live.folder.load()));
}

/// With settings: the next name of an index takes the place of one that goes, a page of an error follows its
/// document, and each document keeps the fields that rules add for its path.
#[test]
fn what_settings_say_holds_for_what_changes() {
    let folder = Folder::new();
    folder.write("index.html", "html");
    folder.write("index.txt", "text");
    folder.write("404.html", "none");
    let fields = FieldRule {
        pattern: Pattern::parse("*.txt").unwrap(),
        fields: vec![("X-Text".into(), vec!["yes".into()])],
    };
    let settings = Arc::new(Settings {
        index: vec!["index.html".into(), "index.txt".into()],
        fields: FieldRules::new(vec![fields]).unwrap(),
        error_pages: vec![(Status::NotFound, "/404.html".into())],
        ..Settings::default()
    });
    let (mut site, mut tree) = common::folder::load_live(&folder.0, Limits::default(), settings);
    let mut follow = |site: &mut Site| {
        tree.poll(Instant::now(), &mut |_, change| site.apply(change));
    };
    let page = |site: &Site| {
        let page = site.error_page(Status::NotFound);
        page.map(|page| String::from_utf8(page.body().as_bytes().to_vec()).unwrap())
    };
    fs::remove_file(folder.path("index.html")).unwrap();
    fs::write(folder.path("404.html"), "nothing").unwrap();
    follow(&mut site);
    assert_eq!(content(&site, "/").as_deref(), Some("text"));
    assert_eq!(page(&site).as_deref(), Some("nothing"));
    fs::rename(folder.path("index.txt"), folder.path("b.txt")).unwrap();
    fs::hard_link(folder.path("b.txt"), folder.path("c.html")).unwrap();
    fs::remove_file(folder.path("404.html")).unwrap();
    follow(&mut site);
    tree.poll(Instant::now() + SETTLE_TIME, &mut |_, change| {
        site.apply(change)
    });
    assert!(matches!(site.find(b"/"), Some(Entry::Forbidden)));
    assert_eq!(page(&site), None);
    for (path, has_field) in [("/b.txt", true), ("/c.html", false)] {
        let document = site
            .find(path.as_bytes())
            .and_then(Entry::document)
            .expect(path);
        let fields = document.fields();
        let has = fields.as_bytes().windows(8).any(|w| w == b"X-Text: ");
        assert_eq!(has, has_field, "{path}");
    }
}

/// What is created in a directory before it is watched is found when it is first looked into.
#[test]
fn directories_come_with_what_is_in_them_and_go_with_it() {
    let mut live = Live::of(Folder::new());
    live.folder.write("a/b/c.txt", "c");
    live.follow();
    assert_eq!(live.get("/a/b/c.txt").as_deref(), Some("c"));
    live.folder.write("a/b/d.txt", "d");
    live.follow();
    assert_eq!(live.get("/a/b/d.txt").as_deref(), Some("d"));
    fs::remove_dir_all(live.folder.path("a")).unwrap();
    live.follow();
    assert!(live.site.find(b"/a").is_none() && live.site.find(b"/a/b/c.txt").is_none());
    assert_eq!(live.site.document_count(), 0);
}

/// While somebody writes in place, the old version is served; then the whole new one.
#[test]
fn a_slow_writer_is_waited_for() {
    let folder = Folder::new();
    folder.write("a.txt", "the old version");
    let mut live = Live::of(folder);
    let mut file = fs::File::create(live.folder.path("a.txt")).unwrap();
    for piece in ["the ", "new ", "version"] {
        file.write_all(piece.as_bytes()).unwrap();
        live.follow_after(SETTLE_TIME * 2 / 3);
        assert_eq!(live.get("/a.txt").as_deref(), Some("the old version"));
    }
    drop(file);
    live.follow();
    assert_eq!(live.get("/a.txt").as_deref(), Some("the new version"));
}

/// A file is replaced, and somebody begins to write to the new one, before anybody has looked: what was served
/// before stays until they have finished.
#[test]
fn a_writer_that_begins_before_the_last_change_is_seen_is_waited_for() {
    let folder = Folder::new();
    folder.write("a.txt", "one");
    let mut live = Live::of(folder);
    let path = |live: &Live| live.folder.path("a.txt");
    type Change = fn(&Live);
    let changes: [Change; 4] = [
        |live| {
            live.folder.write(".new", "renamed");
            fs::rename(live.folder.path(".new"), live.folder.path("a.txt")).unwrap();
        },
        |live| live.folder.write("a.txt", "closed"),
        |live| fs::remove_file(live.folder.path("a.txt")).unwrap(),
        |live| {
            fs::remove_file(live.folder.path("a.txt")).unwrap();
            live.folder.write("a.txt", "made again");
        },
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let before = live.get("/a.txt");
        change(&live);
        let mut file = fs::File::create(path(&live)).unwrap();
        live.follow();
        assert_eq!(live.get("/a.txt"), before, "change {n}: it is empty");
        file.write_all(b"half").unwrap();
        live.follow();
        assert_eq!(live.get("/a.txt"), before, "change {n}");
        file.write_all(format!(" and half {n}").as_bytes()).unwrap();
        drop(file);
        live.follow();
        assert_eq!(live.get("/a.txt").unwrap(), format!("half and half {n}"));
    }
}

/// Names that lead to one file are looked at whenever anything happens: not while somebody writes to it.
#[test]
fn a_writer_is_waited_for_by_all_names_of_the_file() {
    let folder = Folder::new();
    folder.write("d/a.txt", "one");
    fs::hard_link(folder.path("d/a.txt"), folder.path("b.txt")).unwrap();
    folder.link("d/a.txt", "c.txt");
    let mut live = Live::of(folder);
    let all = ["/d/a.txt", "/b.txt", "/c.txt"];
    let mut file = fs::File::create(live.folder.path("d/a.txt")).unwrap();
    for n in 0..3 {
        file.write_all(b"half ").unwrap();
        live.folder.write("other.txt", format!("{n}"));
        live.follow();
        assert_eq!(live.get("/other.txt"), Some(n.to_string()));
        for path in all {
            assert_eq!(live.get(path).as_deref(), Some("one"), "{path}");
        }
    }
    drop(file);
    live.follow();
    for path in all {
        assert_eq!(live.get(path).as_deref(), Some("half half half "), "{path}");
    }
}

#[test]
fn a_new_file_is_served_when_its_writer_closes_it_or_pauses() {
    let mut live = Live::of(Folder::new());
    let mut file = fs::File::create(live.folder.path("a.txt")).unwrap();
    file.write_all(b"half").unwrap();
    live.follow();
    assert!(live.site.find(b"/a.txt").is_none());
    live.follow_after(SETTLE_TIME);
    assert_eq!(live.get("/a.txt").as_deref(), Some("half"), "a long pause");
    file.write_all(b" and half").unwrap();
    drop(file);
    live.follow();
    assert_eq!(live.get("/a.txt").as_deref(), Some("half and half"));
}

#[test]
fn a_log_without_an_end_is_some_seconds_old() {
    let folder = Folder::new();
    folder.write("log.txt", "");
    let mut live = Live::of(folder);
    let mut log = fs::File::options()
        .append(true)
        .open(live.folder.path("log.txt"))
        .unwrap();
    let lines = (SETTLE_TIME_MAX.as_millis() / 500) as usize + 2;
    for _ in 0..lines {
        log.write_all(b"line\n").unwrap();
        live.follow_after(Duration::from_millis(500));
    }
    let served = live.get("/log.txt").unwrap().len() / 5;
    assert!(
        served > 0 && served >= lines - 4,
        "{served} of {lines} lines"
    );
}

#[test]
fn what_was_left_out_for_want_of_room_comes_when_there_is_some() {
    let folder = Folder::new();
    folder.write("a", [b'a'; 10]);
    folder.write("b", [b'b'; 10]);
    let limits = Limits {
        files: 1,
        document_len: 15,
        ..Limits::default()
    };
    let mut live = Live::within(folder, limits);
    assert!(matches!(live.site.find(b"/b"), Some(Entry::Forbidden)));
    fs::remove_file(live.folder.path("a")).unwrap();
    live.follow();
    live.follow_after(RESCAN_TIME);
    assert_eq!(live.get("/b").map(|b| b.len()), Some(10));
    live.folder.write("b", [b'b'; 20]);
    live.follow();
    assert!(
        matches!(live.site.find(b"/b"), Some(Entry::Forbidden)),
        "it has grown too long"
    );
}

/// More changes than the kernel queues notices of: all is examined again.
#[test]
fn lost_notices_lose_nothing() {
    let queued = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queued: usize = queued.trim().parse().unwrap();
    if queued > 100_000 {
        eprintln!("skipped: {queued} notices are queued");
        return;
    }
    let mut live = Live::of(Folder::new());
    fs::create_dir(live.folder.path("d")).unwrap();
    live.follow();
    let count = queued / 2 + 100; // Each is created and closed.
    for n in 0..count {
        fs::File::create(live.folder.path(&format!("d/{n}"))).unwrap();
    }
    live.follow();
    assert_eq!(live.site.document_count(), count);
}

/// Many random changes, followed at random times: the site is what a new load of the directory gives.
#[test]
fn following_is_like_loading_anew() {
    for seed in 0..exos_testing::cases(20) {
        let mut random = exos_sim::random::Random::new(exos_sim::random::Seed(seed), 0);
        let mut live = Live::of(Folder::new());
        for step in 0..60 {
            // Links that come and go between two looks may not be noticed.
            let is_link = change_something(&live.folder, step, |n| random.below(n as u64) as usize);
            if is_link || random.below(3) == 0 {
                live.follow();
            }
        }
        live.follow();
        live.follow_after(SETTLE_TIME);
        live.follow_after(SETTLE_TIME);
        let again = picture(&live.folder.load());
        assert_eq!(picture(&live.site), again, "seed {seed}");
    }
}
