//! docs/reference/bench.md is what the results' types say of themselves.
//!
//! `EXOS_WRITE_BOOK=1 cargo test -p exos-bench --test all book` writes it again.

use serde_json::Value;
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/bench.md");

const INTRODUCTION: &str = "# JSON of `exos bench`\n\nWhat the fields mean of the files that `exos bench COMMAND --json FILE` writes; `-` \
    for FILE is standard output, and the tables go to standard error then. Numbers are in the unit that the field's name ends with; a field \
    that has no value is `null`. Results are medians over the runs where nothing else is said. New fields may be added; a field's meaning \
    does not change.\n";

/// What figures of `exos bench sharing` are called.
const FIGURES: &str = include_str!("figures.md");

/// What a description says, as one line.
fn described(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The type of a field: another type of the page, or one of JSON.
fn type_of(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        return path.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let types: Vec<String> = either.iter().map(type_of).collect();
        return types.join(" or ");
    }
    let of_items = |items: &Value| format!("list of {}", type_of(items));
    match &schema["type"] {
        Value::String(one) if one == "array" => match &schema["items"] {
            items @ Value::Object(_) => of_items(items),
            _ => "list".to_owned(),
        },
        Value::String(one) => one.clone(),
        Value::Array(some) => {
            let names = some.iter().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// A table of an object's fields, in the order in which they are written.
fn fields(page: &mut String, schema: &Value) {
    let names = schema["required"].as_array().into_iter().flatten();
    let _ = writeln!(page, "\n| field | type | meaning |\n|---|---|---|");
    for name in names.filter_map(Value::as_str) {
        let field = &schema["properties"][name];
        let (kind, text) = (type_of(field), described(field));
        let _ = writeln!(page, "| `{name}` | {kind} | {text} |");
    }
}

/// The values that an enumeration has, with what they mean.
fn values(page: &mut String, schema: &Value) {
    let _ = writeln!(page, "\n| value | meaning |\n|---|---|");
    for one in schema["oneOf"].as_array().into_iter().flatten() {
        let value = match one["const"].as_str() {
            Some(value) => format!("\"{value}\""),
            None => {
                let fields = one["required"].as_array().into_iter().flatten();
                let fields: Vec<&str> = fields.filter_map(Value::as_str).collect();
                format!("{{\"{}\": X}}", fields.join(", "))
            }
        };
        let _ = writeln!(page, "| `{value}` | {} |", described(one));
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (command, schema) in exos_bench::schemas() {
        let schema = schema.to_value();
        let _ = writeln!(page, "\n## `{command}`\n\n{}", described(&schema));
        fields(&mut page, &schema);
        for (name, schema) in schema["$defs"].as_object().into_iter().flatten() {
            let _ = writeln!(page, "\n### {name}\n\n{}", described(schema));
            match schema["properties"].is_object() {
                true => fields(&mut page, schema),
                false => values(&mut page, schema),
            }
        }
        if command == "exos bench sharing" {
            page += FIGURES;
        }
    }
    page
}

#[test]
fn the_page_of_results_is_what_their_types_say() {
    let page = page();
    if std::env::var_os("EXOS_WRITE_BOOK").is_some() {
        std::fs::write(PAGE, page).expect("the page is written");
        return;
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/bench.md is not up to date; write it with EXOS_WRITE_BOOK=1 cargo test -p exos-bench --test all book"
    );
}

/// Nothing that is written is without a word about it.
#[test]
fn every_field_is_described() {
    for (command, schema) in exos_bench::schemas() {
        let schema = schema.to_value();
        let types = schema["$defs"].as_object().into_iter().flatten();
        for (name, kind) in types.chain([(&command.to_owned(), &schema)]) {
            for (field, about) in kind["properties"].as_object().into_iter().flatten() {
                assert!(!described(about).is_empty(), "{command}: {name}.{field}");
            }
        }
    }
}
