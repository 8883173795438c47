//! A server with bounded memory under load: what it did, and what there was of it meanwhile.

use super::bounded::{BoundedRun, Cell, DOCUMENT};
use super::load::answers;
use super::log::Set;
use super::session::{Session, some_answers};
use crate::stage::bound::Bound;
use crate::stage::memory::{self, segments_resent};
use crate::stage::request::Connection;
use crate::stage::web::{DOCUMENTS, LoadReport, Server, Serving, Setup, WebLoad, until_answered};
use exos_host::{Error, Result};
use exos_lab::{Lab, Side};
use serde_json::Value;
use std::time::Duration;

/// How long reading all documents may take.
const READING_SECS: f64 = 600.0;

/// A server that has read less than this part of all documents has not read them all itself.
const FORGOTTEN: f64 = 0.9;

/// When memory is looked at: this part of what is measured has passed.
const LOOK_AT: f64 = 0.8;

/// What there was of a server at a moment.
struct Looked {
    process: u64,
    sockets: u64,
    /// Bytes.
    read: Option<u64>,
    /// Segments that the kernel sent again on its side.
    resent: u64,
}

/// What a load showed, and what there was before it, when it was measured, and when most of that had passed.
struct Watched {
    report: LoadReport,
    before: Looked,
    from: Looked,
    until: Looked,
    used: Option<u64>,
}

/// Starts a server with bounded memory, has it read all documents, has it loaded, and stops it.
pub(super) fn run(
    session: &Session<'_>,
    lab: &Lab,
    server: Server,
    cell: Cell,
    set: Option<&Set>,
) -> Result<BoundedRun> {
    set.map_or(Ok(()), Set::forget)?;
    let setup = Setup {
        memory: session.memory.map(|memory| memory.bytes),
        folder: set.map_or(DOCUMENTS, |set| set.folder),
        ..server.into()
    };
    let serving = session.serve(lab, setup, DOCUMENT)?;
    let mut load = session.load_of(server, Connection::Persistent, DOCUMENT);
    load.connections = cell.connections(session);
    let seen = set.map_or(Ok(()), |set| read_all(session, lab, &serving, &load, set));
    let warm_up = cell.warm_up(session.seconds);
    load.seconds += warm_up.as_secs_f64();
    load.log = set.map(|set| set.log.clone());
    let seen = seen.and_then(|()| {
        until_answered(|| {
            let watched = watch(session, lab, &serving, &load, warm_up)?;
            Ok((watched.report.responses, watched))
        })
    });
    // Whatever went wrong by that.
    serving.check_bound()?;
    let Watched {
        report,
        before,
        from,
        until,
        used,
    } = seen?;
    some_answers(server, report.responses, report.errors())?;
    if report.came_to_its_end() {
        return Err(Error::new(format!(
            "{cell}: {server} answered all requests of the log before the time was over"
        ))
        .mend("measure for less --duration"));
    }
    let told = session.stop(serving)?;
    let watched_secs = LOOK_AT * session.seconds;
    let resent_per_answer = match server {
        Server::Exos => resent_by_ours(&told),
        _ => {
            let resent = until.resent.checked_sub(from.resent);
            resent.map(|count| count as f64 / (watched_secs * report.per_sec()))
        }
    };
    let resent_per_answer =
        resent_per_answer.ok_or_else(|| Error::new(format!("{server} told of no segments")))?;
    let grown = |of: fn(&Looked) -> u64| {
        (of(&until) as f64 - of(&before) as f64) / f64::from(load.connections)
    };
    let bytes_per_sec = report.response_bytes as f64 / report.measured_secs;
    let from_disk = until
        .read
        .zip(from.read)
        .map(|(now, then)| now.saturating_sub(then) as f64 / watched_secs / bytes_per_sec.max(1.0));
    Ok(BoundedRun {
        per_sec: report.per_sec(),
        megabytes_per_sec: bytes_per_sec / 1e6,
        p50_ms: report.time_us("total", "p50") / 1000.0,
        from_disk: set.and(from_disk),
        memory_bytes: used.map(|bytes| bytes as f64),
        process_bytes_per_connection: set.is_none().then(|| grown(|at| at.process)),
        kernel_bytes_per_connection: grown(|at| at.sockets),
        resent_per_answer,
        errors: report.errors(),
    })
}

/// Has a server answer with each document once: servers begin alike then, the one that reads ahead when it starts and those that do not, and none
/// reads for the first time what is measured.
fn read_all(
    session: &Session<'_>,
    lab: &Lab,
    serving: &Serving<'_>,
    load: &WebLoad,
    set: &Set,
) -> Result<()> {
    let mut load = load.clone();
    load.seconds = READING_SECS;
    load.log = Some(set.each_once.clone());
    let command = load.by_exos(lab.command(Side::B, &session.program)?, true);
    let client = session.start("exos load", command, session.cores[1])?;
    let report = LoadReport::read(&session.output_of(client, load.seconds)?)?;
    let read = memory::read_from_disk(serving.pid())?;
    if read.is_some_and(|bytes| (bytes as f64) < FORGOTTEN * set.bytes as f64) {
        session.note(format!(
            "{}: servers found documents in the kernel's memory, or are not said to read from a disk: from_disk and memory are too little",
            set.folder
        ));
    }
    match (report.came_to_its_end(), report.errors()) {
        (true, 0) => Ok(()),
        (_, errors) => Err(Error::new(format!(
            "only {} of all documents were answered with before measuring ({errors} errors)",
            report.responses
        ))),
    }
}

/// Has a server loaded, and looks at it meanwhile.
fn watch(
    session: &Session<'_>,
    lab: &Lab,
    serving: &Serving<'_>,
    load: &WebLoad,
    warm_up: Duration,
) -> Result<Watched> {
    let look = || -> Result<Looked> {
        Ok(Looked {
            process: memory::resident(serving.pid())?,
            sockets: memory::of_sockets(lab, Side::A)?,
            read: memory::read_from_disk(serving.pid())?,
            resent: segments_resent(lab, Side::A)?,
        })
    };
    let command = lab.command(Side::B, &session.program)?;
    let mut command = load.by_exos(command, true);
    command.args(["--warm-up", &format!("{}ms", warm_up.as_millis())]);
    let before = look()?;
    let mut client = session.start("exos load", command, session.cores[1])?;
    // It has read the log when it has its link.
    let has_link = || lab.link(Side::B).is_ok_and(|link| link.xdp.is_some());
    session.await_true(&mut client, has_link)?;
    session.pause(warm_up)?;
    let from = look()?;
    session.pause(Duration::from_secs_f64(LOOK_AT * session.seconds))?;
    let until = look()?;
    let used = serving.bound.as_ref().map(Bound::used).transpose()?;
    let report = LoadReport::read(&session.output_of(client, load.seconds)?)?;
    Ok(Watched {
        report,
        before,
        from,
        until,
        used,
    })
}

/// Segments that ours has sent again since it started, for each of its answers since.
fn resent_by_ours(told: &Value) -> Option<f64> {
    let resent = told["counters"]["tcp_segments_retransmitted"].as_f64()?;
    Some(resent / answers(told)?.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What came before the measurement is in neither number, or in both.
    #[test]
    fn what_ours_sent_again_is_of_all_its_answers() {
        let counters = json!({
            "tcp_segments_retransmitted": 30, "http_responses_2xx": 50, "http_responses_3xx": 10
        });
        let told = json!({ "counters": counters });
        assert_eq!(resent_by_ours(&told), Some(0.5));
        assert_eq!(resent_by_ours(&Value::Null), None);
    }
}
