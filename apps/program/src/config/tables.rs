//! From TOML to the tables of the schema, past every error.
//!
//! serde stops at the first thing that does not fit. Here that is noted and taken out of the tree, and the rest is
//! read again, until it fits: so a file with three misspelt keys gets three lines, not one.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

use super::source::Source;

/// Places in a file that do not fit its schema and are told at once; each costs another reading of it.
const CONFIG_ERRORS_MAX: usize = 100;

/// What the text says, as far as it fits the schema; what does not is noted.
pub fn read<T: DeserializeOwned + Default>(source: &Source) -> T {
    let (mut tree, errors) = DeTable::parse_recoverable(source.text());
    // What follows a bracket that was forgotten is no TOML either, and what was read beside it may be what was not meant: one
    // mistake is told once.
    if let Some(first) = errors.first() {
        source.note_misfit(&place(first), format!("{}; see toml.io", first.message()));
        return T::default();
    }
    for _ in 0..CONFIG_ERRORS_MAX {
        let error = match T::deserialize(Deserializer::from(tree.clone())) {
            Ok(tables) => return tables,
            Err(error) => error,
        };
        source.note_misfit(&place(&error), in_plain_words(error.message()));
        if !remove(tree.get_mut(), &place(&error)) {
            break;
        }
    }
    T::default()
}

fn place(error: &Error) -> Range<usize> {
    error.span().unwrap_or(0..0)
}

/// Takes the innermost thing at a place out of the tree; false when there is none.
fn remove(table: &mut DeTable, at: &Range<usize>) -> bool {
    let key = table.keys().find(|key| holds(&key.span(), at)).cloned();
    if let Some(key) = key {
        return table.remove(&key).is_some();
    }
    if table.iter_mut().any(|(_, value)| remove_within(value, at)) {
        return true;
    }
    let mut entries = table.iter();
    let entry = entries.find(|(_, value)| holds(&value.span(), at));
    let key = entry.map(|(key, _)| key.clone());
    key.is_some_and(|key| table.remove(&key).is_some())
}

/// Of a list only tables are gone into: a list with a value that does not fit goes as a whole.
fn remove_within(value: &mut Spanned<DeValue>, at: &Range<usize>) -> bool {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, at),
        DeValue::Array(array) => array.iter_mut().any(|value| remove_within(value, at)),
        _ => false,
    }
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    !inner.is_empty() && outer.start <= inner.start && inner.end <= outer.end
}

/// What serde says, in the words of somebody who writes TOML.
fn in_plain_words(message: &str) -> String {
    let message = message.trim_end();
    if let Some((name, known)) = message
        .strip_prefix("unknown field ")
        .and_then(|rest| rest.split_once(", expected "))
    {
        let known = known.trim_start_matches("one of ");
        return format!("there is no key {name} here; write one of {known}");
    }
    match message
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.split_once(", expected "))
    {
        Some(("map", "a sequence")) => {
            "this is a table; write a list in [ ], or a table's name in [[ ]] where there may be several".to_owned()
        }
        Some((got, wanted)) => format!("this is a {got}; write {}", kind(wanted)),
        None => message.to_owned(),
    }
}

/// The name of a kind of value.
fn kind(wanted: &str) -> &str {
    match wanted {
        "i64" => "a whole number",
        "a boolean" => "true or false",
        "a string" => "a text in double quotes",
        "a sequence" => "a list in [ ]",
        "a map" => "a table",
        other => other,
    }
}
