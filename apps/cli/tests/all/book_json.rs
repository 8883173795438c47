//! The pages of the book about JSON: what the types that programs write say of themselves.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::book::compare;

/// What figures of those experiments are called that note single values.
const FIGURES: &str = include_str!("bench_figures.md");

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
        assert!(!text.is_empty(), "nothing is said of {name} in {schema}");
        writeln!(page, "| `{name}` | {kind} | {text} |").expect("a string");
    }
}

/// Values that stand for something: `"ok"`, or `{"at_least": X}`, and what each means.
fn add_choices(page: &mut String, schema: &Value) {
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        let fields = choice["required"].as_array().into_iter().flatten();
        let value = match &choice["const"] {
            Value::Null => {
                let fields: Vec<String> = fields.map(|name| format!("{name}: X")).collect();
                format!("{{{}}}", fields.join(", "))
            }
            value => value.to_string(),
        };
        writeln!(page, "- `{value}`: {}", description(choice)).expect("a string");
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
        ("`exos ss --json`", schema_of::<exos_ss::json::Report<'_>>()),
        (
            "The daemon's report",
            schema_of::<exos_program::status::Status>(),
        ),
        (
            "`exos echo`, `discard`, `chargen` with `--json`",
            schema_of::<exos_tools::Statistics>(),
        ),
        ("`exos cat --json`", schema_of::<exos_tools::cat::Report>()),
        (
            "`exos file-cache --status --json`",
            schema_of::<exos_io::StatisticsReport>(),
        ),
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

#[test]
fn the_page_of_bench_is_what_its_types_say() {
    let mut page = "# JSON of `exos bench`\n\nWhat `exos bench COMMAND --json FILE` writes; `-` for FILE is standard output, and \
        the tables go to standard error then.\nNumbers are in the unit that the field's name ends with. Results are medians over \
        the runs where nothing else is said. New\nfields may be added; a field's meaning does not change.\n"
        .to_owned();
    for (command, schema) in exos_bench::schemas() {
        let title = format!("`{command}`");
        add_json(&mut page, &title, &schema.to_value(), &mut HashSet::new());
        if command == "exos bench sharing" {
            page += FIGURES;
        }
    }
    compare("reference/bench.md", &page);
}
