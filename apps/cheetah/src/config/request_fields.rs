//! `set` of `[[site.proxy]]`: fields of requests for upstreams.

use toml::Spanned;

use super::rules::values_of;
use super::schema::{OneOrMany, ProxyTable};
use crate::applications::proxy::forwarded;
use crate::applications::proxy::request::is_free;
use crate::applications::proxy::setting::{SetField, Value};
use crate::limits::UPSTREAM_FIELDS_LEN_MAX;
use exos_program::config::Source;

/// What a rule sets.
pub(super) fn set(source: &Source, table: &ProxyTable) -> Vec<SetField> {
    let mut fields: Vec<SetField> = Vec::new();
    let mut len = 0;
    for (name, values) in &table.set {
        let is_there = |other: &str| other.eq_ignore_ascii_case(name.get_ref());
        let wrong = match name.get_ref() {
            _ if fields.iter().any(|field| is_there(&field.name)) => {
                Some("is there twice; write a list of its values")
            }
            _ if table
                .tls_fields
                .keys()
                .any(|other| is_there(other.get_ref())) =>
            {
                Some("is in tls_fields too; write it in one of them")
            }
            name => obstacle(name),
        };
        if let Some(why) = wrong {
            source.note(&name.span(), format!("{:?} {why}", name.get_ref()));
            continue;
        }
        let values = read(source, values, table.cache.is_some());
        len += values
            .iter()
            .map(|(text, _)| name.get_ref().len() + text.len())
            .sum::<usize>();
        if len > UPSTREAM_FIELDS_LEN_MAX {
            let what = format!(
                "the fields that the rule sets are longer than {UPSTREAM_FIELDS_LEN_MAX} bytes together; write fewer"
            );
            source.note(&name.span(), what);
            return fields;
        }
        fields.push(SetField {
            name: name.get_ref().clone(),
            values: values.into_iter().map(|(_, value)| value).collect(),
        });
    }
    fields
}

/// Values as they are written, and what they mean.
fn read(source: &Source, values: &Spanned<OneOrMany>, has_cache: bool) -> Vec<(String, Value)> {
    let mut read = Vec::new();
    for text in values_of(values.get_ref()) {
        let value = Value::parse(&text).and_then(|value| {
            match has_cache && value.depends_on_client() {
                true => Err(format!(
                    "{text:?} makes answers depend on the client, and answers are kept for all; leave cache or it out"
                )),
                false => Ok(value),
            }
        });
        match value {
            Ok(value) => read.push((text, value)),
            Err(what) => source.note(&values.span(), what),
        }
    }
    read
}

/// Why no rule may set a field of this name, and what to do instead.
fn obstacle(name: &str) -> Option<&'static str> {
    if is_free(name) {
        return None;
    }
    let is_plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    Some(match name {
        name if name.eq_ignore_ascii_case("host") => {
            "is what the key `host` of the rule says; write host = \"upstream\", or a name"
        }
        name if forwarded::is_written(name) || name.eq_ignore_ascii_case("via") => {
            "is written by the server itself, from what it knows of the client; leave it out"
        }
        _ if !is_plain => {
            "is no field for this; write a name of letters, digits and hyphens, as \"X-Real-IP\""
        }
        _ => {
            "is about the connection, the message's length or what is kept, and written by the server itself; leave it out"
        }
    })
}
