//! Fields of requests for upstreams, which a rule of `[[site.proxy]]` writes: `set`, and `tls_fields`.

use toml::Spanned;

use super::rules::values_of;
use super::schema::{CacheOf, OneOrMany, ProxyTable, SiteTable};
use crate::applications::proxy::forwarded;
use crate::applications::proxy::request::is_free;
use crate::applications::proxy::setting::{SetField, Value};
use crate::limits::UPSTREAM_FIELDS_LEN_MAX;
use crate::secure::Fact;
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
        let values = read(source, values, keeps_answers(table));
        let lens = values
            .iter()
            .map(|value| name.get_ref().len() + value.len_max());
        len += lens.sum::<usize>();
        if len > UPSTREAM_FIELDS_LEN_MAX {
            let what = format!(
                "the fields that the rule sets may be longer than {UPSTREAM_FIELDS_LEN_MAX} bytes together; write fewer"
            );
            source.note(&name.span(), what);
            return fields;
        }
        fields.push(SetField {
            name: name.get_ref().clone(),
            values,
        });
    }
    fields
}

/// What an upstream is told of the client's TLS. Answers depend on it then, so that none is kept for others.
pub(super) fn tls_fields(source: &Source, table: &ProxyTable) -> Vec<(String, Fact)> {
    let mut fields: Vec<(String, Fact)> = Vec::new();
    for (name, what) in &table.tls_fields {
        let is_twice = fields
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name.get_ref()));
        let wrong = match name.get_ref() {
            _ if is_twice => Some("is there twice; write it once"),
            name if !is_free(name) => Some(
                "is no field for this; write a name of letters, digits and hyphens, as \"X-TLS-Version\"",
            ),
            _ if keeps_answers(table) => Some(
                "makes answers depend on the client, and answers are kept for all; leave cache or tls_fields out",
            ),
            _ => None,
        };
        match wrong {
            Some(why) => source.note(&name.span(), format!("{:?} {why}", name.get_ref())),
            None => {
                let fact = source.value(what, Fact::parse);
                fields.extend(fact.map(|fact| (name.get_ref().clone(), fact)));
            }
        }
    }
    fields
}

/// Has every rule know the fields in which any rule of the file tells something: one upstream may be behind several rules, and no
/// client may speak in such a field whichever of them it asks.
pub(super) fn share_told(tables: &mut [Spanned<SiteTable>]) {
    let told = tables.iter().flat_map(|table| &table.get_ref().proxy);
    let told = told.flat_map(|table| table.get_ref().tls_fields.keys());
    let told: Vec<String> = told.map(|name| name.get_ref().clone()).collect();
    for table in tables.iter_mut() {
        for proxy in &mut table.get_mut().proxy {
            proxy.get_mut().told.clone_from(&told);
        }
    }
}

/// The values of a field, as they are read.
fn read(source: &Source, values: &Spanned<OneOrMany>, has_cache: bool) -> Vec<Value> {
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
            Ok(value) => read.push(value),
            Err(what) => source.note(&values.span(), what),
        }
    }
    read
}

/// Whether answers are kept for others.
fn keeps_answers(table: &ProxyTable) -> bool {
    let said = table.cache.as_ref().map(Spanned::get_ref);
    said.is_some_and(|said| !matches!(said, CacheOf::Is(false)))
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
