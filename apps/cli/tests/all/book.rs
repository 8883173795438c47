//! The book in `docs/`: its reference pages are what the programs and the files of `dist/` say, its links lead somewhere, and
//! its contents name every page.
//!
//! `EXOS_WRITE_BOOK=1 cargo test -p exos-cli --test all book` writes the reference pages again.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Writes what is generated, instead of comparing it.
const WRITE: &str = "EXOS_WRITE_BOOK";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// Holds a generated page against the one in the book.
pub(crate) fn compare(page: &str, generated: &str) {
    let path = root().join("docs").join(page);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, generated).expect("the page is written");
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/{page} is not up to date; write it with {WRITE}=1 cargo test -p exos-cli --test all book"
    );
}

/// What `exos COMMAND... --help` prints, 100 columns wide.
fn help(command: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_exos"))
        .args(command)
        .arg("--help")
        .env_clear()
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .expect("exos runs");
    assert!(output.status.success(), "exos {command:?} --help");
    let text = String::from_utf8(output.stdout).expect("help is text");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// The commands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

fn add_command(page: &mut String, command: &[String]) {
    let text = help(command);
    let name = [&["exos".to_owned()], command].concat().join(" ");
    let level = "#".repeat(2 + command.len().saturating_sub(1));
    writeln!(page, "\n{level} `{name}`\n\n```text\n{text}\n```").expect("a string");
    for name in subcommands(&text) {
        add_command(page, &[command, &[name]].concat());
    }
}

#[test]
fn the_page_of_commands_is_their_help() {
    let mut page = "# Commands\n\nWhat `--help` says, of every command.\n".to_owned();
    add_command(&mut page, &[]);
    compare("reference/commands.md", &page);
}

#[test]
fn the_page_of_configuration_has_the_example_files() {
    let mut page = "# Configuration files\n\nThe files in `dist/`, with every key there is. Sizes, times and rates are written as the \
        [glossary](../glossary.md#values) says; a key that does not exist is an error, which names its line. The \
        daemon's policy is described, with all its keys, in [sharing an interface](../rootless.md#a-policy).\n"
        .to_owned();
    for (title, file, about) in [
        (
            "exos serve --config",
            "serve.toml",
            "What the keys mean is described in [serving](../serve.md#the-configuration-file).",
        ),
        (
            "exos forward --config",
            "forward.toml",
            "What the keys mean is described in [forwarding](../forward.md#the-configuration-file).",
        ),
    ] {
        let text = fs::read_to_string(root().join("dist").join(file)).expect(file);
        writeln!(
            page,
            "\n## `{title} {file}`\n\n{about}\n\n```toml\n{}\n```",
            text.trim_end()
        )
        .expect("a string");
    }
    compare("reference/configuration.md", &page);
}

/// Every page of the book, by its path from the root, and the README.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// A page without what stands in fences, where nothing is a link or a heading.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &Path) -> HashSet<String> {
    let mut seen = HashSet::new();
    for line in prose(page).lines().filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let mut name = anchor.clone();
        for number in 1.. {
            if seen.insert(name) {
                break;
            }
            name = format!("{anchor}-{number}");
        }
    }
    seen
}

/// The targets of a page's links.
fn links(page: &Path) -> Vec<String> {
    let text = prose(page);
    let starts = text.match_indices("](").map(|(at, _)| at + 2);
    let ends = starts.filter_map(|at| Some(text[at..at + text[at..].find(')')?].to_owned()));
    ends.collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        for link in links(&page)
            .into_iter()
            .filter(|link| !link.contains("://"))
        {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.parent().expect("a page is in a folder");
            let target = if file.is_empty() {
                page.clone()
            } else {
                folder.join(file)
            };
            let found = root().join(&target).exists()
                && (anchor.is_empty()
                    || target.extension().is_some_and(|e| e == "md")
                        && anchors(&target).contains(anchor));
            if !found {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "these lead nowhere:\n{}", dead.join("\n"));
}

#[test]
fn the_contents_name_every_page_once() {
    let contents = Path::new("docs/SUMMARY.md");
    let named: Vec<PathBuf> = links(contents)
        .into_iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    let different: HashSet<_> = named.iter().collect();
    assert_eq!(different.len(), named.len(), "a page is named twice");
    for page in pages() {
        let apart = page == contents || !page.starts_with("docs");
        assert!(
            apart || named.contains(&page),
            "docs/SUMMARY.md does not name {}",
            page.display()
        );
    }
}
