//! The totals against a walk over the table, after changes at random.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::message::coding::Coding;
use crate::site::document::Description;
use crate::site::path::About;
use crate::site::table::Site;

/// Few paths, so that changes meet each other; an index, whose document is its directory's too.
const PATHS: [&[u8]; 5] = [
    b"/a.txt",
    b"/b.txt",
    b"/d/index.html",
    b"/d/c.txt",
    b"/d/e/index.html",
];

#[derive(Clone, Debug)]
enum Step {
    /// A document of this length, with variants of these lengths.
    Insert(usize, usize, Vec<usize>),
    /// The document of the second path, at the first too.
    Again(usize, usize),
    Listed(usize),
    Forbidden(usize),
    Remove(usize),
    RemoveDirectory,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 0..PATHS.len();
    let step = prop_oneof![
        4 => (at(), 0usize..50, prop::collection::vec(1usize..20, 0..3))
            .prop_map(|(at, len, coded)| Step::Insert(at, len, coded)),
        3 => (at(), at()).prop_map(|(at, of)| Step::Again(at, of)),
        1 => at().prop_map(Step::Listed),
        1 => at().prop_map(Step::Forbidden),
        2 => at().prop_map(Step::Remove),
        1 => Just(Step::RemoveDirectory),
    ];
    prop::collection::vec(step, 1..60)
}

fn document(len: usize) -> Document {
    Document::new(&vec![b'x'; len], &Description::plain("text/plain", 0))
}

fn make(site: &mut Site, step: &Step) {
    match step {
        Step::Insert(at, len, coded) => {
            let codings = [Coding::Br, Coding::Gzip].into_iter();
            let coded = codings.zip(coded.iter().map(|&len| document(len)));
            site.insert(PATHS[*at], Variants::new(document(*len), coded.collect()));
        }
        Step::Again(at, of) => site.insert_again(PATHS[*at], PATHS[*of]),
        Step::Listed(at) => {
            let about = About {
                len: 7,
                modified_secs: 0,
            };
            site.insert_listed(&PATHS[*at].into(), about);
        }
        Step::Forbidden(at) => site.insert_forbidden(PATHS[*at]),
        Step::Remove(at) => site.remove(PATHS[*at]),
        Step::RemoveDirectory => site.remove_directory(b"/d/"),
    }
}

/// Paths with a document, and the bytes of what lies at different places.
fn walk(site: &Site) -> (usize, u64) {
    let (mut documents, mut len, mut seen) = (0, 0, HashSet::new());
    for (path, entry) in site.entries() {
        let Entry::Document(variants) = entry else {
            continue;
        };
        if path.ends_with(b"/") {
            continue;
        }
        documents += 1;
        let coded = variants.coded().iter().map(|(_, document)| document);
        for document in coded.chain([variants.plain()]) {
            if seen.insert(document.buffer().as_slice().as_ptr()) {
                len += document.body().len() as u64;
            }
        }
    }
    (documents, len)
}

proptest! {
    #[test]
    fn totals_are_those_of_a_walk(steps in steps()) {
        let mut site = Site::new();
        for step in &steps {
            make(&mut site, step);
            prop_assert_eq!((site.document_count(), site.content_len()), walk(&site), "after {:?}", step);
        }
        // Nothing is remembered of what has gone.
        for path in PATHS {
            site.remove(path);
        }
        prop_assert!(site.totals().shared.is_empty());
        prop_assert_eq!((site.document_count(), site.content_len()), (0, 0));
    }
}
