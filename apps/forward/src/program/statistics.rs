//! What the forwarder reports of itself: on SIGUSR1, at its end, and to who asks over the control socket.
//!
//! As text on standard error, with listeners and servers as `exos forward ctl status` shows them and the counters that are not zero; or as one line of JSON on standard output, with all of
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use exos::clock;
use exos_inet::Instant;
use exos_program::counters;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use strum::VariantArray as _;

use crate::flow::Class;
use crate::forwarder::Forwarder;
use crate::kernel::Kernel;
use crate::program::control::status_text;
use crate::program::cores::worker::{Counts, Row};
use crate::program::status::Status;

/// What is reported of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// What each core has counted.
    pub cores: &'a [Row],
    pub forwarder: &'a Forwarder,
    pub kernel: Option<&'a Kernel>,
    /// Names that could not be resolved wholly the last time, and why.
    pub unresolved: &'a BTreeMap<String, String>,
    /// When the program began.
    pub started: Instant,
}

/// A report, for people or as a line of JSON.
pub fn report(parts: Parts<'_>, as_json: bool) -> String {
    let report = Report::of(parts);
    if as_json {
        return line(&report);
    }
    let mut text = String::from("exos forward:\n");
    let flows = report.flows.0.iter();
    for (name, count) in flows.filter(|(name, _)| *name != "capacity") {
        let _ = writeln!(text, "  {count} flows {}", name.replace('_', " "));
    }
    let status = serde_json::to_value(&report).expect("numbers and texts under names");
    for line in status_text(&status).lines() {
        let _ = writeln!(text, "  {line}");
    }
    text += &counters::lines(&report.counters.0);
    for link in &report.links {
        let _ = writeln!(text, "  of these {}:", link.link);
        text += &counters::lines(&link.counters.0);
    }
    for core in &report.cores {
        let _ = writeln!(text, "  of these core {}:", core.core);
        text += &counters::lines(&core.counters.0);
    }
    text
}

/// What the forwarder reports as JSON.
#[derive(Serialize, JsonSchema)]
pub struct Report<'a> {
    /// `"exos.forward.statistics/1"`.
    schema: &'static str,
    /// Its process.
    pid: u32,
    /// How long it has been running.
    uptime_ms: u64,
    /// When this was made: nanoseconds of CLOCK_MONOTONIC.
    time_ns: u64,
    /// What of a client decides its server: `"connection"` or `"client"`.
    affinity: &'static str,
    /// How many are `opening`, `one_way` (UDP that nobody has answered), `answered` (one question of UDP to a well-known port
    /// and its answer), `claimed` (by what clients say of servers that are not heard), `established`, `talking` (UDP both
    /// ways, or repeated where servers are not heard) and `closing`; `capacity`, how many there may be; with `--in-kernel`
    /// also how many are `in_kernel`.
    #[schemars(with = "BTreeMap<String, u32>")]
    flows: Named<&'static str, u32>,
    /// Each link, where there are several: `counters` has their sums.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinkReport>,
    /// Each core, where there are several: what its share of the links and its stacks have counted. `counters` has the sums; of what
    /// the forwarder counts there are only these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cores: Vec<CoreReport>,
    /// Names of servers that could not be resolved when they were last asked for, or not wholly, and why: what is not known stays
    /// as it was.
    unresolved: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    status: Status<'a>,
    /// Every counter by name: those of the forwarder, with `--in-kernel` what the kernel forwarded (`kernel_forwarded_`,
    /// `kernel_bytes_`, which `forwarded_` does not count), the flows that it was given (`kernel_flows_begun`), and how often
    /// it did not take one (`kernel_flows_refused`), then those of link and stack.
    #[schemars(with = "BTreeMap<String, u64>")]
    counters: Named<String, u64>,
}

/// A link of several.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Link")]
struct LinkReport {
    /// Its interface.
    link: String,
    /// What it and its stack have counted, by name.
    #[schemars(with = "BTreeMap<String, u64>")]
    counters: Named<String, u64>,
}

/// A core of several.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Core")]
struct CoreReport {
    /// Its number.
    core: usize,
    /// What it has counted, by name.
    #[schemars(with = "BTreeMap<String, u64>")]
    counters: Named<String, u64>,
}

impl<'a> Report<'a> {
    /// How all that stands now.
    pub fn of(parts: Parts<'a>) -> Self {
        let now = clock::now();
        Self {
            schema: "exos.forward.statistics/1",
            pid: std::process::id(),
            uptime_ms: (now - parts.started).as_millis() as u64,
            time_ns: now.micros() * 1000,
            affinity: parts.forwarder.services().affinity().into(),
            flows: flows(parts.forwarder, parts.kernel),
            links: by_link(parts.cores),
            cores: by_core(parts.cores),
            unresolved: parts.unresolved,
            status: Status::of(parts.forwarder.services()),
            counters: Named(all(parts)),
        }
    }
}

/// Counts by their names: an object.
struct Named<N, C>(Vec<(N, C)>);

impl<N: Serialize, C: Serialize> Serialize for Named<N, C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, count)| (name, count)))
    }
}

/// A line of JSON.
pub fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value);
    text.expect("numbers and texts under names") + "\n"
}

/// All counters: those of the forwarder, here and in the kernel, then those of cores, links and stacks.
fn all(parts: Parts<'_>) -> Vec<(String, u64)> {
    let own = parts.forwarder.counters().list().into_iter();
    let own = own.chain(parts.kernel.map(Kernel::counters).unwrap_or_default());
    let own = own.map(|(name, count)| (name.to_owned(), count));
    let of_cores = sums(parts.cores.iter().map(|row| &row.own));
    let of_links = sums(counts_of_links(parts.cores));
    own.chain(of_cores).chain(of_links).collect()
}

/// What all links have counted, on each core.
fn counts_of_links(cores: &[Row]) -> impl Iterator<Item = &Counts> {
    let links = cores.iter().flat_map(|row| &row.links);
    links.map(|(_, counts)| counts)
}

/// What these have counted together.
fn sums<'a>(all: impl Iterator<Item = &'a Counts>) -> Counts {
    let mut sums: Counts = Vec::new();
    for counts in all {
        if sums.is_empty() {
            sums.clone_from(counts);
            continue;
        }
        for (name, count) in counts {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += count,
                None => sums.push((name.clone(), *count)),
            }
        }
    }
    sums
}

/// What each of several links has counted, on all cores.
fn by_link(cores: &[Row]) -> Vec<LinkReport> {
    let report = |(place, (name, _)): (usize, &(String, Counts))| LinkReport {
        link: name.clone(),
        counters: Named(sums(
            cores
                .iter()
                .filter_map(|row| row.links.get(place).map(|(_, counts)| counts)),
        )),
    };
    match &cores[0].links[..] {
        [_] => Vec::new(),
        several => several.iter().enumerate().map(report).collect(),
    }
}

/// What each of several cores has counted.
fn by_core(cores: &[Row]) -> Vec<CoreReport> {
    let report = |row: &Row| CoreReport {
        core: row.core,
        counters: Named({
            let links = row.links.iter().map(|(_, counts)| counts);
            sums(std::iter::once(&row.own).chain(links))
        }),
    };
    match cores {
        [_] => Vec::new(),
        several => several.iter().map(report).collect(),
    }
}

fn flows(forwarder: &Forwarder, kernel: Option<&Kernel>) -> Named<&'static str, u32> {
    let classes = Class::VARIANTS.iter();
    let classes = classes.map(|class| (class.into(), forwarder.flows().count(*class)));
    let capacity = [("capacity", forwarder.flows().capacity())];
    let in_kernel = kernel.map(|kernel| ("in_kernel", kernel.flows()));
    Named(classes.chain(capacity).chain(in_kernel).collect())
}
