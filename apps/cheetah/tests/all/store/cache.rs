//! A document set larger than memory, in the real file system: every answer is right, whatever is in memory at the
//! moment, and memory stays within its bound.

use crate::common;
use crate::common::people;
use crate::common::visit;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::folder::Folder;
use common::path;
use exos_cheetah::Site;
use exos_cheetah::limits::{CACHE_LARGE_PART, CHANGES_QUEUED, FETCHES_QUEUED, SETTLE_TIME};
use exos_cheetah::site::{Cache, Change, Entry, Keeper, Limits, Settings, SharedCache, Tree};
use exos_sim::random::{Random, Seed};
use people::{change_something, picture};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use visit::Visit;

/// The content of a numbered file: as long as its number says, and different from all others.
fn content(number: usize) -> Vec<u8> {
    let len = number * 7919 % 20_000;
    let words = (0..).flat_map(|at: u64| (at * 31 + number as u64).to_le_bytes());
    words.take(len).collect()
}

fn name(number: usize) -> String {
    format!("{}/{number}.bin", number % 7)
}

/// Numbered files, some 10 KB each.
fn folder(files: usize) -> Folder {
    let folder = Folder::new();
    for number in 0..files {
        folder.write(&name(number), content(number));
    }
    folder
}

/// A directory whose site has a cache.
struct Cached {
    folder: Folder,
    site: Site,
    tree: Tree,
    cache: SharedCache,
    now: Instant,
}

fn open(folder: &Folder, settings: Arc<Settings>, number: usize, cache: &SharedCache) -> Tree {
    let limits = Limits {
        document_len: 1 << 30,
        ..Limits::default()
    };
    let tree = Tree::open(&folder.0, limits, settings, true);
    tree.unwrap().within(number, cache.clone())
}

impl Cached {
    fn new(folder: Folder, limit: u64) -> Cached {
        Cached::with(folder, limit, Settings::default())
    }

    fn with(folder: Folder, limit: u64, settings: Settings) -> Cached {
        let (settings, cache) = (Arc::new(settings), SharedCache::from(Cache::new(limit)));
        let mut tree = open(&folder, settings.clone(), 0, &cache);
        let mut site = Site::with(settings);
        tree.scan(&mut |_, change| site.apply(change)).unwrap();
        Cached {
            folder,
            site,
            tree,
            cache,
            now: Instant::now(),
        }
    }

    fn follow(&mut self) {
        let site = &mut self.site;
        self.tree
            .poll(self.now, &mut |_, change| site.apply(change));
    }

    /// The document at a path, which is fetched if it is not in memory; `None` when there is none.
    fn get(&mut self, of: &str) -> Option<Vec<u8>> {
        let is_listed = matches!(self.site.find(of.as_bytes()), Some(Entry::Listed(..)));
        let Cached {
            site, tree, now, ..
        } = self;
        let mut found = None;
        let mut look = |site: &Site| {
            let document = site.find(of.as_bytes()).and_then(Entry::document);
            found = document
                .map(|d| d.body().as_bytes().to_vec())
                .or(found.take());
        };
        look(site);
        if is_listed {
            tree.fetch(&path(of), *now, &mut |_, change| {
                assert!(!matches!(change, Change::Failed(_)), "{of}");
                site.apply(change);
                look(site);
            });
        }
        found
    }

    fn is_listed(&self, path: &str) -> bool {
        matches!(self.site.find(path.as_bytes()), Some(Entry::Listed(..)))
    }

    /// The ledger is right about the table, and within its bound.
    fn check(&self) {
        let cache = self.cache.lock();
        assert!(cache.held() <= cache.limit(), "{} bytes", cache.held());
        let entries = self
            .site
            .entries()
            .filter(|(path, _)| !path.ends_with(b"/"));
        let mut len = 0;
        let mut seen = std::collections::HashSet::new();
        for (path, entry) in entries.filter(|(_, entry)| entry.is_document()) {
            let is_held = cache.holds(0, &path.into());
            let name = String::from_utf8_lossy(path);
            assert_eq!(is_held, matches!(entry, Entry::Document(_)), "{name}");
            if let Entry::Document(variants) = entry {
                let coded = variants.coded().iter().map(|(_, document)| document);
                for document in coded.chain([variants.plain()]) {
                    let bytes = document.buffer().as_slice();
                    len += bytes.len() * usize::from(seen.insert(bytes.as_ptr()));
                }
            }
        }
        let held = cache.held() as usize;
        assert!(
            held >= len && held <= len + len / 50 + 1024 * seen.len(),
            "{held} for {len}"
        );
    }
}

const FILES: usize = 200;
/// A tenth of what they have.
const LIMIT: u64 = FILES as u64 * 1_000;

#[test]
fn what_fits_is_loaded_and_the_rest_is_listed_with_its_length() {
    let cached = Cached::new(folder(FILES), LIMIT);
    cached.check();
    assert!(cached.cache.lock().held() > LIMIT / 2);
    let (listed, listed_len) = cached.site.listed();
    assert_eq!(cached.site.document_count() + listed, FILES);
    assert!(listed > FILES / 2);
    let all: usize = (0..FILES).map(|number| content(number).len()).sum();
    assert_eq!(cached.site.content_len() + listed_len, all as u64);
    let everything = cached.folder.load();
    for number in 0..FILES {
        let path = format!("/{}", name(number));
        let about = |site: &Site| site.find(path.as_bytes()).unwrap().about();
        assert_eq!(about(&cached.site), about(&everything), "{path}");
    }
}

#[test]
fn every_document_is_to_be_had_within_the_bound() {
    let mut cached = Cached::new(folder(FILES), LIMIT);
    let mut random = Random::new(Seed(1), 0);
    for _ in 0..5 * FILES {
        let number = random.below(FILES as u64) as usize;
        let path = format!("/{}", name(number));
        assert_eq!(cached.get(&path), Some(content(number)), "{path}");
        cached.check();
        let leaving = cached.cache.lock().leaving();
        assert!(leaving < 100_000, "{leaving} bytes that nobody holds");
    }
}

/// One that would displace a good part of the others is read for who waits for it.
#[test]
fn a_large_document_displaces_nobody() {
    let folder = folder(FILES);
    let len = (LIMIT / CACHE_LARGE_PART) as usize;
    folder.write("large", vec![b'x'; len]);
    folder.write("not-so-large", vec![b'x'; len * 9 / 10]);
    let mut cached = Cached::new(folder, LIMIT);
    let before = picture(&cached.site);
    assert_eq!(cached.get("/large").map(|c| c.len()), Some(len));
    assert_eq!(picture(&cached.site), before);
    assert!(cached.is_listed("/large"));
    assert!(cached.get("/not-so-large").is_some() && !cached.is_listed("/not-so-large"));
    cached.check();
    // Where there is room for it, it stays.
    let folder = Folder::new();
    folder.write("large", vec![b'x'; len]);
    let cached = Cached::new(folder, 2 * len as u64);
    assert!(!cached.is_listed("/large"));
}

/// What a response still needs lives on, and counts until it is not needed.
#[test]
fn a_document_under_way_lives_and_counts() {
    let mut cached = Cached::new(folder(FILES), LIMIT);
    let document = |cached: &Cached| {
        let entries = cached.site.entries();
        let mut held = entries.filter_map(|(_, entry)| entry.document());
        held.find(|document| document.body().len() > 10_000)
            .unwrap()
            .clone()
    };
    let under_way = document(&cached).body();
    let bytes = under_way.as_bytes().to_vec();
    for number in 0..FILES {
        cached.get(&format!("/{}", name(number)));
    }
    assert_eq!(under_way.as_bytes(), bytes);
    assert!(cached.cache.lock().leaving() > 10_000);
    drop(under_way);
    for number in 0..FILES {
        cached.get(&format!("/{}", name(number)));
    }
    assert!(cached.cache.lock().leaving() < 100_000);
    cached.check();
}

/// Clients that take nothing hold all that they were sent. Others are served from what is left, which is half.
#[test]
fn slow_readers_leave_half_of_the_cache() {
    let mut cached = Cached::new(folder(FILES), LIMIT);
    let mut under_way = Vec::new();
    for number in 0..FILES {
        let path = format!("/{}", name(number));
        cached.get(&path);
        let document = cached.site.find(path.as_bytes()).and_then(Entry::document);
        under_way.extend(document.map(|document| document.body()));
        cached.check();
    }
    let cache = cached.cache.lock();
    assert!(cache.leaving() > LIMIT && cache.held() > LIMIT / 4);
    assert!(cache.held() <= LIMIT / 2);
}

#[test]
fn what_changes_while_it_is_not_in_memory_is_known() {
    let mut cached = Cached::new(folder(FILES), LIMIT);
    let last = FILES - 1;
    let path = format!("/{}", name(last));
    assert!(cached.is_listed(&path));
    cached.folder.write(&name(last), "changed");
    cached.follow();
    assert!(cached.is_listed(&path), "nobody has asked for it");
    let about = cached.site.find(path.as_bytes()).unwrap().about();
    assert_eq!(about.unwrap().len, 7);
    // The notice of this one has not been read when it is asked for.
    cached.folder.write(&name(last), "changed again");
    assert_eq!(cached.get(&path).unwrap(), b"changed again");
    cached.follow();
    assert_eq!(cached.get(&path).unwrap(), b"changed again");
    // In memory it is followed as ever.
    cached.folder.write(&name(last), "once more");
    cached.follow();
    assert!(!cached.is_listed(&path));
    assert_eq!(cached.get(&path).unwrap(), b"once more");
    cached.check();
}

#[test]
fn what_goes_while_it_is_not_in_memory_is_gone() {
    let mut cached = Cached::new(folder(FILES), LIMIT);
    let numbers = [FILES - 1, FILES - 2, FILES - 8];
    let [removed, replaced, locked] = numbers.map(|number| format!("/{}", name(number)));
    fs::remove_file(cached.folder.path(&removed[1..])).unwrap();
    assert_eq!(cached.get(&removed), None);
    assert!(cached.site.find(removed.as_bytes()).is_none());
    fs::remove_file(cached.folder.path(&replaced[1..])).unwrap();
    cached
        .folder
        .write(&format!("{}/inside", &replaced[1..]), "new");
    assert_eq!(cached.get(&replaced), None);
    let entry = cached.site.find(replaced.as_bytes());
    assert!(matches!(entry, Some(Entry::Directory)));
    assert_eq!(cached.get(&format!("{replaced}/inside")).unwrap(), b"new");
    fs::remove_file(cached.folder.path(&locked[1..])).unwrap();
    cached.folder.link("/etc/passwd", &locked[1..]);
    assert_eq!(cached.get(&locked), None);
    let entry = cached.site.find(locked.as_bytes());
    assert!(matches!(entry, Some(Entry::Forbidden)));
    cached.follow();
    cached.check();
}

/// Names of one file have one document, in memory together or not at all.
#[test]
fn names_share_a_document_that_comes_and_goes() {
    let folder = folder(FILES);
    folder.write("zz/a.txt", vec![b'a'; 10_000]);
    folder.link("a.txt", "zz/b.txt");
    fs::hard_link(folder.path("zz/a.txt"), folder.path("zz/c.txt")).unwrap();
    fs::hard_link(folder.path("zz/a.txt"), folder.path("zz/d.html")).unwrap();
    let mut cached = Cached::new(folder, LIMIT);
    let names = ["/zz/a.txt", "/zz/b.txt", "/zz/c.txt"];
    assert!(names.iter().all(|name| cached.is_listed(name)));
    assert!(cached.get("/zz/b.txt").is_some());
    cached.check();
    let document = |cached: &Cached, name: &str| {
        let document = cached.site.find(name.as_bytes()).unwrap().document();
        document.unwrap().clone()
    };
    let first = document(&cached, names[0]);
    assert!(
        names
            .iter()
            .all(|name| document(&cached, name).buffer().same(first.buffer()))
    );
    assert!(cached.is_listed("/zz/d.html"), "it is of another type");
    for number in 0..FILES {
        cached.get(&format!("/{}", name(number)));
        let listed = names.iter().filter(|name| cached.is_listed(name)).count();
        assert!(listed == 0 || listed == names.len());
        cached.check();
    }
    assert!(cached.is_listed(names[0]), "others were asked for");
}

#[test]
fn variants_come_together_and_error_pages_stay() {
    let folder = folder(FILES);
    folder.write_at("zz/page.html", "the page", 1000);
    folder.write_at("zz/page.html.br", "brotli", 1000);
    folder.write_at("zz/page.html.gz", "old", 999);
    folder.write("zz/404.html", "nothing here");
    let settings = Settings {
        error_pages: vec![(exos_cheetah::Status::NotFound, "/zz/404.html".into())],
        ..Settings::default()
    };
    let mut cached = Cached::with(folder, LIMIT, settings);
    let page = |cached: &Cached| {
        let page = cached.site.error_page(exos_cheetah::Status::NotFound);
        String::from_utf8(page.unwrap().body().as_bytes().to_vec()).unwrap()
    };
    assert_eq!(page(&cached), "nothing here");
    assert!(cached.is_listed("/zz/page.html"));
    let codings = |cached: &Cached| match cached.site.find(b"/zz/page.html") {
        Some(Entry::Document(variants)) => {
            let coded = variants.coded().iter();
            Some(coded.map(|(coding, _)| coding.name()).collect::<Vec<_>>())
        }
        _ => None,
    };
    let mut seen = None;
    let Cached { site, tree, .. } = &mut cached;
    tree.fetch(&path("/zz/page.html"), Instant::now(), &mut |_, change| {
        // Anyone who waits gets the variant that it takes, not whatever came first.
        if change.puts_at(b"/zz/page.html") {
            assert!(seen.is_none(), "said twice");
            seen = Some(matches!(change, Change::Variants(..)));
        }
        site.apply(change);
    });
    assert_eq!(seen, Some(true));
    assert_eq!(codings(&cached), Some(vec!["br"]));
    cached.check();
    for number in 0..FILES {
        cached.get(&format!("/{}", name(number)));
    }
    assert_eq!(codings(&cached), None, "others were asked for");
    cached.folder.write("zz/404.html", "still nothing");
    fs::remove_file(cached.folder.path("zz/page.html.br")).unwrap();
    cached.follow();
    assert_eq!(page(&cached), "still nothing");
    assert_eq!(cached.get("/zz/page.html").unwrap(), b"the page");
    assert_eq!(codings(&cached), Some(vec![]));
    cached.check();
}

/// A file that cannot be read for a reason of its own is refused, and said; nothing else suffers.
#[test]
fn what_is_too_long_by_now_is_refused() {
    let folder = folder(FILES);
    let mut cached = Cached::new(folder, LIMIT);
    let path = format!("/{}", name(FILES - 1));
    let file = fs::File::options()
        .write(true)
        .open(cached.folder.path(&path[1..]));
    file.unwrap().set_len(1 << 40).unwrap();
    assert_eq!(cached.get(&path), None);
    assert!(matches!(
        cached.site.find(path.as_bytes()),
        Some(Entry::Forbidden)
    ));
    assert_eq!(cached.tree.take_omissions().len(), 1);
    cached.check();
}

/// A file that is read while it is sent is known by its header fields alone, and is never out of memory.
#[test]
fn long_files_take_no_room() {
    let folder = folder(FILES);
    folder.write("0/long", vec![b'x'; 3 * LIMIT as usize]);
    let (settings, cache) = (Arc::default(), SharedCache::from(Cache::new(LIMIT)));
    let limits = Limits {
        memory_len: 2 * LIMIT,
        ..Limits::default()
    };
    let tree = Tree::open(&folder.0, limits, settings, true).unwrap();
    let mut tree = tree.within(0, cache.clone());
    let mut site = Site::new();
    tree.scan(&mut |_, change| site.apply(change)).unwrap();
    for number in 0..FILES {
        let path = path(&format!("/{}", name(number)));
        tree.fetch(&path, Instant::now(), &mut |_, change| site.apply(change));
        let long = site.find(b"/0/long").and_then(Entry::document).unwrap();
        assert_eq!(long.content_len(), 3 * LIMIT);
    }
    assert!(cache.lock().held() <= LIMIT);
    // One that is not in memory has grown.
    let mut paths = (0..FILES).map(|number| format!("/{}", name(number)));
    let is_listed = |path: &String| matches!(site.find(path.as_bytes()), Some(Entry::Listed(..)));
    let grown = paths.rfind(is_listed).unwrap();
    folder.write(&grown[1..], vec![b'y'; 4 * LIMIT as usize]);
    let now = Instant::now();
    tree.fetch(&path(&grown), now, &mut |_, change| site.apply(change));
    let long = site.find(grown.as_bytes()).and_then(Entry::document);
    assert_eq!(long.unwrap().content_len(), 4 * LIMIT);
}

/// Two sites have one cache: what is asked for in one displaces what nobody asks for in the other.
#[test]
fn sites_share_the_cache() {
    let folders = [folder(FILES), folder(FILES)];
    let cache = SharedCache::from(Cache::new(LIMIT));
    let mut sites = [Site::new(), Site::new()];
    let mut trees = [0, 1].map(|n| open(&folders[n], Arc::default(), n, &cache));
    for tree in &mut trees {
        tree.scan(&mut |site, change| sites[site].apply(change))
            .unwrap();
    }
    assert!(sites[0].document_count() > 0);
    for number in 0..FILES {
        let path = path(&format!("/{}", name(number)));
        if let Some(Entry::Document(_)) = sites[1].find(&path) {
            continue;
        }
        let mut found = None;
        trees[1].fetch(&path, Instant::now(), &mut |site, change| {
            sites[site].apply(change);
            let document = sites[1].find(&path).and_then(Entry::document);
            found = document.map(|d| d.body()).or(found.take());
        });
        assert_eq!(found.unwrap().as_bytes(), content(number));
    }
    assert_eq!(sites[0].document_count(), 0);
    let held = cache.lock().documents();
    assert_eq!(sites[1].document_count(), held);
}

/// Random changes and random requests: whatever is asked for is what a site has that has everything in memory.
#[test]
fn answers_are_those_of_a_site_without_bounds() {
    for seed in 0..exos_testing::cases(20) {
        let mut random = Random::new(Seed(seed), 0);
        // Room for two or three documents with what they take beside their bytes.
        let mut cached = Cached::new(Folder::new(), 2_500);
        for step in 0..80 {
            let is_link =
                change_something(&cached.folder, step, |n| random.below(n as u64) as usize);
            if is_link || random.below(3) == 0 {
                cached.follow();
                cached.check();
            }
            let paths: Vec<String> = picture(&cached.site).into_keys().collect();
            let path = &paths[random.below(paths.len() as u64) as usize];
            if cached.is_listed(path) && !path.ends_with('/') {
                cached.get(path);
            }
        }
        for _ in 0..3 {
            cached.follow();
            cached.now += SETTLE_TIME;
        }
        cached.check();
        let everything = picture(&cached.folder.load());
        let seen: Vec<String> = picture(&cached.site).into_keys().collect();
        let wanted: Vec<String> = everything.keys().cloned().collect();
        assert_eq!(seen, wanted, "seed {seed}");
        for (path, wanted) in &everything {
            let mut seen = picture(&cached.site)[path].clone();
            if seen == "not in memory" && !path.ends_with('/') {
                let Cached { site, tree, .. } = &mut cached;
                tree.fetch(&self::path(path), Instant::now(), &mut |_, change| {
                    site.apply(change);
                    let now = picture(site)[path].clone();
                    seen = if now == "not in memory" {
                        seen.clone()
                    } else {
                        now
                    };
                });
            }
            let is_index = path.ends_with('/') && seen == "not in memory";
            assert!(
                is_index || seen == *wanted,
                "seed {seed}: {path}: {seen} for {wanted}"
            );
        }
    }
}

/// What was received is one response for each of these documents, with its content.
fn are_documents(received: &[u8], numbers: &[usize]) {
    let mut rest = received;
    for &number in numbers {
        let head = rest.windows(4).position(|w| w == b"\r\n\r\n");
        let head = head.expect("a whole head");
        assert!(rest.starts_with(b"HTTP/1.1 200 "), "{number}");
        let (body, after) = rest[head + 4..].split_at(content(number).len());
        assert!(body == content(number), "{number}");
        rest = after;
    }
    assert!(rest.is_empty());
}

/// Many clients before a stack: pipelined requests for all documents, in any order, while the store is slow.
#[test]
fn many_clients_get_what_they_ask_for() {
    const CLIENTS: usize = 40;
    const REQUESTS: usize = 12;
    let Cached {
        folder,
        site,
        mut tree,
        cache,
        ..
    } = Cached::new(folder(FILES), LIMIT);
    let mut visit = Visit::new(site, |_| {});
    let mut random = Random::new(Seed(3), 0);
    let mut wanted: Vec<Vec<usize>> = Vec::new();
    for _ in 0..CLIENTS {
        let numbers = (0..REQUESTS).map(|_| random.below(FILES as u64) as usize);
        let numbers: Vec<usize> = numbers.collect();
        let request = |n: &usize| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", name(*n));
        let requests: String = numbers.iter().map(request).collect();
        visit.ask("10.0.0.1", requests.as_bytes());
        wanted.push(numbers);
    }
    let lens: Vec<usize> = wanted
        .iter()
        .map(|n| n.iter().map(|&n| content(n).len()).sum())
        .collect();
    let is_done = |visit: &Visit| {
        let mut sides = visit.connections.iter().zip(&lens);
        sides.all(|(side, &len)| side.received.len() > len + 100 * REQUESTS)
    };
    for _ in 0..2_000 {
        visit.run(Duration::from_millis(20), usize::MAX);
        // The store reads a few documents while time goes on.
        for _ in 0..=random.below(8) {
            let Some((_, path)) = visit.cheetah.poll_wanted() else {
                break;
            };
            tree.fetch(&path, Instant::now(), &mut |_, change| visit.change(change));
            assert!(cache.lock().held() <= LIMIT);
        }
        if is_done(&visit) {
            break;
        }
    }
    for (side, numbers) in visit.connections.iter().zip(&wanted) {
        are_documents(&side.received, numbers);
    }
    // Each was a hit or a miss, once, however often it had to wait.
    let counters = visit.cheetah.server().counters();
    let (hits, misses) = (counters.cache_hits, counters.cache_misses);
    assert_eq!(hits + misses, (CLIENTS * REQUESTS) as u64);
    assert!(hits > 0 && misses > hits && visit.cheetah.waiting() == 0);
    let figures = cache.lock().statistics().figures();
    assert!(figures.evictions > 0 && figures.fetched > figures.evictions);
    assert_eq!((figures.limit, figures.held), (LIMIT, cache.lock().held()));
    drop(folder);
}

/// The number in a document's [`name`].
fn number_of(path: &[u8]) -> usize {
    let name = String::from_utf8_lossy(path);
    let (_, name) = name.rsplit_once('/').unwrap();
    name.strip_suffix(".bin").unwrap().parse().unwrap()
}

/// Asked for from several threads at once, more documents than the queue holds, while files change.
#[test]
fn the_keeper_reads_what_threads_ask_for() {
    let Cached {
        folder,
        mut site,
        tree,
        cache,
        ..
    } = Cached::new(folder(FILES), LIMIT);
    let cores = exos_host::affinity::allowed().unwrap();
    let (keeper, mut changes) =
        Keeper::start(vec![tree], Cache::new(u64::MAX).into(), cores, 1, |_| {}).unwrap();
    let (answered, count) = (std::sync::atomic::AtomicUsize::new(0), 2 * FETCHES_QUEUED);
    let is_read = |change: &Change| matches!(change, Change::Document(..) | Change::Failed(_));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (requests, answered) = (keeper.requests().clone(), &answered);
            scope.spawn(move || {
                let mut random = Random::new(Seed(thread), 0);
                for _ in 0..count {
                    let number = random.below(FILES as u64) as usize;
                    let mut document = (0, path(&format!("/{}", name(number))));
                    while let Err(back) = requests.ask(document.0, document.1) {
                        document = back;
                        std::thread::yield_now();
                    }
                }
                answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        let until = Instant::now() + Duration::from_secs(120);
        let mut quiet = 0;
        while quiet < 20 {
            assert!(Instant::now() < until);
            let mut wake = [PollFd::from_borrowed_fd(changes[0].fd(), PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            poll(&mut wake, Some(&timeout)).unwrap();
            let mut taken = 0;
            for (number, change) in changes[0].take() {
                taken += 1;
                assert!(number == 0 && !matches!(change, Change::Failed(_)));
                let read = is_read(&change).then(|| change.path().clone());
                site.apply(change);
                if let Some(path) = read {
                    let document = site.find(&path).and_then(Entry::document).unwrap();
                    assert_eq!(document.body().as_bytes(), content(number_of(&path)));
                }
            }
            assert!(taken <= CHANGES_QUEUED, "a turn is bounded");
            assert!(cache.lock().held() <= LIMIT);
            let is_over = answered.load(std::sync::atomic::Ordering::SeqCst) == 2;
            quiet = if is_over && taken == 0 { quiet + 1 } else { 0 };
        }
    });
    drop((keeper, folder));
    assert_eq!(site.document_count(), cache.lock().documents());
}
