//! Documents that change while they are fetched: every response is a whole version of its document,
//! with the fields of that version, whatever the wire does to the packets.
//!
//! `EXOS_SEEDS` multiplies how many documents are fetched: over 100,000 on either wire with 60.

use crate::common::{self, browser};

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use browser::{CONNECTIONS, Response, Visit};
use exos_cheetah::site::document::Draft;
use exos_cheetah::site::{Change, Description, Document};
use exos_cheetah::{Server, Site};
use exos_sim::random::{Random, Seed};
use exos_sim::wire::Conditions;

const PATHS: u64 = 12;
const FETCHES: usize = 40;
/// How likely a document changes in a turn of the server's: many do while a long one is under way.
const CHANGE: f64 = 0.5;

/// The documents, of random content and size, and all versions that they have had.
struct Author {
    random: Random,
    /// The hash of the content, by path and entity tag.
    versions: HashMap<(String, String), u64>,
    changes: usize,
}

impl Author {
    fn new(seed: u64) -> Author {
        Author {
            random: Random::new(Seed(seed), 9),
            versions: HashMap::new(),
            changes: 0,
        }
    }

    /// Most documents are small, some large, a few empty.
    fn content(&mut self) -> Vec<u8> {
        let bits = self.random.below(18);
        let len = self.random.below(1 << bits) as usize;
        let mut content = Vec::with_capacity(len + 8);
        while content.len() < len {
            content.extend_from_slice(&self.random.next_u64().to_le_bytes());
        }
        content.truncate(len);
        content
    }

    /// A new version of a document, that is to take the place of the one before.
    fn write(&mut self, path: String) -> Change {
        let content = self.content();
        let description = Description::plain("application/octet-stream", 0);
        let document = Document::new(&content, &description);
        let tag = String::from_utf8(document.entity_tag().to_vec()).unwrap();
        let change = Change::Document(common::path(&path), Draft::new(&content, &description));
        self.versions.insert((path, tag), hash(&content));
        self.changes += 1;
        change
    }

    /// Perhaps changes a document, as files under a server change: between its turns.
    fn change(&mut self, server: &mut Server) {
        if self.random.chance(CHANGE) {
            let path = path(self.random.below(PATHS));
            server.change_site(0, self.write(path));
        }
    }

    fn check(&self, seed: u64, response: &Response) {
        let version = (response.path.clone(), response.field("ETag").to_owned());
        let content = self.versions.get(&version);
        assert!(
            content == Some(&hash(&response.body)),
            "seed {seed}: {} is no version of its document\n{}",
            response.path,
            response.head
        );
    }
}

fn hash(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

fn path(number: u64) -> String {
    format!("/{number}.bin")
}

/// One visit; gives how many versions there were and how many different ones arrived.
fn visit(seed: u64, conditions: Conditions) -> (usize, usize) {
    let mut author = Author::new(seed);
    let mut site = Site::new();
    (0..PATHS).for_each(|number| site.apply(author.write(path(number))));
    let mut visit = Visit::new(seed, conditions, site);
    let mut wanted = Random::new(Seed(seed), 10);
    for _ in 0..CONNECTIONS {
        let paths = (0..FETCHES).map(|_| path(wanted.below(PATHS)));
        visit.fetch(paths.collect());
    }
    let done = visit.run_beside(|server| author.change(server));
    assert!(done, "seed {seed}: not done after four hours");
    let responses = visit.fetches.iter().flat_map(|fetch| &fetch.responses);
    let tags: std::collections::HashSet<&str> = responses
        .inspect(|response| author.check(seed, response))
        .map(|response| response.field("ETag"))
        .collect();
    (author.changes, tags.len())
}

fn seeds() -> u64 {
    exos_testing::cases(8)
}

#[test]
fn every_response_is_a_whole_version_over_the_worst_wire() {
    for seed in 0..seeds() {
        let (versions, arrived) = visit(seed, Conditions::WORST);
        assert!(
            versions > 500 && arrived > CONNECTIONS * FETCHES / 4,
            "seed {seed}: {versions} versions, {arrived} arrived: hardly anything changed"
        );
    }
}

/// Without losses only documents longer than a window change while they are under way.
#[test]
fn every_response_is_a_whole_version_over_a_perfect_wire() {
    for seed in 0..seeds() {
        visit(seed, Conditions::PERFECT);
    }
}
