//! From a configuration to documents in memory, and `--check`, which says what they would be.

use std::process::ExitCode;

use exos::Error;

use crate::config::{Config, Root, SiteConfig};
use crate::site::hosts::{HostName, Unknown};
use crate::site::{Site, Sites, Tree};

/// Sites, and what tells of changes of their files, with the number of the site.
pub(super) type Live = (Sites, Vec<(usize, Tree)>);

/// Loads all sites to be followed, or tells what stands in the way.
pub(super) fn load_or_tell(config: &Config) -> Result<Live, Error> {
    load_all(config, true).map_err(tell_all)
}

/// Loads all sites of a configuration. What is left out of them is said on standard error.
///
/// # Errors
///
/// Everything that stands in the way.
pub fn load(config: &Config) -> Result<Sites, Vec<Error>> {
    load_all(config, false).map(|(sites, _)| sites)
}

fn load_all(config: &Config, is_live: bool) -> Result<Live, Vec<Error>> {
    let (mut named, mut trees, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for (number, site) in config.sites.iter().enumerate() {
        match load_one(config, site, is_live) {
            Ok((loaded, tree)) => {
                named.push((site.names.clone(), loaded));
                trees.extend(tree.map(|tree| (number, tree)));
            }
            Err(mut errors) => wrong.append(&mut errors),
        }
    }
    if wrong.is_empty() {
        let sites = Sites::new(named, config.default_site, config.unknown_hosts);
        Ok((sites, trees))
    } else {
        Err(wrong)
    }
}

fn load_one(
    config: &Config,
    site: &SiteConfig,
    is_live: bool,
) -> Result<(Site, Option<Tree>), Vec<Error>> {
    let Root::Directory(directory) = &site.root else {
        return Ok((Site::example(), None));
    };
    let settings = site.settings.clone();
    let (loaded, tree) = match is_live {
        true => Site::load_live(directory, config.limits, settings).map(|(s, t)| (s, Some(t))),
        false => Site::load_with(directory, config.limits, settings).map(|s| (s, None)),
    }
    .map_err(|e| vec![Error::new(e.to_string())])?;
    for omission in loaded.omissions() {
        eprintln!("exos serve: left out: {omission}");
    }
    let missing = loaded.missing_pages().map(|(status, path)| {
        let what = format!("there is no document {path} in {}", directory.display());
        Error::new(what).mend(format!(
            "write it, or leave the error page {} out",
            status.code()
        ))
    });
    let missing: Vec<Error> = missing.collect();
    if missing.is_empty() {
        Ok((loaded, tree))
    } else {
        Err(missing)
    }
}

/// Says what would be served, or everything that stands in the way.
pub(super) fn check(config: &Config) -> Result<ExitCode, Error> {
    let sites = load(config);
    let link = config.link.attachment(config.port);
    let wrong = match (sites, link) {
        (Ok(sites), Ok(_)) => {
            println!("port {}", config.port);
            for line in describe(config, &sites) {
                println!("{line}");
            }
            return Ok(ExitCode::SUCCESS);
        }
        (Ok(_), Err(e)) => vec![e],
        (Err(mut wrong), link) => {
            wrong.extend(link.err());
            wrong
        }
    };
    Err(tell_all(wrong))
}

/// Tells all errors but the last, which is for the caller to tell.
fn tell_all(mut errors: Vec<Error>) -> Error {
    let last = errors.pop();
    for error in errors {
        eprintln!("exos serve: {error}");
    }
    last.unwrap_or_else(|| Error::new("nothing is served"))
}

/// What is served, for people, a line for each site.
pub(super) fn describe(config: &Config, sites: &Sites) -> Vec<String> {
    let sites = config.sites.iter().zip(sites.iter()).enumerate();
    let line = |(at, (site, loaded)): (usize, (&SiteConfig, &Site))| {
        let is_alone = config.sites.len() == 1 && config.unknown_hosts == Unknown::Default;
        let names: Vec<String> = site.names.iter().map(HostName::to_string).collect();
        let default = (at == config.default_site).then(|| "other hosts".to_owned());
        let default = default.filter(|_| config.unknown_hosts == Unknown::Default);
        let names: Vec<String> = names.into_iter().chain(default).collect();
        match is_alone {
            true => describe_one(site, loaded),
            false => format!("{}: {}", names.join(", "), describe_one(site, loaded)),
        }
    };
    sites.map(line).collect()
}

fn describe_one(site: &SiteConfig, loaded: &Site) -> String {
    let count = loaded.document_count();
    let megabytes = loaded.content_len() as f64 / 1e6;
    match &site.root {
        Root::Directory(d) => format!("{count} documents of {}, {megabytes:.1} MB", d.display()),
        Root::Example => format!("the example site, {count} documents, {megabytes:.1} MB"),
    }
}
