//! One load: the server started, loaded by a generator, watched in the middle, and stopped.

use super::cell::Cell;
use super::generator::Generator;
use super::httperf;
use super::output::Reported;
use crate::report::limited_by;
use crate::stage::web::{Serving, WebStage, whole};
use exos_host::Result;
use exos_lab::{Guard, WireKind};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// When a load is watched, as parts of the time that it takes: it has begun then, and is not about to end.
const WATCHED: [f64; 2] = [0.25, 0.75];

/// What a load showed. Who polls keeps a core busy all the time, so where it tells for which part of the time it had something to do, that
/// counts; else how busy the core was.
pub(super) struct Loaded {
    pub(super) seen: Reported,
    /// Part of the time that the generator had something to do.
    pub(super) generator_busy: f64,
    /// Part of the time that the server had something to do.
    pub(super) server_busy: f64,
    /// What a server of ours told of itself.
    told: Value,
}

/// Parts of the time that the cores were busy.
struct Watched {
    generator: f64,
    server: f64,
}

impl Loaded {
    fn new(seen: Reported, watched: &Watched, told: Value) -> Self {
        // Of the time in which it was loaded.
        let busy_us = told["counters"]["busy_micros"].as_u64();
        let server_busy = busy_us.map(|us| (us as f64 / 1e6 / seen.seconds).min(1.0));
        Self {
            seen,
            generator_busy: seen.busy.unwrap_or(watched.generator),
            server_busy: server_busy.unwrap_or(watched.server),
            told,
        }
    }

    /// Who had no time left: `generator`, `server` or `neither`.
    pub(super) fn limited_by(&self) -> &'static str {
        match limited_by(self.server_busy, self.generator_busy) {
            "client" => "generator",
            other => other,
        }
    }

    /// What a server of ours has counted.
    pub(super) fn counted(&self, what: &str) -> u64 {
        self.told["counters"][what].as_u64().unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) fn of_tests(seen: Reported, [generator, server]: [f64; 2], told: Value) -> Self {
        Self::new(seen, &Watched { generator, server }, told)
    }
}

/// Starts the server, has it loaded, and stops it.
pub(super) fn load(
    web: &WebStage,
    lab: &Guard,
    cell: Cell,
    generator: Generator,
) -> Result<Loaded> {
    let command = match generator.command(web, lab, cell)? {
        Some(command) => command,
        None => after_a_try(web, lab, cell)?,
    };
    let serving = web.serve(lab, cell.asked.setup(cell.server), cell.size)?;
    let mut started = web.start(&generator.to_string(), command, web.cores[1])?;
    let watched = watch(web, &serving)?;
    if started.running.check().is_err() {
        web.note(format!("{generator} was done before it had been watched for long enough ({cell}): it seems less busy than it was"));
    }
    let output = web.output_of(started, whole(web.seconds).into())?;
    let told = web.end(WireKind::Plain, serving)?;
    let seen = Reported::of(generator, &output, cell)?;
    Ok(Loaded::new(seen, &watched, told))
}

/// httperf's command: what it manages is tried on a server of its own, whose time does not count.
fn after_a_try(web: &WebStage, lab: &Guard, cell: Cell) -> Result<Command> {
    let serving = web.serve(lab, cell.server, cell.size)?;
    let command = httperf::command(web, lab, cell)?;
    web.end(WireKind::Plain, serving)?;
    Ok(command)
}

/// What both cores do in the middle of a load.
fn watch(web: &WebStage, serving: &Serving<'_>) -> Result<Watched> {
    let part = |part: f64| Duration::from_secs_f64(part * web.seconds);
    std::thread::sleep(part(WATCHED[0]));
    let before = web.times(serving)?;
    std::thread::sleep(part(WATCHED[1] - WATCHED[0]));
    let used = web.times(serving)?.since(&before);
    Ok(Watched {
        generator: used.client.busy_share(),
        server: used.server.busy_share(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_polls_is_as_busy_as_it_says() {
        let seen = |busy| Reported {
            requests: 100,
            seconds: 2.0,
            busy,
            ..Reported::default()
        };
        let busy = |own, told| {
            let loaded = Loaded::of_tests(seen(own), [1.0, 0.9], told);
            (loaded.generator_busy, loaded.server_busy)
        };
        let told = json!({ "counters": { "busy_micros": 600_000 } });
        assert_eq!(busy(Some(0.4), told), (0.4, 0.3));
        assert_eq!(busy(None, Value::Null), (1.0, 0.9));
    }
}
