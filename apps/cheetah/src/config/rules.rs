//! What is said about the documents of a site: `[site.types]`, `[site.error_pages]`, `[[site.fields]]`,
//! `[[site.redirect]]`, and by [`access`] `[[site.access]]`.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;

use super::schema::{FieldsTable, OneOrMany, RedirectTable, SiteTable, Text};
use super::{access, applications, tls};
use crate::message::Status;
use crate::site::rules::fields::{self, FieldRule, FieldRules};
use crate::site::rules::pattern::Pattern;
use crate::site::rules::redirect::{Destination, Redirect, Redirects};
use crate::site::{MediaTypes, Settings};
use exos_program::config::Source;

/// The settings of a site. `span` is where it begins.
/// Relative paths begin in `folder`.
pub(super) fn settings(
    source: &Source,
    folder: &Path,
    span: &Range<usize>,
    table: &SiteTable,
) -> Settings {
    let mut settings = Settings::default();
    if let Some(names) = &table.index {
        let names = names.iter().filter_map(|name| source.value(name, index));
        settings.index = names.collect();
    }
    settings.listing = table.listing;
    settings.types = types(source, table);
    settings.error_pages = error_pages(source, table);
    let all = table.fields.iter().filter_map(|t| field_rule(source, t));
    let all: Vec<FieldRule> = all.chain(tls::hsts(source, span, table)).collect();
    let patterns = table
        .fields
        .iter()
        .filter_map(|t| t.get_ref().path.as_ref());
    once(source, patterns);
    let whole = |e: String| source.note(span, format!("the site has {e}"));
    settings.fields = FieldRules::new(all).map_err(whole).unwrap_or_default();
    let all = table.redirect.iter().filter_map(|t| redirect(source, t));
    let all: Vec<Redirect> = all.collect();
    let patterns = table
        .redirect
        .iter()
        .filter_map(|t| t.get_ref().from.as_ref());
    once(source, patterns);
    settings.redirects = Redirects::new(all).map_err(whole).unwrap_or_default();
    let patterns = table.access.iter();
    once(source, patterns.filter_map(|t| t.get_ref().path.as_ref()));
    settings.access = access::access(source, folder, table);
    applications::note_same(source, table);
    settings.applications = applications::rules(source, folder, table);
    if table.index.is_none() {
        applications::add_index(&mut settings);
    }
    note_script_pages(source, table, &settings);
    settings
}

/// Takes note of error pages that are scripts: their source would be sent.
fn note_script_pages(source: &Source, table: &SiteTable, settings: &Settings) {
    for (code, page) in &table.error_pages {
        if settings.applications.is_script(page.get_ref().as_bytes()) {
            let what =
                format!("the error page {code} is a script, which nobody runs; write a document");
            source.note(&page.span(), what);
        }
    }
}

/// The name of an index document.
fn index(name: &str) -> Result<String, String> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(format!(
            "{name:?} is no name of a document; write one as \"index.html\""
        ));
    }
    Ok(name.to_owned())
}

fn types(source: &Source, table: &SiteTable) -> MediaTypes {
    let mut types = MediaTypes::default();
    for (extension, media_type) in &table.types {
        source.value(media_type, |text| types.set(extension, text));
    }
    types
}

fn error_pages(source: &Source, table: &SiteTable) -> Vec<(Status, String)> {
    let page = |(code, path): (&String, &Text)| {
        let status = Status::ALL
            .into_iter()
            .filter(|status| status.code() >= 400);
        let known: Vec<Status> = status.collect();
        let status = known
            .iter()
            .find(|status| status.code().to_string() == *code);
        if status.is_none() {
            let known: Vec<String> = known.iter().map(|s| s.code().to_string()).collect();
            let what = format!(
                "{code:?} is no error that is sent; write one of {}",
                known.join(", ")
            );
            source.note(&path.span(), what);
        }
        let path = source.value(path, document)?;
        Some((*status?, path))
    };
    table.error_pages.iter().filter_map(page).collect()
}

/// The path of one document.
fn document(path: &str) -> Result<String, String> {
    let is_one = path.starts_with('/') && !path.ends_with('/') && !path.contains('*');
    match Pattern::parse(path) {
        Ok(_) if is_one => Ok(path.to_owned()),
        _ => Err(format!(
            "{path:?} is no path of a document; write one as \"/errors/404.html\""
        )),
    }
}

/// Takes note of patterns that are there twice: nothing would say which of them decides.
fn once<'a>(source: &Source, patterns: impl Iterator<Item = &'a Text>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for pattern in patterns {
        let line = source.line(&pattern.span());
        if let Some(before) = seen.insert(pattern.get_ref(), line) {
            let what = format!(
                "{:?} is there in line {before} too; write it once",
                pattern.get_ref()
            );
            source.note(&pattern.span(), what);
        }
    }
}

fn field_rule(source: &Source, table: &Spanned<FieldsTable>) -> Option<FieldRule> {
    let (span, table) = (table.span(), table.get_ref());
    let mut rule_fields: Vec<(String, Vec<String>)> = Vec::new();
    for (name, values) in &table.set {
        let at = values.span();
        let _ = fields::check_name(name).map_err(|e| source.note(&at, e));
        if rule_fields
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
        {
            source.note(
                &at,
                format!("{name} is there twice; write a list of its values"),
            );
        }
        let values = values_of(values.get_ref());
        for value in &values {
            let _ = fields::check_value(value).map_err(|e| source.note(&at, e));
        }
        rule_fields.push((name.clone(), values));
    }
    let Some(path) = &table.path else {
        let missing = "the rule is about no path; write path = \"/assets/*\"";
        source.note_missing(&span, missing);
        return None;
    };
    Some(FieldRule {
        pattern: source.value(path, Pattern::parse)?,
        fields: rule_fields,
    })
}

/// The values of a field; an empty text takes it away.
pub(super) fn values_of(values: &OneOrMany) -> Vec<String> {
    match values {
        OneOrMany::One(value) if value.is_empty() => Vec::new(),
        OneOrMany::One(value) => vec![value.clone()],
        OneOrMany::Many(values) => values.clone(),
    }
}

fn redirect(source: &Source, table: &Spanned<RedirectTable>) -> Option<Redirect> {
    let (span, table) = (table.span(), table.get_ref());
    let from = table
        .from
        .as_ref()
        .and_then(|t| source.value(t, Pattern::parse));
    let to = table
        .to
        .as_ref()
        .and_then(|t| source.value(t, Destination::parse));
    let status = match &table.status {
        Some(status) => redirect_status(source, status),
        None => Some(Status::MovedPermanently),
    };
    if table.from.is_none() || table.to.is_none() {
        let missing = "a redirect leads from somewhere to somewhere; write from = \"/old/*\" and to = \"/new/*\"";
        source.note_missing(&span, missing);
    }
    let redirect = Redirect {
        from: from?,
        to: to?,
        status: status?,
        keep_query: table.keep_query.unwrap_or(true),
    };
    if redirect.to.has_star() && !redirect.from.has_star() {
        source.note(
            &span,
            "the star of `to` stands for that of `from`, which has none; write one there",
        );
    }
    if redirect.is_loop() {
        source.note(
            &span,
            "the redirect leads back to itself; write a `to` that `from` is not about",
        );
    }
    Some(redirect)
}

fn redirect_status(source: &Source, number: &Spanned<i64>) -> Option<Status> {
    let known = [
        Status::MovedPermanently,
        Status::Found,
        Status::TemporaryRedirect,
        Status::PermanentRedirect,
    ];
    let status = known
        .into_iter()
        .find(|s| i64::from(s.code()) == *number.get_ref());
    if status.is_none() {
        let what = format!(
            "{} is no status of a redirect; write 301, 302, 307 or 308",
            number.get_ref()
        );
        source.note(&number.span(), what);
    }
    status
}
