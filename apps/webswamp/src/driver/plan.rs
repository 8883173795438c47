//! Which driver the command line asks for, and what it reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use exos_host::{Error, Result};

use super::weighted::{List, Weighted};
use super::{Driver, One};
use crate::request::{Content, Request};
use crate::target;

/// What clients ask for, when it is not one URL.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DriverArgs {
    /// Ask for the documents of a list, a line each: [WEIGHT] URL-OR-PATH, all of one server
    #[arg(long, value_name = "FILE")]
    pub(crate) urls: Option<PathBuf>,
}

/// What a load does, once everything that it needs was read.
pub(crate) struct Plan {
    /// The server's URL.
    pub(crate) url: String,
    pub(crate) driver: Box<dyn Driver>,
}

/// What the requests of any driver have in common.
pub(crate) struct Common<'a> {
    /// The URL, if one is given.
    pub(crate) url: Option<&'a str>,
    /// A request of it, of which drivers replace what they have an own say in.
    pub(crate) content: Content,
    pub(crate) think: Duration,
    pub(crate) seed: u64,
}

impl DriverArgs {
    /// Reads what the driver needs.
    ///
    /// # Errors
    ///
    /// It cannot be read, or something in it is wrong.
    pub(crate) fn plan(&self, common: &Common) -> Result<Plan> {
        match &self.urls {
            Some(path) => weighted(path, common),
            None => one(common),
        }
    }
}

fn one(common: &Common) -> Result<Plan> {
    let url = common.url.expect("it is required with no list");
    let content = common.content.of(&target::url(url)?);
    Ok(Plan {
        url: url.to_owned(),
        driver: Box::new(One::new(Request::new(&content), common.think)),
    })
}

fn weighted(path: &Path, common: &Common) -> Result<Plan> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    let server = common.url.map(target::url).transpose()?;
    let list = List::parse(&text, server.as_ref())
        .map_err(|what| Error::new(format!("{}: {what}", path.display())))?;
    let requests = list.entries.iter().map(|entry| {
        Request::new(&Content {
            target: entry.target.clone(),
            host: list.authority.clone(),
            ..common.content.clone()
        })
    });
    let weights = list.entries.iter().map(|entry| entry.weight).collect();
    let driver = Weighted::new(requests.collect(), weights, common.seed, common.think);
    Ok(Plan {
        url: format!("http://{}/", list.authority),
        driver: Box::new(driver),
    })
}
