//! A server under load: started and waited for, loaded by a client, watched, and ended.

use super::check::await_document;
use super::exos_load::LoadReport;
use super::load::{WebLoad, whole};
use super::seen::Seen;
use super::setup::{Lent, Serving, Setup};
use super::stage::WebStage;
use super::wrk::Measured;
use crate::stage::cpu::{self, CoreTime, ProcessTime, SoftirqThread};
use crate::stage::link;
use crate::stage::packets::{Visit, Visited};
use crate::stage::request::{Connection, Size};
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Lab, Side, WireKind};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the processors did for one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub seconds: f64,
    pub process: ProcessTime,
    pub server: CoreTime,
    pub client: CoreTime,
    /// Of the kernel's thread for soft interrupts on the server's core, where it is seen.
    pub softirqs_ns: Option<u64>,
}

impl Used {
    /// Processor time of the server's processes for each of this many requests, in microseconds.
    pub fn process_us(&self, requests: u64) -> f64 {
        cpu::ticks_to_us(self.process.user + self.process.system) / requests as f64
    }
}

impl WebStage {
    /// Starts a server, and waits until it answers with the whole document and nothing else.
    pub fn serve(&self, lab: &Lab, setup: impl Into<Setup>, size: Size) -> Result<Serving<'_>> {
        let setup = setup.into();
        // What a handler answers arrives only where a program of XDP receives, as our client's does.
        let _receiving = (!setup.server.is_for_sockets())
            .then(|| lab.netns(Side::B).run(|| link::pass_all(INTERFACE)))
            .transpose()?
            .transpose()?;
        self.when_it_answers(lab, setup.start(self, lab)?, size)
    }

    /// Starts a server on what a daemon lends, as [`Self::serve`] does.
    pub fn serve_lent(&self, lab: &Lab, lent: Lent<'_>, size: Size) -> Result<Serving<'_>> {
        self.when_it_answers(lab, lent.serve(self, lab)?, size)
    }

    fn when_it_answers<'s>(
        &self,
        lab: &Lab,
        mut serving: Serving<'s>,
        size: Size,
    ) -> Result<Serving<'s>> {
        let (server, client) = (serving.server, lab.netns(Side::B));
        // A SYN to an address that nobody has yet would be sent again after a second only.
        if server.is_ours() {
            self.await_address(&mut serving.started)?;
        }
        let who = (server, server.address());
        let answers = await_document(self, client, who, size, || serving.started.running.check());
        serving.check_bound()?;
        answers.map(|()| serving)
    }

    /// Ends a server, which has to leave the wire as it found it; what it told of itself, where it is ours.
    pub fn end(&self, wire: WireKind, serving: Serving<'_>) -> Result<Value> {
        let server = serving.server;
        let told = self.stop(serving)?;
        if exos_lab::up(&self.settings(wire))?.1 != exos_lab::Outcome::Unchanged {
            self.note(format!(
                "{server} did not leave the wire as it was; it was repaired"
            ));
        }
        Ok(told)
    }

    /// Ends a server; what it told of itself, where it is ours.
    pub fn stop(&self, mut serving: Serving<'_>) -> Result<Value> {
        serving.started.running.check()?;
        serving.started.statistics()
    }

    /// Has wrk load a server; what it saw, and what `watch` tells before and after.
    pub fn load<T>(
        &self,
        lab: &Lab,
        serving: &Serving<'_>,
        (connection, size): (Connection, Size),
        watch: impl Fn() -> Result<T>,
    ) -> Result<(Seen, [T; 2])> {
        let load = self.load_of(serving.server, connection, size);
        let command = || self.wrk(lab, &load);
        let read = |output: &str| Ok((Measured::read(output)?.requests, output.to_owned()));
        let (output, watched) = self.load_by("wrk", command, read, watch)?;
        let measured = Measured::of_answers(&output, serving.server)?;
        Ok((Seen::from(&measured), watched))
    }

    /// Has `exos load` on packets load a server; what it reports, and what `watch` tells before and after.
    pub fn load_by_exos<T>(
        &self,
        lab: &Lab,
        load: &WebLoad,
        watch: impl Fn() -> Result<T>,
    ) -> Result<(LoadReport, [T; 2])> {
        let command = || Ok(load.by_exos(lab.command(Side::B, &self.program)?, true));
        let read = |output: &str| LoadReport::read(output).map(|report| (report.responses, report));
        self.load_by("exos load", command, read, watch)
    }

    /// Has a client load a server, until it had an answer; what `read` makes of what the client wrote, with the number of answers, and
    /// what `watch` tells before and after.
    pub fn load_by<R, T>(
        &self,
        client: &str,
        command: impl Fn() -> Result<Command>,
        read: impl Fn(&str) -> Result<(u64, R)>,
        watch: impl Fn() -> Result<T>,
    ) -> Result<(R, [T; 2])> {
        until_answered(|| {
            let command = command()?;
            let before = watch()?;
            let client = self.start(client, command, self.cores[1])?;
            let output = self.output_of(client, whole(self.seconds).into())?;
            let watched = [before, watch()?];
            let (answers, seen) = read(&output)?;
            Ok((answers, (seen, watched)))
        })
    }

    /// Has our client visit a server; what it saw, and what `watch` tells near the beginning and near the end.
    pub fn visit<T>(
        &self,
        lab: &Lab,
        serving: &Serving<'_>,
        visit: &Visit,
        watch: impl Fn() -> Result<T>,
    ) -> Result<(Visited, [T; 2])> {
        let (visited, watched) = until_answered(|| {
            let client = self.start_visit(lab, visit)?;
            let before = watch()?;
            // Shorter than it measures: it began when we heard of it, or before.
            std::thread::sleep(Duration::from_secs_f64(0.9 * visit.seconds));
            let watched = [before, watch()?];
            let visited = client.measured(self, visit.seconds)?;
            Ok((visited.requests, (visited, watched)))
        })?;
        if visited.requests == 0 {
            let (server, errors) = (serving.server, visited.errors);
            return Err(Error::new(format!(
                "{server} did not answer a single request under load ({errors:?})"
            )));
        }
        Ok((visited, watched))
    }

    /// What the processors have done so far.
    pub fn times(&self, serving: &Serving<'_>) -> Result<Times> {
        Ok(Times {
            at: Instant::now(),
            process: cpu::of_family(serving.pid())?,
            server: cpu::of_core(self.cores[0])?,
            client: cpu::of_core(self.cores[1])?,
            softirqs_ns: SoftirqThread::of_core(self.cores[0])?.map(|thread| thread.ns()),
        })
    }
}

/// How often a load is made before its server counts as one that does not answer.
const LOADS_MAX: u32 = 5;

/// Makes a load, which tells how many answers it had, until it had some: while a machine has much else to do, a short one may end
/// without any.
pub(crate) fn until_answered<T>(mut load: impl FnMut() -> Result<(u64, T)>) -> Result<T> {
    let (mut answers, mut seen) = load()?;
    for _ in 1..LOADS_MAX {
        if answers > 0 {
            break;
        }
        (answers, seen) = load()?;
    }
    Ok(seen)
}

/// What the processors had done at a moment.
pub(crate) struct Times {
    at: Instant,
    process: ProcessTime,
    server: CoreTime,
    client: CoreTime,
    softirqs_ns: Option<u64>,
}

impl Times {
    /// Since another.
    pub fn since(self, before: &Self) -> Used {
        Used {
            seconds: (self.at - before.at).as_secs_f64(),
            process: self.process - before.process,
            server: self.server - before.server,
            client: self.client - before.client,
            softirqs_ns: self
                .softirqs_ns
                .zip(before.softirqs_ns)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_made_until_it_is_answered_and_not_for_ever() {
        for (silent, loads) in [(0, 1), (2, 3), (9, LOADS_MAX)] {
            let mut made = 0;
            let seen = until_answered(|| {
                made += 1;
                Ok((u64::from(made > silent), made))
            });
            assert_eq!((seen.expect("no error"), made), (loads, loads), "{silent}");
        }
    }
}
