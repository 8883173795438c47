//! Requests for applications: `[[site.fastcgi]]` and `[[site.application]]`, and `--fastcgi` and `--application` of the command line;
//! beside them, by [`proxy`], those for upstreams.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::proxy;
use super::schema::{ApplicationTable, FastcgiTable, Number, SiteTable, Text};
use super::units::{application_time, size_within};
use crate::applications::record::pair;
use crate::applications::rules::{Rule, Scope};
use crate::applications::variables::tells_of_requests;
use crate::applications::{Address, Application, Rules};
use crate::limits::{
    APPLICATION_BODY_LEN_MAX, APPLICATION_CONNECTIONS_MAX, APPLICATION_PARAMETERS_LEN_MAX,
    APPLICATION_RULES_MAX,
};
use crate::site::Settings;
use exos_program::config::Source;
use toml::Spanned;

/// What both kinds of tables say of an application.
struct Said<'t> {
    extension: &'t Option<Text>,
    path: &'t Option<Text>,
    to: &'t Option<Text>,
    root: &'t Option<Text>,
    files: Option<bool>,
    front: &'t Option<Text>,
    parameters: &'t BTreeMap<Spanned<String>, Text>,
    timeout: &'t Option<Text>,
    body: &'t Option<Text>,
    /// Requests at once.
    connections: &'t Option<Number>,
    keep: &'t Option<Number>,
    /// How its address is read, and what one looks like.
    address: fn(&str) -> Result<Address, String>,
    example: &'static str,
}

impl<'t> Said<'t> {
    fn fastcgi(table: &'t FastcgiTable) -> Said<'t> {
        Said {
            extension: &table.extension,
            path: &table.path,
            to: &table.to,
            root: &table.root,
            files: table.files,
            front: &table.front,
            parameters: &table.parameters,
            timeout: &table.timeout,
            body: &table.body,
            connections: &table.connections,
            keep: &table.keep,
            address: Address::parse,
            example: "to = \"/run/php/php-fpm.sock\" or to = \"127.0.0.1:9000\"",
        }
    }

    fn application(table: &'t ApplicationTable) -> Said<'t> {
        Said {
            extension: &table.extension,
            path: &table.path,
            to: &table.to,
            root: &table.root,
            files: table.files,
            front: &table.front,
            parameters: &table.parameters,
            timeout: &table.timeout,
            body: &table.body,
            connections: &table.requests,
            keep: &None,
            address: Address::parse_shared,
            example: "to = \"/run/pages.sock\"",
        }
    }
}

/// What the tables of a site say, with their places.
fn all(table: &SiteTable) -> impl Iterator<Item = (Range<usize>, Said<'_>)> {
    let fastcgi = table.fastcgi.iter();
    let fastcgi = fastcgi.map(|t| (t.span(), Said::fastcgi(t.get_ref())));
    let others = table.application.iter();
    fastcgi.chain(others.map(|t| (t.span(), Said::application(t.get_ref()))))
}

/// Takes note of rules of a site that are about the same, however that is written.
pub(super) fn note_same(source: &Source, table: &SiteTable) {
    let said = all(table).filter_map(|(_, said)| said.extension.as_ref().or(said.path.as_ref()));
    let said = said.map(|text| (text, vec![text.get_ref().clone()]));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (text, patterns) in said.chain(proxy::patterns(table)) {
        let line = source.line(&text.span());
        let before = patterns.iter().find_map(|pattern| seen.get(pattern));
        if let Some(before) = before {
            let what = format!(
                "{:?} is there in line {before} too; write it once",
                text.get_ref()
            );
            source.note(&text.span(), what);
        }
        seen.extend(patterns.into_iter().map(|pattern| (pattern, line)));
    }
}

/// The fronts of a site.
pub(super) fn fronts(table: &SiteTable) -> impl Iterator<Item = &Text> {
    all(table).filter_map(|(_, said)| said.front.as_ref())
}

/// The rules of a site. Relative paths begin in `folder`.
pub(super) fn rules(source: &Source, folder: &Path, table: &SiteTable) -> Rules {
    let places = all(table).map(|(span, _)| span);
    let mut places = places.chain(table.proxy.iter().map(|table| table.span()));
    if let Some(beyond) = places.nth(APPLICATION_RULES_MAX) {
        let what =
            format!("more than {APPLICATION_RULES_MAX} rules about applications; write fewer");
        source.note(&beyond, what);
    }
    let site_root = table.root.as_ref().map_or("", |root| root.get_ref());
    let rules = all(table)
        .filter_map(|(span, said)| rules_of(source, folder, site_root, &span, &said))
        .flatten();
    Rules::new(rules.chain(proxy::rules(source, folder, table)).collect())
}

/// What a table says: a rule, and another one where it has a front.
fn rules_of(
    source: &Source,
    folder: &Path,
    site_root: &str,
    span: &Range<usize>,
    table: &Said<'_>,
) -> Option<Vec<Rule>> {
    let scope = match (table.extension, table.path) {
        (Some(extension), None) => source.value(extension, Scope::extension),
        (None, Some(path)) => source.value(path, Scope::path),
        (None, None) => {
            let what =
                "the rule is about nothing; write extension = \".php\", or path = \"/app/*\"";
            source.note_missing(span, what);
            None
        }
        (Some(_), Some(path)) => {
            let what = "a rule is about an extension or about a path; write two rules";
            source.note(&path.span(), what);
            None
        }
    };
    if table.to.is_none() {
        let what = format!("nobody answers; write {}", table.example);
        source.note_missing(span, what);
    }
    let address = source.value(table.to.as_ref()?, table.address);
    let application = application(source, folder, site_root, table, address?);
    let scopes = [front(source, table), scope].into_iter().flatten();
    let application = Arc::new(application);
    let rule = |scope: Scope| Rule {
        scope: scope.only_documents(table.files.unwrap_or(true)),
        application: application.clone(),
    };
    Some(scopes.map(rule).collect())
}

/// What the script is for that the site has nothing for.
fn front(source: &Source, table: &Said<'_>) -> Option<Scope> {
    let text = table.front.as_ref()?;
    match table.extension {
        Some(extension) => source.value(text, |text| Scope::front(text, extension.get_ref())),
        None => {
            let what = "a front is a script; write it in the rule about its extension";
            source.note(&text.span(), what);
            None
        }
    }
}

fn application(
    source: &Source,
    folder: &Path,
    site_root: &str,
    table: &Said<'_>,
    address: Address,
) -> Application {
    let mut application = Application::at(address);
    application.root = match table.root {
        Some(root) => source.value(root, check_root).unwrap_or_default(),
        None => absolute(&folder.join(site_root)),
    };
    if let Some(time) = table
        .timeout
        .as_ref()
        .and_then(|t| source.value(t, application_time))
    {
        application.timeout = time;
    }
    let size =
        |text: &Text| source.value(text, |text| size_within(text, 0, APPLICATION_BODY_LEN_MAX));
    if let Some(len) = table.body.as_ref().and_then(size) {
        application.body_max = len;
    }
    let number = |number: &Option<Number>, from| {
        let number = source.number(number.as_ref()?, from, APPLICATION_CONNECTIONS_MAX);
        number.map(|number| number as usize)
    };
    application.connections = number(table.connections, 1).unwrap_or(application.connections);
    application.keep = number(table.keep, 0).unwrap_or(application.keep);
    application.parameters = parameters(source, table.parameters);
    application
}

/// The variables that every request has, as records have them.
fn parameters(source: &Source, table: &BTreeMap<Spanned<String>, Text>) -> Vec<u8> {
    let (mut pairs, mut len) = (Vec::new(), 0);
    for (name, value) in table {
        let text = name.get_ref();
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        len += text.len() + value.get_ref().len();
        let wrong = if text.is_empty() || !text.bytes().all(is_plain) {
            "is no parameter; write a name of letters, digits and underscores, as \"APP_ENV\""
        } else if tells_of_requests(&text.to_ascii_uppercase()) {
            "is what the server tells of each request; leave it out"
        } else if value.get_ref().contains('\0') {
            "has a byte 0 in its value; leave it out"
        } else {
            pair(&mut pairs, text.as_bytes(), &[value.get_ref().as_bytes()]);
            continue;
        };
        source.note(&name.span(), format!("{text:?} {wrong}"));
    }
    if let Some((first, _)) = table.iter().next()
        && len > APPLICATION_PARAMETERS_LEN_MAX
    {
        let what = format!(
            "parameters may be {APPLICATION_PARAMETERS_LEN_MAX} bytes long together; write fewer"
        );
        source.note(&first.span(), what);
    }
    pairs
}

/// Where an application finds the documents, which may be elsewhere than here.
fn check_root(text: &str) -> Result<Vec<u8>, String> {
    match text.starts_with('/') && !text.contains('\0') {
        true => Ok(text.trim_end_matches('/').into()),
        false => Err(format!(
            "{text:?} is no root; write where the application finds the documents, as \"/srv/www\""
        )),
    }
}

/// A directory as another program finds it, without a slash at the end.
fn absolute(directory: &Path) -> Vec<u8> {
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.into());
    let bytes = directory.as_os_str().as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes).into()
}

/// Where an extension is an application's and nothing else is said, a directory's index may be a script.
pub(super) fn add_index(settings: &mut Settings) {
    let extensions = settings
        .applications
        .iter()
        .filter_map(|rule| match &rule.scope {
            Scope::Extension(extension, _) => Some(format!("index{extension}")),
            Scope::Path(_) | Scope::Missing(_) | Scope::Front(..) => None,
        });
    let scripts: Vec<String> = extensions.collect();
    settings.index.splice(0..0, scripts);
}

/// What `--fastcgi`, `--application` and `--proxy` say: an extension or a path, and who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationArg {
    scopes: Vec<Scope>,
    application: Application,
}

impl ApplicationArg {
    /// What `--fastcgi` says.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn fastcgi(text: &str) -> Result<ApplicationArg, String> {
        Self::parse(text, Address::parse, ".php=/run/php/php-fpm.sock")
    }

    /// What `--application` says.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn shared(text: &str) -> Result<ApplicationArg, String> {
        Self::parse(text, Address::parse_shared, "\"/app/*=/run/pages.sock\"")
    }

    /// What `--proxy` says.
    ///
    /// # Errors
    ///
    /// What to write instead.
    pub fn proxy(text: &str) -> Result<ApplicationArg, String> {
        let (scopes, application) = proxy::parse(text)?;
        Ok(ApplicationArg {
            scopes,
            application,
        })
    }

    fn parse(
        text: &str,
        address: fn(&str) -> Result<Address, String>,
        example: &str,
    ) -> Result<ApplicationArg, String> {
        let (scope, to) = text.split_once('=').ok_or_else(|| {
            format!("write what is for the application, and where it listens, as {example}")
        })?;
        let scope = match scope.starts_with('.') {
            true => Scope::extension(scope)?,
            false => Scope::path(scope)?,
        };
        Ok(ApplicationArg {
            scopes: vec![scope],
            application: Application::at(address(to)?),
        })
    }
}

/// Gives a site the rules of the command line; its documents are in this directory, if it has one.
pub fn add_args<'a>(
    settings: &mut Settings,
    args: impl Iterator<Item = &'a ApplicationArg>,
    directory: Option<&Path>,
) {
    let root = directory.map(absolute).unwrap_or_default();
    let rules = args.flat_map(|arg| {
        let application = Arc::new(Application {
            root: root.clone(),
            ..arg.application.clone()
        });
        let scopes = arg.scopes.iter().cloned();
        scopes.map(move |scope| Rule {
            scope,
            application: application.clone(),
        })
    });
    settings.applications = Rules::new(rules.collect());
    add_index(settings);
}
