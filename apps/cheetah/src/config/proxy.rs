//! Requests for upstreams: `[[site.proxy]]`, and `--proxy` of the command line.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::answers;
use super::checks;
use super::request_fields;
use super::schema::{OneOrMany, ProxyTable, SiteTable, Text};
use super::units::{application_time, size_within};
use super::upstreams::{EXAMPLE, Secrecy, Upstream, look_up, name_of};
use crate::applications::proxy::{HostField, Proxy};
use crate::applications::rules::{Rule, Scope};
use crate::applications::{Address, Application};
use crate::caching::CacheRules;
use crate::limits::{
    APPLICATION_BODY_LEN_MAX, APPLICATION_CONNECTIONS_MAX, UPSTREAM_CONNECTIONS, UPSTREAM_KEPT,
    UPSTREAMS_MAX,
};
use crate::message::target::is_authority;
use crate::site::rules::access::networks::parse_network;
use exos_program::config::Source;

/// The application of these upstreams.
fn application(upstreams: Vec<Upstream>, secrecy: Secrecy<'_>) -> Result<Application, String> {
    let Some(first) = upstreams.first() else {
        return Err(format!(
            "nobody answers; write one upstream or several, as {EXAMPLE}"
        ));
    };
    let base = first.base.clone();
    if upstreams.len() > UPSTREAMS_MAX {
        return Err(format!(
            "there are more than {UPSTREAMS_MAX} upstreams; write fewer"
        ));
    }
    if upstreams.iter().any(|upstream| upstream.base != base) {
        return Err("upstreams of one rule have one path; write it behind each of them".to_owned());
    }
    let mut addresses: Vec<Address> = Vec::new();
    let mut known = Vec::new();
    for upstream in upstreams {
        let address = upstream.address(secrecy, &mut known)?;
        if addresses.contains(&address) {
            return Err(format!("{address} is there twice; write it once"));
        }
        addresses.push(address);
    }
    let proxy = Proxy {
        base,
        ..Proxy::default()
    };
    Ok(Application {
        connections: UPSTREAM_CONNECTIONS,
        keep: UPSTREAM_KEPT,
        proxy: Some(proxy),
        ..Application::at_any(addresses)
    })
}

/// A path and all that is below it: what a rule is about.
fn scopes(text: &str, files_first: bool) -> Result<Vec<Scope>, String> {
    if !text.starts_with('/') {
        return Err(format!(
            "{text:?} is no path; write one as \"/api\" or \"/\""
        ));
    }
    let below = match text.strip_suffix("/*").or_else(|| text.strip_suffix('/')) {
        Some(path) => path,
        None => text,
    };
    let is_whole = !text.ends_with("/*") && !below.is_empty();
    let paths = is_whole.then(|| below.to_owned()).into_iter();
    let paths = paths.chain([format!("{below}/*")]);
    let scope = |path: String| match Scope::path(&path)? {
        Scope::Path(pattern) if files_first => Ok(Scope::Missing(pattern)),
        scope => Ok(scope),
    };
    let scopes: Result<Vec<Scope>, String> = paths.map(scope).collect();
    scopes.map_err(|_| format!("{text:?} is no path of upstreams; write one as \"/api\" or \"/\""))
}

/// What the rules of a site are about, as it is written and as patterns.
pub(super) fn patterns(table: &SiteTable) -> impl Iterator<Item = (&Text, Vec<String>)> {
    let paths = table
        .proxy
        .iter()
        .filter_map(|table| table.get_ref().path.as_ref());
    paths.map(|path| {
        let scopes = scopes(path.get_ref(), false).unwrap_or_default();
        let pattern = |scope| match scope {
            Scope::Path(pattern) => Some(pattern.to_string()),
            _ => None,
        };
        (path, scopes.into_iter().filter_map(pattern).collect())
    })
}

/// The rules of a site. Relative paths begin in `folder`.
pub(super) fn rules(source: &Source, folder: &Path, table: &SiteTable) -> Vec<Rule> {
    let all = table.proxy.iter();
    let all = all.filter_map(|it| rules_of(source, folder, it, table.root.is_some()));
    all.flatten().collect()
}

fn rules_of(
    source: &Source,
    folder: &Path,
    table: &Spanned<ProxyTable>,
    has_root: bool,
) -> Option<Vec<Rule>> {
    let (span, table) = (table.span(), table.get_ref());
    if table.path.is_none() {
        source.note_missing(&span, "the rule is about nothing; write path = \"/api\"");
    }
    let scopes = table.path.as_ref().and_then(|path| {
        let is_last = table.files_first.unwrap_or(false);
        source.value(path, |text| scopes(text, is_last))
    });
    let application = match &table.to {
        Some(to) => asked(source, folder, to, table),
        None => {
            let what = format!("nobody answers; write to = [{EXAMPLE}]");
            source.note_missing(&span, what);
            None
        }
    };
    let application = Arc::new(application?);
    note_contradictions(source, &span, table, &application, has_root);
    let rule = |scope| Rule {
        scope,
        application: application.clone(),
    };
    Some(scopes?.into_iter().map(rule).collect())
}

/// Takes note of keys that contradict one another, or say something of what there is not.
fn note_contradictions(
    source: &Source,
    span: &Range<usize>,
    table: &ProxyTable,
    application: &Application,
    has_root: bool,
) {
    let has_base = (application.proxy.as_ref()).is_some_and(|proxy| proxy.base.is_some());
    let is_https = |address: &Address| matches!(address, Address::Https(..));
    let has_https = application.addresses.iter().any(is_https);
    let wrong = [
        (
            table.raw == Some(true) && has_base,
            "raw has targets go on byte by byte, and the path in `to` stands in the place of the rule's; leave one of them out",
        ),
        (
            table.files_first == Some(true) && !has_root,
            "files_first is about documents, of which the site has none; write root, or leave it out",
        ),
        (
            (table.ca.is_some() || table.tls_name.is_some()) && !has_https,
            "ca and tls_name are about HTTPS, and no upstream is asked by that; write https://, or leave them out",
        ),
    ];
    for (_, what) in wrong.into_iter().filter(|(is_wrong, _)| *is_wrong) {
        source.note(span, what);
    }
}

/// The upstreams, and all that is said of them.
fn asked(
    source: &Source,
    folder: &Path,
    to: &Spanned<OneOrMany>,
    table: &ProxyTable,
) -> Option<Application> {
    let texts = match to.get_ref() {
        OneOrMany::One(text) => std::slice::from_ref(text),
        OneOrMany::Many(texts) => texts,
    };
    let texts = texts.iter().map(String::as_str);
    let upstreams = Upstream::parse_all(texts, &look_up);
    let name = upstreams.as_ref().ok().and_then(|all| name_of(all));
    let authorities = table.ca.as_ref().map(|text| folder.join(text.get_ref()));
    let secrecy = Secrecy {
        name: table.tls_name.as_ref().map(|text| &**text.get_ref()),
        authorities: authorities.as_deref(),
    };
    let application = upstreams.and_then(|all| application(all, secrecy));
    let mut application = application
        .map_err(|what| source.note(&to.span(), what))
        .ok()?;
    let time = |text: &Option<Text>| {
        let text = text.as_ref()?;
        source.value(text, application_time)
    };
    let number = |number: &Option<_>, from| {
        let number = source.number(number.as_ref()?, from, APPLICATION_CONNECTIONS_MAX);
        number.map(|number| number as usize)
    };
    let size =
        |text: &Text| source.value(text, |text| size_within(text, 0, APPLICATION_BODY_LEN_MAX));
    application.timeout = time(&table.timeout).unwrap_or(application.timeout);
    application.body_max = (table.body.as_ref().and_then(size)).unwrap_or(application.body_max);
    application.connections = number(&table.connections, 1).unwrap_or(application.connections);
    application.keep = number(&table.keep, 0).unwrap_or(application.keep);
    let networks = table.trusted.iter();
    let host = table.host.as_ref();
    let proxy = application.proxy.take().unwrap_or_default();
    let set = request_fields::set(source, table);
    let cache = answers::rules(source, table.cache.as_ref()).map(|rules| CacheRules {
        withheld: set.iter().map(|field| field.name.clone()).collect(),
        ..rules
    });
    application.proxy = Some(Proxy {
        host: match host.and_then(|text| source.value(text, host_field)) {
            Some(HostField::Upstream) => name.map_or(HostField::Upstream, HostField::Named),
            said => said.unwrap_or(proxy.host),
        },
        trusted: networks
            .filter_map(|text| source.value(text, parse_network))
            .collect(),
        set,
        tls_fields: request_fields::tls_fields(source, table),
        told: table.told.clone(),
        upgrades: table.upgrades.unwrap_or(proxy.upgrades),
        cache: cache.map(Arc::new),
        check: table
            .check
            .as_ref()
            .and_then(|it| checks::rules(source, it)),
        connect_time: time(&table.connect_timeout).unwrap_or(proxy.connect_time),
        tunnel_time: time(&table.tunnel_timeout).unwrap_or(proxy.tunnel_time),
        keep_time: time(&table.keep_timeout).unwrap_or(proxy.keep_time),
        fail_time: time(&table.fail_timeout).unwrap_or(proxy.fail_time),
        raw: table.raw.unwrap_or(proxy.raw),
        base: proxy.base,
    });
    Some(application)
}

fn host_field(text: &str) -> Result<HostField, String> {
    match text {
        "client" => Ok(HostField::Client),
        "upstream" => Ok(HostField::Upstream),
        name if !name.is_empty() && is_authority(name.as_bytes()) => {
            Ok(HostField::Named(name.to_owned()))
        }
        _ => Err(format!(
            "{text:?} is no host; write \"client\", \"upstream\" or a name"
        )),
    }
}

/// What `--proxy` says: a path and upstreams.
///
/// # Errors
///
/// What to write instead.
pub(super) fn parse(text: &str) -> Result<(Vec<Scope>, Application), String> {
    let (path, to) = text.split_once('=').ok_or_else(|| {
        "write a path and where its requests go, as /api=http://127.0.0.1:8080".to_owned()
    })?;
    let upstreams = Upstream::parse_all(to.split(','), &look_up)?;
    Ok((
        scopes(path, false)?,
        application(upstreams, Secrecy::default())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_all_that_is_below_it() {
        for (text, wanted) in [
            ("/api", "/api /api/*"),
            ("/api/", "/api /api/*"),
            ("/api/*", "/api/*"),
            ("/", "/*"),
            ("/*", "/*"),
        ] {
            let paths: Vec<String> = scopes(text, true)
                .expect(text)
                .iter()
                .map(|scope| match scope {
                    Scope::Missing(pattern) => pattern.to_string(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(paths.join(" "), wanted);
        }
        for text in ["", "api", "*.css", "/a*", "//"] {
            assert!(scopes(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_names_one_or_several() {
        let (scopes, application) = parse("/api=http://127.0.0.1:1,http://127.0.0.1:2").unwrap();
        assert_eq!((scopes.len(), application.addresses.len()), (2, 2));
        for text in [
            "/api",
            "/api=",
            "/api=http://127.0.0.1:1,",
            "/api=http://127.0.0.1:1,http://127.0.0.1:1",
            "/api=http://127.0.0.1:1/a,http://127.0.0.1:2/b",
            "api=http://127.0.0.1:1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
