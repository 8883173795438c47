//! Files and directories with several names, that change under the server: hard links, symbolic links, and directories
//! that are exchanged or come again.

use crate::common;
use crate::common::live;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Instant;

use common::folder::Folder;
use exos_cheetah::site::Entry;
use live::{Live, content, load_live};

/// The documents move without being read again, and at no time are they nowhere.
#[test]
fn a_renamed_directory_keeps_its_documents() {
    let folder = Folder::new();
    folder.write("old/deep/a.txt", "a");
    let mut live = Live::of(folder);
    let before = live.document("/old/deep/a.txt");
    fs::rename(live.folder.path("old"), live.folder.path("new")).unwrap();
    live.follow_and(|site| {
        let paths = ["/old/deep/a.txt", "/new/deep/a.txt"];
        assert!(paths.iter().any(|path| content(site, path).is_some()));
    });
    assert!(
        live.document("/new/deep/a.txt")
            .buffer()
            .same(before.buffer())
    );
    assert!(live.site.find(b"/old").is_none());
    live.folder.write("new/deep/b.txt", "b");
    live.follow();
    assert_eq!(live.get("/new/deep/b.txt").as_deref(), Some("b"));
    assert!(live.site.find(b"/old/deep/b.txt").is_none());
}

#[test]
fn a_file_becomes_a_directory_and_back() {
    let folder = Folder::new();
    folder.write("a", "file");
    let mut live = Live::of(folder);
    fs::remove_file(live.folder.path("a")).unwrap();
    live.folder.write("a/b", "inside");
    live.follow();
    assert_eq!(live.get("/a/b").as_deref(), Some("inside"));
    assert!(matches!(live.site.find(b"/a"), Some(Entry::Directory)));
    fs::remove_dir_all(live.folder.path("a")).unwrap();
    live.folder.write("a", "file again");
    live.follow();
    assert_eq!(live.get("/a").as_deref(), Some("file again"));
    assert!(live.site.find(b"/a/").is_none() && live.site.find(b"/a/b").is_none());
}

/// A file without a name that is given one is never open for writing under it: only time tells.
#[test]
fn a_hard_link_changes_with_its_file() {
    let folder = Folder::new();
    folder.write("d/a.txt", "one");
    let mut live = Live::of(folder);
    fs::hard_link(live.folder.path("d/a.txt"), live.folder.path("b.txt")).unwrap();
    live.follow(); // At once: nobody writes to it.
    assert_eq!(live.get("/b.txt").as_deref(), Some("one"));
    assert!(
        live.document("/b.txt")
            .buffer()
            .same(live.document("/d/a.txt").buffer())
    );
    fs::write(live.folder.path("b.txt"), "two").unwrap();
    live.follow();
    assert_eq!(live.get("/d/a.txt").as_deref(), Some("two"));
    assert_eq!(live.get("/b.txt").as_deref(), Some("two"));
    assert_eq!(live.site.content_len(), 3, "in memory once");
}

#[test]
fn links_follow_what_they_lead_to() {
    let folder = Folder::new();
    folder.write("one.txt", "one");
    folder.write(".hidden/two.txt", "two");
    folder.link("one.txt", "link.txt");
    folder.link("link.txt", "chain.txt");
    let mut live = Live::of(folder);
    assert_eq!(live.get("/chain.txt").as_deref(), Some("one"));
    live.folder.write("one.txt", "one more");
    live.follow();
    assert_eq!(live.get("/chain.txt").as_deref(), Some("one more"));
    fs::remove_file(live.folder.path("link.txt")).unwrap();
    live.folder.link(".hidden/two.txt", "link.txt");
    live.follow();
    assert_eq!(live.get("/chain.txt").as_deref(), Some("two"));
    live.folder.write(".hidden/two.txt", "two more");
    live.follow();
    assert_eq!(live.get("/link.txt").as_deref(), Some("two more"));
    assert_eq!(live.get("/chain.txt").as_deref(), Some("two more"));
    fs::remove_file(live.folder.path("link.txt")).unwrap();
    live.folder.link("/etc/passwd", "link.txt");
    live.follow();
    for path in [&b"/link.txt"[..], b"/chain.txt"] {
        assert!(matches!(live.site.find(path), Some(Entry::Forbidden)));
    }
}

/// A link in the site that leads to a release is exchanged: no page is missing at any time.
#[test]
fn an_exchanged_release_is_whole_at_all_times() {
    let folder = Folder::new();
    folder.write("releases/1/a/page.html", "one");
    folder.write("releases/1/old.html", "old");
    folder.write("releases/2/a/page.html", "two");
    folder.link("releases/1", "current");
    let mut live = Live::of(folder);
    live.folder.link("releases/2", "next");
    fs::rename(live.folder.path("next"), live.folder.path("current")).unwrap();
    live.follow_and(|site| assert!(content(site, "/current/a/page.html").is_some()));
    assert_eq!(live.get("/current/a/page.html").as_deref(), Some("two"));
    assert!(live.site.find(b"/current/old.html").is_none());
    live.folder.write("releases/2/a/page.html", "two again");
    live.follow();
    assert_eq!(
        live.get("/current/a/page.html").as_deref(),
        Some("two again")
    );
}

/// The directory that is served is itself a link that changes, or is moved away.
#[test]
fn the_root_may_be_exchanged() {
    let folder = Folder::new();
    folder.write("1/page.html", "one");
    folder.write("2/page.html", "two");
    folder.link("1", "www");
    let (mut site, mut tree) = load_live(&folder.path("www"));
    folder.link("2", "next");
    fs::rename(folder.path("next"), folder.path("www")).unwrap();
    tree.poll(Instant::now(), &mut |_, change| {
        site.apply(change);
        assert!(content(&site, "/page.html").is_some());
    });
    assert_eq!(content(&site, "/page.html").as_deref(), Some("two"));
    folder.write("2/page.html", "two again");
    tree.poll(Instant::now(), &mut |_, change| site.apply(change));
    assert_eq!(content(&site, "/page.html").as_deref(), Some("two again"));
}

/// The directory that a link at the root leads to is removed and made again, as builds do.
#[test]
fn what_a_link_at_the_root_leads_to_may_come_again() {
    let folder = Folder::new();
    folder.write("1/page.html", "one");
    folder.write("out/2/page.html", "two");
    folder.link("1", "www");
    let (mut site, mut tree) = load_live(&folder.path("www"));
    let mut follow = |wanted: Option<&str>| {
        tree.poll(Instant::now(), &mut |_, change| site.apply(change));
        assert_eq!(content(&site, "/page.html").as_deref(), wanted);
    };
    for (target, again) in [("1", "one again"), ("out/2", "two again")] {
        fs::remove_dir_all(folder.path(target)).unwrap();
        follow(None);
        folder.write(&format!("{target}/page.html"), again);
        follow(Some(again));
        folder.link("out/2", "next");
        fs::rename(folder.path("next"), folder.path("www")).unwrap();
        follow(Some(if target == "1" { "two" } else { again }));
    }
}

/// What is above the root, or above what a link at the root leads to, is removed or moved away with it, and made again.
#[test]
fn the_way_to_the_root_may_go_and_come_again() {
    for (root, above) in [
        ("www", "build"),
        ("www", "build/a"),
        ("build/a/out", "build"),
        ("current/out", "build"),
    ] {
        let folder = Folder::new();
        folder.write("build/a/out/page.html", "one");
        folder.link("build/a/out", "www");
        folder.link("build/a", "current");
        let (mut site, mut tree) = load_live(&folder.path(root));
        let mut follow = |wanted: Option<&str>| {
            tree.poll(Instant::now(), &mut |_, change| site.apply(change));
            assert_eq!(content(&site, "/page.html").as_deref(), wanted, "{root}");
        };
        for again in ["two", "three"] {
            fs::remove_dir_all(folder.path(above)).unwrap();
            follow(None);
            fs::create_dir_all(folder.path(above)).unwrap();
            follow(None);
            folder.write("build/a/out/page.html", again);
            follow(Some(again));
        }
        fs::rename(folder.path(above), folder.path("old")).unwrap();
        follow(Some("three"));
        folder.write("build/a/out/page.html", "four");
        follow(Some("four"));
    }
}

/// A directory on the way to the root that a link in the middle leads to is exchanged.
#[test]
fn a_release_above_the_root_may_be_exchanged() {
    let folder = Folder::new();
    folder.write("1/www/page.html", "one");
    folder.write("2/www/page.html", "two");
    folder.link("1", "current");
    let (mut site, mut tree) = load_live(&folder.path("current/www"));
    folder.link("2", "next");
    fs::rename(folder.path("next"), folder.path("current")).unwrap();
    tree.poll(Instant::now(), &mut |_, change| site.apply(change));
    assert_eq!(content(&site, "/page.html").as_deref(), Some("two"));
}

/// A file is written by one of its names, which then goes.
#[test]
fn what_was_written_by_a_name_that_has_gone_is_served_by_the_others() {
    let folder = Folder::new();
    folder.write("a.txt", "one");
    fs::hard_link(folder.path("a.txt"), folder.path("b.txt")).unwrap();
    let mut live = Live::of(folder);
    fs::write(live.folder.path("b.txt"), "two").unwrap();
    fs::remove_file(live.folder.path("b.txt")).unwrap();
    live.follow();
    assert_eq!(live.get("/a.txt").as_deref(), Some("two"));
    assert!(live.site.find(b"/b.txt").is_none());
}

/// A directory is removed, and one made in its place that has the same inode number, as most file systems give them out
/// again at once: a link to it, by which it is looked at too, must not be taken for being where it was.
#[test]
fn a_directory_that_comes_again_is_followed_by_all_its_names() {
    let folder = Folder::new();
    folder.write("d/old.txt", "old");
    folder.link("d", "link");
    let mut live = Live::of(folder);
    let d = live.folder.path("d");
    let inode = || fs::metadata(&d).unwrap().ino();
    let mut again = 0;
    for step in 0..20 {
        let before = inode();
        fs::remove_dir_all(&d).unwrap();
        live.folder.write(&format!("d/e/{step}.txt"), "new");
        again += u32::from(inode() == before);
        live.follow();
        for name in ["d", "link"] {
            let path = format!("/{name}/e/{step}.txt");
            assert_eq!(live.get(&path).as_deref(), Some("new"), "{path}");
            let before = format!("/{name}/e/{}.txt", step - 1);
            assert!(live.site.find(before.as_bytes()).is_none(), "{before}");
        }
        // Both are watched again.
        live.folder.write(&format!("d/e/{step}.txt"), "newer");
        live.follow();
        let path = format!("/link/e/{step}.txt");
        assert_eq!(live.get(&path).as_deref(), Some("newer"));
    }
    if again == 0 {
        println!(
            "SKIPPED: directories with the inode of another: the file system gives each number once"
        );
    }
}
