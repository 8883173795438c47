//! From a configuration to documents in memory, and `--check`, which says what they would be.

use std::process::ExitCode;

use exos::Error;

use crate::config::{Config, Root, SiteConfig};
use crate::site::Site;

/// Loads the site. What is left out is said on standard error.
pub(super) fn load(config: &Config) -> Result<Site, Error> {
    let [site] = config.sites.as_slice() else {
        return Err(Error::new("there is more than one site"));
    };
    load_one(config, site)
}

fn load_one(config: &Config, site: &SiteConfig) -> Result<Site, Error> {
    let Root::Directory(directory) = &site.root else {
        return Ok(Site::example());
    };
    let loaded = Site::load(directory, config.limits).map_err(|e| Error::new(e.to_string()))?;
    for omission in loaded.omissions() {
        eprintln!("exos serve: left out: {omission}");
    }
    Ok(loaded)
}

/// Says what would be served, or everything that stands in the way.
pub(super) fn check(config: &Config) -> Result<ExitCode, Error> {
    let mut wrong = Vec::new();
    if let Err(e) = config.link.attachment(config.port) {
        wrong.push(e);
    }
    for site in &config.sites {
        match load_one(config, site) {
            Ok(loaded) => println!("{}", describe(site, &loaded)),
            Err(e) => wrong.push(e),
        }
    }
    println!("port {}", config.port);
    let Some(last) = wrong.pop() else {
        return Ok(ExitCode::SUCCESS);
    };
    for error in wrong {
        eprintln!("exos: {error}");
    }
    Err(last)
}

/// What a site is, for people.
pub(super) fn describe(site: &SiteConfig, loaded: &Site) -> String {
    let count = loaded.document_count();
    let megabytes = loaded.content_len() as f64 / 1e6;
    match &site.root {
        Root::Directory(d) => format!("{count} documents of {}, {megabytes:.1} MB", d.display()),
        Root::Example => format!("the example site, {count} documents, {megabytes:.1} MB"),
    }
}
