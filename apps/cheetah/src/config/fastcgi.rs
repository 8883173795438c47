//! Requests for applications: `[[site.fastcgi]]`, and `--fastcgi` of the command line.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use exos_program::units::parse_duration;
use toml::Spanned;

use super::schema::{FastcgiTable, SiteTable, Text};
use super::units::size_within;
use crate::fastcgi::rules::{Rule, Scope};
use crate::fastcgi::{Address, Application, Rules};
use crate::limits::{APPLICATION_CONNECTIONS_MAX, APPLICATION_TIME_MAX, FASTCGI_RULES_MAX};
use crate::site::Settings;
use exos_program::config::Source;

/// The longest body that may be let through.
const BODY_LEN_MAX: u64 = 1 << 40;

/// The rules of a site. Relative paths begin in `folder`.
pub(super) fn fastcgi(source: &Source, folder: &Path, table: &SiteTable) -> Rules {
    if let Some(beyond) = table.fastcgi.get(FASTCGI_RULES_MAX) {
        let what = format!("more than {FASTCGI_RULES_MAX} rules about applications; write fewer");
        source.note(&beyond.span(), what);
    }
    let site_root = table.root.as_ref().map_or("", |root| root.get_ref());
    let rules = table.fastcgi.iter();
    Rules::new(
        rules
            .filter_map(|t| rules_of(source, folder, site_root, t))
            .flatten()
            .collect(),
    )
}

/// What a table says: a rule, and another one where it has a front.
fn rules_of(
    source: &Source,
    folder: &Path,
    site_root: &str,
    table: &Spanned<FastcgiTable>,
) -> Option<Vec<Rule>> {
    let (span, table) = (table.span(), table.get_ref());
    let scope = match (&table.extension, &table.path) {
        (Some(extension), None) => source.value(extension, Scope::extension),
        (None, Some(path)) => source.value(path, Scope::path),
        (None, None) => {
            let what =
                "the rule is about nothing; write extension = \".php\", or path = \"/app/*\"";
            source.note_missing(&span, what);
            None
        }
        (Some(_), Some(path)) => {
            let what = "a rule is about an extension or about a path; write two rules";
            source.note(&path.span(), what);
            None
        }
    };
    if table.to.is_none() {
        let what =
            "nobody answers; write to = \"/run/php/php-fpm.sock\" or to = \"127.0.0.1:9000\"";
        source.note_missing(&span, what);
    }
    let address = source.value(table.to.as_ref()?, Address::parse);
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
fn front(source: &Source, table: &FastcgiTable) -> Option<Scope> {
    let text = table.front.as_ref()?;
    match &table.extension {
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
    table: &FastcgiTable,
    address: Address,
) -> Application {
    let mut application = Application::at(address);
    application.root = match &table.root {
        Some(root) => source.value(root, check_root).unwrap_or_default(),
        None => absolute(&folder.join(site_root)),
    };
    if let Some(time) = table
        .timeout
        .as_ref()
        .and_then(|t| source.value(t, timeout))
    {
        application.timeout = time;
    }
    let size = |text: &Text| source.value(text, |text| size_within(text, 0, BODY_LEN_MAX));
    if let Some(len) = table.body.as_ref().and_then(size) {
        application.body_max = len;
    }
    let number = |number: &Option<_>, from| {
        let number = source.number(number.as_ref()?, from, APPLICATION_CONNECTIONS_MAX);
        number.map(|number| number as usize)
    };
    application.connections = number(&table.connections, 1).unwrap_or(application.connections);
    application.keep = number(&table.keep, 0).unwrap_or(application.keep);
    application
}

fn timeout(text: &str) -> Result<std::time::Duration, String> {
    match parse_duration(text)? {
        time if time.is_zero() || time > APPLICATION_TIME_MAX => Err(format!(
            "{text:?} is out of bounds; write a time of more than 0 s and up to {} s",
            APPLICATION_TIME_MAX.as_secs()
        )),
        time => Ok(time),
    }
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
        .fastcgi
        .iter()
        .filter_map(|rule| match &rule.scope {
            Scope::Extension(extension, _) => Some(format!("index{extension}")),
            Scope::Path(_) | Scope::Front(..) => None,
        });
    let scripts: Vec<String> = extensions.collect();
    settings.index.splice(0..0, scripts);
}

/// What `--fastcgi` says: an extension or a path, and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastcgiArg {
    scope: Scope,
    address: Address,
}

impl std::str::FromStr for FastcgiArg {
    type Err = String;

    fn from_str(text: &str) -> Result<FastcgiArg, String> {
        let (scope, address) = text.split_once('=').ok_or_else(|| {
            "write what is for the application, and where it listens, as .php=/run/php/php-fpm.sock".to_owned()
        })?;
        let scope = match scope.starts_with('.') {
            true => Scope::extension(scope)?,
            false => Scope::path(scope)?,
        };
        Ok(FastcgiArg {
            scope,
            address: Address::parse(address)?,
        })
    }
}

/// Gives a site the rules of the command line.
pub fn add_args(settings: &mut Settings, args: &[FastcgiArg], directory: &Path) {
    let rules = args.iter().map(|arg| {
        let mut application = Application::at(arg.address.clone());
        application.root = absolute(directory);
        Rule {
            scope: arg.scope.clone(),
            application: Arc::new(application),
        }
    });
    settings.fastcgi = Rules::new(rules.collect());
    add_index(settings);
}
