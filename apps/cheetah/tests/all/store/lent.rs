//! Documents that come from the file cache that processes share, of a real service.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use exos_cheetah::Site;
use exos_cheetah::limits::LENT_LEN_MIN;
use exos_cheetah::site::store::cache::{Figures, FromCache};
use exos_cheetah::site::{Cache, Change, Description, Document, Entry, SharedCache, Tree};
use exos_file_cache::limits::{EXTENT_LEN, MEMORY_MIN};
use exos_file_cache::{Client, Options, Service};
use exos_replacement::PolicyName;

use crate::common::folder::Folder;
use crate::common::path;

/// What is not so by then will not be.
const AT_MOST: Duration = Duration::from_secs(60);
/// What a program may keep of the least memory, and what documents keep of that.
const SHARE: u64 = MEMORY_MIN / 4;
const LIMIT: u64 = SHARE / 2;

/// A folder beside what was built: a temporary one is often a tmpfs, from which nothing is taken.
fn folder() -> Folder {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    Folder(folder.keep())
}

/// A service with the least memory, for as long as this process runs.
fn serve(folder: &Folder) -> PathBuf {
    std::fs::create_dir(folder.path(".run")).unwrap();
    let socket = folder.path(".run/file-cache.sock");
    let (is_there, told) = channel();
    let path = socket.clone();
    std::thread::spawn(move || {
        let options = Options {
            memory: MEMORY_MIN,
            policy: PolicyName::S3Fifo.policy(),
            users: Vec::new(),
        };
        let mut service = Service::new(&path, options).unwrap();
        is_there.send(()).unwrap();
        service.run().unwrap();
    });
    told.recv_timeout(AT_MOST).unwrap();
    socket
}

/// A server's documents.
struct Served {
    site: Site,
    tree: Tree,
    cache: SharedCache,
}

impl Served {
    fn new(folder: &Folder, socket: PathBuf) -> Served {
        let from = FromCache::new(Some(socket), Vec::new());
        let cache = SharedCache::from(Cache::new(64 << 20).lending(Some(from)));
        let tree = Tree::open(&folder.0, Default::default(), Arc::default(), true).unwrap();
        let mut tree = tree.within(0, cache.clone());
        let mut site = Site::with(Arc::default());
        tree.scan(&mut |_, change| site.apply(change)).unwrap();
        Served { site, tree, cache }
    }

    fn found(&self, name: &str) -> Option<Document> {
        self.site
            .find(name.as_bytes())
            .and_then(Entry::document)
            .cloned()
    }

    /// The document at a path, which is fetched if it is not in memory.
    fn get(&mut self, name: &str) -> Document {
        let mut seen = self.found(name);
        let (site, tree) = (&mut self.site, &mut self.tree);
        tree.fetch(&path(name), Instant::now(), &mut |_, change| {
            assert!(!matches!(change, Change::Failed(_)), "{name}");
            site.apply(change);
            let entry = site.find(name.as_bytes());
            seen = entry.and_then(Entry::document).cloned().or(seen.take());
        });
        seen.expect("it is there")
    }

    fn figures(&self) -> Figures {
        self.cache.lock().statistics().figures()
    }
}

fn content(seed: usize, len: usize) -> Vec<u8> {
    let words = (0..).flat_map(|at: usize| (at * 31 + seed * 7919).to_le_bytes());
    words.take(len).collect()
}

fn body(document: &Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.body().append_to(&mut bytes);
    bytes
}

/// Files whose last change is a moment ago, so that the service takes them at once.
fn settle() {
    std::thread::sleep(exos_file_cache::limits::SETTLED_AFTER);
}

#[test]
fn two_servers_have_one_copy() {
    let folder = folder();
    let (long, short) = (content(1, EXTENT_LEN + 17), content(2, 1000));
    folder.write("long.bin", &long);
    folder.write("short.bin", &short);
    settle();
    let socket = serve(&folder);
    let mut servers = [(); 2].map(|()| Served::new(&folder, socket.clone()));
    for served in &mut servers {
        assert!(served.found("/long.bin").is_none(), "it is listed");
        let document = served.get("/long.bin");
        assert!(document.lent_body().is_some());
        assert!(body(&document) == long);
        let modified = document.modified_secs();
        let alone = Document::new(
            &long,
            &Description::plain("application/octet-stream", modified),
        );
        assert_eq!(document.fields().as_bytes(), alone.fields().as_bytes());
        assert_eq!(document.about().len, alone.about().len);
        // What would take more there than copies do is in memory as ever.
        let document = served.found("/short.bin").unwrap();
        assert!(document.lent_body().is_none() && body(&document) == short);
        let figures = served.figures();
        assert_eq!((figures.lent_files, figures.copied_files), (1, 0));
        // The last 17 bytes came in the pipe itself.
        assert_eq!(figures.lent, EXTENT_LEN as u64, "{figures:?}");
        assert!(figures.held < 20_000, "{figures:?}");
    }
    assert!(short.len() < LENT_LEN_MIN as usize);
    let statistics = Client::connect(&socket).unwrap().statistics().unwrap();
    assert_eq!((statistics.misses, statistics.hits), (2, 2));
}

/// A response under way goes on with the version that it began with; the next has the other.
#[test]
fn a_document_is_of_one_version() {
    let folder = folder();
    let versions: Vec<Vec<u8>> = (0..4).map(|n| content(n, 50_000 + n)).collect();
    folder.write("a.bin", &versions[0]);
    settle();
    let socket = serve(&folder);
    let mut served = Served::new(&folder, socket);
    let mut had = vec![served.get("/a.bin")];
    for version in &versions[1..] {
        folder.write("a.bin", version);
        let end = Instant::now() + AT_MOST;
        while served
            .found("/a.bin")
            .is_none_or(|it| body(&it) != *version)
        {
            assert!(Instant::now() < end, "it is not seen");
            let site = &mut served.site;
            served
                .tree
                .poll(Instant::now(), &mut |_, change| site.apply(change));
        }
        had.push(served.found("/a.bin").unwrap());
    }
    for (document, version) in had.iter().zip(&versions) {
        assert!(body(document) == *version);
    }
}

/// What there is no room for goes by the store's policy; where all of the share is needed by responses under way, the rest is copied.
#[test]
fn the_share_is_kept() {
    let folder = folder();
    let count = 2 * SHARE as usize / EXTENT_LEN;
    let name = |n: usize| format!("/{n}.bin");
    for n in 0..count {
        folder.write(&name(n)[1..], content(n, EXTENT_LEN));
    }
    folder.write("last.bin", content(99, EXTENT_LEN));
    settle();
    let socket = serve(&folder);
    let mut served = Served::new(&folder, socket.clone());
    for n in (0..count).chain([0]) {
        assert!(body(&served.get(&name(n))) == content(n, EXTENT_LEN), "{n}");
        let figures = served.figures();
        assert!(figures.lent <= LIMIT, "{figures:?}");
    }
    let figures = served.figures();
    assert_eq!((figures.lent, figures.copied_files), (LIMIT, 0));
    assert_eq!(figures.evictions, figures.lent_files - 4, "{figures:?}");
    let had: Vec<Document> = (0..count).map(|n| served.get(&name(n))).collect();
    for (n, document) in had.iter().enumerate() {
        assert!(body(document) == content(n, EXTENT_LEN), "{n}");
    }
    let lent = had.iter().filter(|it| it.lent_body().is_some()).count() as u64;
    assert_eq!(lent * EXTENT_LEN as u64, SHARE);
    let figures = served.figures();
    assert_eq!(figures.copied_files, count as u64 - lent, "{figures:?}");
    let statistics = Client::connect(&socket).unwrap().statistics().unwrap();
    assert_eq!(statistics.over_share, 0);
    // And again, when they have ended.
    drop(had);
    assert!(served.get("/last.bin").lent_body().is_some());
}

#[test]
fn without_a_service_documents_are_copied() {
    let folder = folder();
    let long = content(1, 100_000);
    folder.write("long.bin", &long);
    let mut served = Served::new(&folder, folder.path("none"));
    let document = served.get("/long.bin");
    assert!(document.lent_body().is_none() && body(&document) == long);
    let figures = served.figures();
    assert_eq!((figures.lent_files, figures.copied_files), (0, 1));
}
