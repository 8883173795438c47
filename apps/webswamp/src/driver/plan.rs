//! Which driver the command line asks for, and what it reads.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use exos_host::{Error, Result};

use super::one::One;
use super::replay::{Extent, Log, Replay};
use super::surge::{Documents, Users, documents};
use super::task::{Driver, Maker};
use super::weighted::{List, Weighted};
use crate::request::{Content, Request};
use crate::schedule::Beat;
use crate::target;

/// What clients ask for, when it is not one URL.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct DriverArgs {
    /// Request the URLs of this file, one per line: [WEIGHT] URL-OR-PATH, all of one server
    #[arg(long, value_name = "FILE")]
    pub(crate) urls: Option<PathBuf>,
    /// Repeat the requests of this access log (common or combined format), at their original times or at --rate
    #[arg(long, value_name = "FILE", requires = "url", conflicts_with_all = ["urls", "method"])]
    pub(crate) replay: Option<PathBuf>,
    /// Replay in a closed loop: each client sends its next request when the last one is answered
    #[arg(long, requires = "replay", conflicts_with = "rate")]
    pub(crate) as_fast_as_possible: bool,
    /// Replay this many times as fast as the original
    #[arg(long, value_name = "FACTOR", requires = "replay", value_parser = speed,
        conflicts_with_all = ["as_fast_as_possible", "rate"])]
    pub(crate) speed: Option<f64>,
    /// Simulate users (SURGE model) who browse a set of documents: the folder that exos load surge-files wrote, or its
    /// list alone; URL must serve them
    #[arg(long, value_name = "FOLDER", requires = "url",
        conflicts_with_all = ["urls", "replay", "rate", "think", "method", "body"])]
    pub(crate) surge: Option<PathBuf>,
}

/// What a load does, once everything that it needs was read.
pub(crate) struct Plan {
    /// The server's URL.
    pub(crate) url: String,
    pub(crate) driver: Maker,
    /// When requests begin, if that is the driver's to say, and how many times as fast.
    pub(crate) beats: Option<(Arc<[Beat]>, f64)>,
    /// What there is of a log, if one is replayed.
    pub(crate) log: Option<Extent>,
    /// What a person should know before.
    pub(crate) notes: Vec<String>,
}

impl Plan {
    fn new(url: String, driver: Maker) -> Self {
        Self {
            url,
            driver,
            beats: None,
            log: None,
            notes: Vec::new(),
        }
    }

    /// Notes that a log goes on for longer than the load.
    pub(crate) fn say_what_is_cut(&mut self, duration: Duration) {
        let Some((beats, speed)) = &self.beats else {
            return;
        };
        let last = beats.last().map_or(0.0, |beat| beat.second as f64 / speed);
        if last >= duration.as_secs_f64() {
            self.notes.push(format!(
                "the log takes {:.0} s; the first {:.0} s of it are replayed (--duration says how long)",
                last + 1.0 / speed,
                duration.as_secs_f64()
            ));
        }
    }
}

/// What the requests of any driver have in common.
pub(crate) struct Common<'a> {
    /// The URL, if one is given.
    pub(crate) url: Option<&'a str>,
    /// A request of it, of which drivers replace what they have an own say in.
    pub(crate) content: Content,
    pub(crate) think: Duration,
    pub(crate) seed: u64,
    /// When requests begin is said elsewhere.
    pub(crate) has_rate: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (1e-3..=1e6).contains(&speed) => Ok(speed),
        _ => Err(format!("{text:?} is no factor from 0.001 to 1000000")),
    }
}

impl DriverArgs {
    /// Reads what the driver needs.
    ///
    /// # Errors
    ///
    /// It cannot be read, or something in it is wrong.
    pub(crate) fn plan(&self, common: &Common) -> Result<Plan> {
        match (&self.urls, &self.replay, &self.surge) {
            (Some(path), _, _) => weighted(path, common),
            (_, Some(path), _) => self.replay(path, common),
            (_, _, Some(path)) => surge(path, common),
            (None, None, None) => one(common),
        }
    }

    /// Something else than one URL is asked for.
    pub(crate) fn is_some(&self) -> bool {
        self.urls.is_some() || self.replay.is_some() || self.surge.is_some()
    }

    /// Requests begin when a log says, unless a rate does.
    pub(crate) fn is_timed(&self) -> bool {
        self.replay.is_some() && !self.as_fast_as_possible
    }

    fn replay(&self, path: &Path, common: &Common) -> Result<Plan> {
        let wrong = |what| Error::new(format!("{}: {what}", path.display()));
        let file = File::open(path)
            .map_err(|e| Error::io(format!("cannot open {}", path.display()), e))?;
        if file.metadata().is_ok_and(|it| it.is_dir()) {
            return Err(wrong("this is a folder; name a log".to_owned()));
        }
        let mut log = Log::read(BufReader::new(file)).map_err(wrong)?;
        let url = common.url.expect("it is required with a log");
        let base = common.content.of(&target::url(url)?);
        let mut beats = None;
        if self.is_timed() && !common.has_rate {
            log.sort();
            let all = log.beats().map_err(wrong)?;
            beats = Some((all.into(), self.speed.unwrap_or(1.0)));
        }
        let extent = log.extent();
        let note = log.first_left_out.map(|(number, why)| {
            format!(
                "{} of {} lines of {} are left out; of line {number}: {why}",
                extent.left_out_all(),
                extent.left_out_all() + extent.requests,
                path.display()
            )
        });
        let order: Arc<[u32]> = log.lines.iter().map(|(_, request)| *request).collect();
        let (all, think) = (log.requests, common.think);
        let driver = move |part| -> Box<dyn Driver> {
            let requests = all.iter();
            let requests =
                requests.map(|(method, target)| Request::new(&logged(&base, method, target)));
            Box::new(Replay::new(requests.collect(), order.clone(), part, think))
        };
        Ok(Plan {
            beats,
            log: Some(extent),
            notes: note.into_iter().collect(),
            ..Plan::new(url.to_owned(), Box::new(driver))
        })
    }
}

/// A request as a log has it. A log says nothing of bodies: requests whose methods have one get ours, or an empty one.
fn logged(base: &Content, method: &str, target: &str) -> Content {
    let has_body = matches!(method, "POST" | "PUT" | "PATCH");
    Content {
        method: method.to_owned(),
        target: target.to_owned(),
        body: has_body.then(|| base.body.clone().unwrap_or_default()),
        ..base.clone()
    }
}

fn one(common: &Common) -> Result<Plan> {
    let url = common.url.expect("it is required with no list");
    let content = common.content.of(&target::url(url)?);
    let think = common.think;
    let driver = move |_| -> Box<dyn Driver> { Box::new(One::new(Request::new(&content), think)) };
    Ok(Plan::new(url.to_owned(), Box::new(driver)))
}

fn weighted(path: &Path, common: &Common) -> Result<Plan> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
    let server = common.url.map(target::url).transpose()?;
    let list = List::parse(&text, server.as_ref())
        .map_err(|what| Error::new(format!("{}: {what}", path.display())))?;
    let url = format!("{}://{}/", list.scheme, list.authority);
    let (content, seed, think) = (common.content.clone(), common.seed, common.think);
    let driver = move |part| -> Box<dyn Driver> {
        let requests = list.entries.iter().map(|entry| {
            Request::new(&Content {
                target: entry.target.clone(),
                host: list.authority.clone(),
                is_secured: list.scheme == "https",
                ..content.clone()
            })
        });
        let weights = list.entries.iter().map(|entry| entry.weight).collect();
        Box::new(Weighted::new(requests.collect(), weights, seed, think).part(part))
    };
    Ok(Plan::new(url, Box::new(driver)))
}

fn surge(path: &Path, common: &Common) -> Result<Plan> {
    let path = if path.is_dir() {
        path.join(documents::LIST)
    } else {
        path.to_owned()
    };
    let text = std::fs::read_to_string(&path).map_err(|e| {
        Error::io(format!("cannot read {}", path.display()), e)
            .mend("write a set of documents first: exos load surge-files FOLDER")
    })?;
    let set = Documents::parse(&text)
        .map_err(|what| Error::new(format!("{}: {what}", path.display())))?;
    let url = common.url.expect("it is required with a set of documents");
    let mut content = common.content.of(&target::url(url)?);
    if !content.target.ends_with('/') {
        content.target.push('/');
    }
    let seed = common.seed;
    let driver =
        move |part| -> Box<dyn Driver> { Box::new(Users::new(&set, &content, seed).part(part)) };
    Ok(Plan::new(url.to_owned(), Box::new(driver)))
}
