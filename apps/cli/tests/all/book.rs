//! The book in `docs/`: its reference pages are what the programs and the files of `dist/` say, its links lead somewhere, and
//! its contents name every page.
//!
//! `EXOS_WRITE_BOOK=1 cargo test -p exos-cli --test all book` writes the reference pages again.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Writes what is generated, instead of comparing it.
const WRITE: &str = "EXOS_WRITE_BOOK";

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// Holds a generated page against the one in the book.
fn compare(page: &str, generated: &str) {
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

/// A type's schema, as it is written.
fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::default().for_serialize().into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// A doc comment as a line of a page: without links to other items of the code.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("[`", "`")
        .replace("`]", "`")
        .replace('|', "\\|")
}

/// The kind of a value in words; types that it names are put to those that are to be described.
fn kind_of(schema: &Value, named: &mut VecDeque<String>) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        named.push_back(name.to_owned());
        return name.to_owned();
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let kinds = choices.iter().map(|choice| kind_of(choice, named));
        return kinds.collect::<Vec<_>>().join(" or ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return "any".to_owned(),
    };
    let word = |kind: &str, named: &mut VecDeque<String>| match kind {
        "integer" | "number" => "number".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => match schema["prefixItems"].as_array() {
            Some(items) => {
                let kinds = items.iter().map(|item| kind_of(item, named));
                format!("[{}]", kinds.collect::<Vec<_>>().join(", "))
            }
            None => format!("list of {}", kind_of(&schema["items"], named)),
        },
        "object" => match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("{} by name", kind_of(values, named)),
            _ => "object".to_owned(),
        },
        other => other.to_owned(),
    };
    let words: Vec<String> = kinds.iter().map(|kind| word(kind, named)).collect();
    words.join(" or ")
}

/// A row for each field, in the order of their declaration as far as they are always there.
fn add_fields(page: &mut String, schema: &Value, named: &mut VecDeque<String>) {
    let Some(fields) = schema["properties"].as_object() else {
        return;
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = required.filter_map(Value::as_str).collect();
    let others = fields.keys().map(String::as_str);
    names.extend(
        others
            .filter(|name| !names.contains(name))
            .collect::<Vec<_>>(),
    );
    page.push_str("\n| field | is | meaning |\n|---|---|---|\n");
    for name in names {
        let field = &fields[name];
        let (kind, text) = (kind_of(field, named), description(field));
        writeln!(page, "| `{name}` | {kind} | {text} |").expect("a string");
    }
}

/// Texts that stand for something: `"ok"`, and what it means.
fn add_choices(page: &mut String, schema: &Value) {
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    for choice in choices {
        let (value, text) = (&choice["const"], description(choice));
        writeln!(page, "- `{value}`: {text}").expect("a string");
    }
}

/// A section for a type, and what it is made of as far as no section before has `described` that.
fn add_json(page: &mut String, title: &str, schema: &Value, described: &mut HashSet<String>) {
    writeln!(page, "\n## {title}\n\n{}", description(schema)).expect("a string");
    let mut named = VecDeque::new();
    add_fields(page, schema, &mut named);
    while let Some(name) = named.pop_front() {
        let schema = &schema["$defs"][&name];
        if !described.insert(format!("{name} {schema}")) {
            continue;
        }
        writeln!(page, "\n**{name}.** {}", description(schema)).expect("a string");
        if schema["oneOf"].is_array() {
            page.push('\n');
        }
        add_choices(page, schema);
        add_fields(page, schema, &mut named);
    }
}

#[test]
fn the_page_of_json_is_what_the_programs_write() {
    let mut page = "# JSON output\n\nNumbers are in the unit that the field's name ends with. Fields that stand last in a \
        table, behind those that are always there, may be left out.\nA type that several sections name is described in the \
        first. New fields may be added; a field's meaning does not change.\n[`exos bench`](bench.md) has a page of \
        its own.\n"
        .to_owned();
    let mut described = HashSet::new();
    for (title, schema) in [
        (
            "`exos serve --json`",
            schema_of::<exos_cheetah::status::Statistics>(),
        ),
        (
            "`exos load --json`",
            schema_of::<exos_webswamp::report::Report<'_>>(),
        ),
        (
            "`exos load --find-peak --json`",
            schema_of::<exos_webswamp::peak::Report>(),
        ),
        (
            "`exos load compare --json`",
            schema_of::<exos_webswamp::report::Comparison>(),
        ),
        (
            "`exos forward --json`",
            schema_of::<exos_forward::json::Statistics<'_>>(),
        ),
        (
            "`exos forward --splice --json`",
            schema_of::<exos_forward::json::Splice>(),
        ),
        (
            "`exos forward ctl`: a request",
            schema_of::<exos_forward::json::Request>(),
        ),
        (
            "`exos forward ctl`: an answer",
            schema_of::<exos_forward::json::Answer<'_>>(),
        ),
        ("`exos dump --json`", schema_of::<exos_dump::Line<'_>>()),
        (
            "`exos top --json`",
            schema_of::<exos_top::daemon::json::Report>(),
        ),
        (
            "`exos top --forward --json`",
            schema_of::<exos_top::forward::Report>(),
        ),
        (
            "The daemon's report",
            schema_of::<exos_program::status::Status>(),
        ),
        (
            "`exos echo`, `discard`, `chargen` with `--json`",
            schema_of::<exos_tools::Statistics>(),
        ),
        ("`exos cat --json`", schema_of::<exos_tools::cat::Report>()),
        ("`exos lab status --json`", schema_of::<exos_lab::Labs>()),
        ("`exos lab down --json`", schema_of::<exos_lab::Down>()),
        (
            "`exos lab up --foreground --json`",
            schema_of::<exos_lab::Statistics>(),
        ),
        ("`exos doctor --json`", schema_of::<exos_doctor::Report>()),
    ] {
        add_json(&mut page, title, &schema, &mut described);
    }
    compare("reference/json.md", &page);
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
