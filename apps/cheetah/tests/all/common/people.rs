//! What people do with files, at random, and what clients see of a site then.

use std::collections::BTreeMap;
use std::fs;

use exos_cheetah::Site;
use exos_cheetah::site::{Document, Entry};

use crate::common::folder::Folder;

/// One of the things that people do with files; what cannot be done is not. True if it was a hard link.
pub fn change_something(
    folder: &Folder,
    step: usize,
    mut choose: impl FnMut(usize) -> usize,
) -> bool {
    const NAMES: [&str; 7] = [
        "a.txt",
        "index.html",
        "d",
        "e",
        "f.html",
        "a.txt.gz",
        "e.br",
    ];
    let mut path = || match choose(3) {
        0 => NAMES[choose(NAMES.len())].to_owned(),
        1 => format!(
            "{}/{}",
            NAMES[choose(NAMES.len())],
            NAMES[choose(NAMES.len())]
        ),
        _ => format!(
            "{}/{}/{}",
            NAMES[choose(NAMES.len())],
            NAMES[choose(NAMES.len())],
            NAMES[choose(NAMES.len())]
        ),
    };
    let (one, other) = (folder.path(&path()), folder.path(&path()));
    let kind = choose(8);
    let _ = match kind {
        0..=2 => fs::write(&one, format!("step {step}")),
        3 => fs::create_dir_all(&one),
        4 => fs::rename(&one, &other),
        5 => fs::remove_file(&one).or_else(|_| fs::remove_dir_all(&one)),
        6 => fs::hard_link(&one, &other),
        _ => std::os::unix::fs::symlink(folder.path(NAMES[choose(NAMES.len())]), &one),
    };
    kind == 6
}

/// Everything about a site that a client can see but times.
pub fn picture(site: &Site) -> BTreeMap<String, String> {
    let describe = |entry: &Entry| match entry {
        Entry::Directory => "directory".to_owned(),
        Entry::Forbidden => "forbidden".to_owned(),
        Entry::Listed(..) => "not in memory".to_owned(),
        Entry::Document(variants) => {
            let coded = variants.coded().iter().map(|(_, document)| document);
            let all = [variants.plain()].into_iter().chain(coded);
            all.map(describe_document).collect()
        }
    };
    let entries = site.entries();
    let entries =
        entries.map(|(path, entry)| (String::from_utf8_lossy(path).into(), describe(entry)));
    entries.collect()
}

pub fn describe_document(document: &Document) -> String {
    let fields = document.content_fields().to_owned();
    let tag = String::from_utf8_lossy(document.entity_tag()).into_owned();
    let varies = if document.varies() { "varies" } else { "" };
    fields + &tag + varies + &String::from_utf8_lossy(document.body().as_bytes())
}
