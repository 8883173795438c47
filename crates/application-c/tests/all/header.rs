//! The header says what the library has.

use crate::common::folder;
use std::collections::BTreeSet;

/// Names of functions behind each place where these words stand.
fn functions(text: &str, before: &str) -> BTreeSet<String> {
    let parts = text.split(before).skip(1);
    let names = parts.filter_map(|part| {
        let end = part.find(|c: char| !c.is_alphanumeric() && c != '_')?;
        part[end..]
            .starts_with('(')
            .then(|| format!("{before}{}", &part[..end]))
    });
    names.collect()
}

#[test]
fn the_header_and_the_library_have_the_same_functions() {
    let header =
        std::fs::read_to_string(folder().join("include/exos_application.h")).expect("it is there");
    // Behind the text at its beginning, which has calls in it.
    let declared = functions(header.split("#ifndef").nth(1).expect("a guard"), "exos_");
    let files = std::fs::read_dir(folder().join("src")).expect("sources");
    let sources =
        files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("a source"));
    let defined: BTreeSet<String> = sources
        .flat_map(|source| functions(&source, "extern \"C\" fn exos_"))
        .map(|name| name.replace("extern \"C\" fn ", ""))
        .collect();
    assert_eq!(declared, defined);
    assert!(defined.len() > 20);
}
