//! Requests for upstreams: `[[site.proxy]]`, and `--proxy` of the command line.

use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;

use super::answers;
use super::checks;
use super::request_fields;
use super::schema::{OneOrMany, ProxyTable, SiteTable, Text};
use super::units::{application_time, size_within};
use crate::applications::encryption::Encryption;
use crate::applications::proxy::{self, HostField, Proxy};
use crate::applications::rules::{Rule, Scope};
use crate::applications::{Address, Application, Place};
use crate::limits::{
    APPLICATION_BODY_LEN_MAX, APPLICATION_CONNECTIONS_MAX, UPSTREAM_CONNECTIONS, UPSTREAM_KEPT,
    UPSTREAMS_MAX,
};
use crate::message::target::is_authority;
use crate::secure::Fact;
use crate::site::rules::access::networks::parse_network;
use exos_program::config::Source;

const EXAMPLE: &str =
    "\"http://10.0.0.5:8080\", \"http://[::1]:8080\", \"http://unix:/run/app.sock\"";

/// An upstream's address, and the path that stands in the place of the rule's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Upstream {
    place: Place,
    base: Option<String>,
    /// The name and port by which it is written, if it has a name.
    name: Option<String>,
    /// It is asked by HTTPS.
    is_encrypted: bool,
}

/// Gives the addresses of a name.
type LookUp = dyn Fn(&str) -> Result<Vec<IpAddr>, String>;

/// Asks the name servers of this host.
fn look_up(name: &str) -> Result<Vec<IpAddr>, String> {
    exos_program::names::look_up("serve", name).map_err(|error| error.to_string())
}

impl Upstream {
    /// Reads `http://HOST[:PORT][/PATH]` or `http://unix:/SOCKET[:/PATH]`. A name is as many upstreams as it has addresses.
    fn parse(text: &str, look_up: &LookUp) -> Result<Vec<Upstream>, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}; write one as {EXAMPLE}"));
        let (rest, is_encrypted) =
            match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
                (Some(rest), _) => (rest, false),
                (None, Some(rest)) if rest.starts_with("unix:") => {
                    return fail("is a socket of this host, which is not asked by HTTPS");
                }
                (None, Some(rest)) => (rest, true),
                (None, None) => return Err(without_scheme(text)),
            };
        let port_by_default = if is_encrypted { 443 } else { 80 };
        let (place, path) = if rest.starts_with("unix:") {
            let end = rest.rfind(":/").filter(|end| *end > "unix".len());
            rest.split_at(end.unwrap_or(rest.len()))
        } else {
            rest.split_at(rest.find('/').unwrap_or(rest.len()))
        };
        let path = path.strip_prefix(':').unwrap_or(path);
        let is_path = path
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"?#%\\".contains(&b));
        if !is_path || path.contains("//") || path.split('/').any(|it| matches!(it, "." | "..")) {
            return fail("has a path that is not plain");
        }
        let base = (!path.is_empty()).then(|| path.trim_end_matches('/').to_owned());
        match Place::parse(place).or_else(|| Place::parse(&format!("{place}:{port_by_default}"))) {
            Some(Place::Tcp(at)) if at.port() == 0 => return fail("has no port"),
            Some(place) => {
                // Its certificate names what it is called by.
                let is_named = is_encrypted && text.starts_with("https://localhost");
                let name = is_named.then(|| text["https://".len()..].to_owned());
                let name = name.map(|name| name.split('/').next().unwrap_or(&name).to_owned());
                return Ok(vec![Upstream {
                    place,
                    base,
                    name,
                    is_encrypted,
                }]);
            }
            None => {}
        }
        let (name, port) = match place.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok()),
            None => (place, Some(port_by_default)),
        };
        if rest.contains('@') {
            return fail(
                "names a user; leave that out, and write set = { Authorization = \"Basic ...\" } into the rule",
            );
        }
        if place
            .rsplit_once(':')
            .is_some_and(|(_, port)| is_beyond(port))
        {
            return fail("has a port that there is not: they end with 65535");
        }
        let port = port.filter(|port| *port != 0);
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        let has_letter = name.bytes().any(|b| b.is_ascii_alphabetic());
        let (Some(port), true) = (port, has_letter && name.bytes().all(is_name)) else {
            return fail("is no address of an upstream");
        };
        let found = look_up(name).map_err(|why| format!("{text:?}: {why}"))?;
        let found = found.into_iter().map(|ip| Upstream {
            place: Place::Tcp((ip, port).into()),
            base: base.clone(),
            name: Some(place.to_owned()),
            is_encrypted,
        });
        Ok(found.collect())
    }

    /// Reads several.
    fn parse_all<'t>(
        texts: impl Iterator<Item = &'t str>,
        look_up: &LookUp,
    ) -> Result<Vec<Upstream>, String> {
        let all: Result<Vec<_>, _> = texts.map(|text| Upstream::parse(text, look_up)).collect();
        Ok(all?.concat())
    }
}

/// What to write in place of an address that does not begin as one.
fn without_scheme(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let instead = match scheme {
        "" if rest.starts_with('/') => format!("http://unix:{rest}"),
        "" | "ws" if !rest.is_empty() => format!("http://{rest}"),
        "wss" => format!("https://{rest}"),
        _ => return format!("{text:?} is no address of an upstream; write one as {EXAMPLE}"),
    };
    let why = match scheme {
        "" => "does not say how it is asked",
        _ => "is asked by HTTP, for WebSockets too",
    };
    format!("{text:?} {why}; write {instead:?}")
}

/// Whether it is a number, and none of a port.
fn is_beyond(port: &str) -> bool {
    let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    is_number && port.parse::<u16>().is_err()
}

/// The name of these, where all have one and the same.
fn name_of(upstreams: &[Upstream]) -> Option<String> {
    let name = upstreams.first()?.name.as_ref()?;
    let is_alone = upstreams.iter().all(|it| it.name.as_ref() == Some(name));
    is_alone.then(|| name.clone())
}

/// How upstreams are asked by HTTPS, as it is configured.
#[derive(Clone, Copy, Debug, Default)]
struct Secrecy<'a> {
    /// What their certificate names, if it is not what they are called by.
    name: Option<&'a str>,
    /// The file of the authorities that are trusted, if it is not the system's.
    authorities: Option<&'a Path>,
}

impl Upstream {
    /// Where it is asked; `known` are the names of those before.
    fn address(self, secrecy: Secrecy<'_>, known: &mut Vec<Encryption>) -> Result<Address, String> {
        if !self.is_encrypted {
            return Ok(Address::Http(self.place));
        }
        let called = match (&self.name, &self.place) {
            (Some(name), _) => name
                .rsplit_once(':')
                .map_or(&**name, |(name, _)| name)
                .to_owned(),
            (None, Place::Tcp(at)) => at.ip().to_string(),
            (None, Place::Unix(_)) => String::new(),
        };
        let name = secrecy.name.unwrap_or(&called);
        // Reading the system's authorities takes long, and a name may have many addresses.
        let with = match known.iter().find(|known| known.name() == name) {
            Some(with) => with.clone(),
            None => {
                known.push(Encryption::with(name, secrecy.authorities)?);
                known[known.len() - 1].clone()
            }
        };
        Ok(Address::Https(self.place, with))
    }
}

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
    application.proxy = Some(Proxy {
        host: match host.and_then(|text| source.value(text, host_field)) {
            Some(HostField::Upstream) => name.map_or(HostField::Upstream, HostField::Named),
            said => said.unwrap_or(proxy.host),
        },
        trusted: networks
            .filter_map(|text| source.value(text, parse_network))
            .collect(),
        set: request_fields::set(source, table),
        tls_fields: tls_fields(source, table),
        told: table.told.clone(),
        upgrades: table.upgrades.unwrap_or(proxy.upgrades),
        cache: answers::rules(source, table.cache.as_ref()),
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

/// What an upstream is told of the client's TLS. Answers depend on it then, so that none is kept for others.
fn tls_fields(source: &Source, table: &ProxyTable) -> Vec<(String, Fact)> {
    let mut fields: Vec<(String, Fact)> = Vec::new();
    for (name, what) in &table.tls_fields {
        let is_twice = fields
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name.get_ref()));
        let wrong = match name.get_ref() {
            _ if is_twice => Some("is there twice; write it once"),
            name if !proxy::request::is_free(name) => Some(
                "is no field for this; write a name of letters, digits and hyphens, as \"X-TLS-Version\"",
            ),
            _ if table.cache.is_some() => Some(
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

    fn nobody(name: &str) -> Result<Vec<IpAddr>, String> {
        Err(format!("nobody is {name}"))
    }

    /// A name is all of its addresses, and what it is called there.
    #[test]
    fn a_name_is_looked_up() {
        let two = |name: &str| match name {
            "app.test" => Ok(vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]),
            other => nobody(other),
        };
        let found = Upstream::parse("http://app.test:81/v2", &two).unwrap();
        let places: Vec<String> = found.iter().map(|it| it.place.to_string()).collect();
        assert_eq!(places, ["10.0.0.1:81", "10.0.0.2:81"]);
        assert_eq!(found[1].base.as_deref(), Some("/v2"));
        assert_eq!(name_of(&found).as_deref(), Some("app.test:81"));
        let texts = ["http://app.test", "http://10.0.0.3"];
        let all = Upstream::parse_all(texts.into_iter(), &two).unwrap();
        assert_eq!((all.len(), name_of(&all)), (3, None));
        let error = Upstream::parse("http://other.test", &two).unwrap_err();
        assert!(error.contains("nobody is other.test"), "{error}");
    }

    #[test]
    fn upstreams_are_addresses_with_a_path_or_without() {
        for (text, place, base) in [
            ("http://10.0.0.5:8080", "10.0.0.5:8080", None),
            ("http://10.0.0.5", "10.0.0.5:80", None),
            ("https://10.0.0.5", "10.0.0.5:443", None),
            ("https://10.0.0.5:8443/a", "10.0.0.5:8443", Some("/a")),
            ("http://localhost", "127.0.0.1:80", None),
            ("http://localhost:81/", "127.0.0.1:81", Some("")),
            ("http://[::1]/a/b/", "[::1]:80", Some("/a/b")),
            ("http://unix:/run/a.sock", "/run/a.sock", None),
            ("http://unix:/run/a.sock:/", "/run/a.sock", Some("")),
            ("http://unix:/run/a.sock:/b", "/run/a.sock", Some("/b")),
        ] {
            let upstreams = Upstream::parse(text, &nobody).expect(text);
            assert_eq!(upstreams.len(), 1, "{text}");
            let is = (upstreams[0].place.to_string(), upstreams[0].base.clone());
            assert_eq!(is, (place.to_owned(), base.map(str::to_owned)), "{text}");
        }
        for text in [
            "",
            "10.0.0.5:80",
            "http://",
            "http://host:80",
            "http://host:x",
            "http://1.2.3:80",
            "http://a b",
            "http://10.0.0.5:0",
            "http://10.0.0.5:x",
            "https://unix:/run/a.sock",
            "http://10.0.0.5/a?b",
            "http://10.0.0.5/../a",
            "http://10.0.0.5//",
            "http://unix:run",
            "http://user@10.0.0.5",
        ] {
            assert!(Upstream::parse(text, &nobody).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_says_what_to_write() {
        for (text, wanted) in [
            (
                "localhost:8080",
                "does not say how it is asked; write \"http://localhost:8080\"",
            ),
            (
                "/run/a.sock",
                "does not say how it is asked; write \"http://unix:/run/a.sock\"",
            ),
            (
                "ws://10.0.0.5",
                "is asked by HTTP, for WebSockets too; write \"http://10.0.0.5\"",
            ),
            (
                "wss://10.0.0.5",
                "is asked by HTTP, for WebSockets too; write \"https://10.0.0.5\"",
            ),
            (
                "ftp://10.0.0.5",
                "is no address of an upstream; write one as",
            ),
            (
                "http://10.0.0.5:65536",
                "has a port that there is not: they end with 65535",
            ),
            ("http://me:secret@10.0.0.5", "names a user; leave that out"),
        ] {
            let said = Upstream::parse(text, &nobody).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }

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
