//! Packets of programs that attach directly: each one's own copies, in the order in which they were made.

use std::ops::ControlFlow;
use std::rc::Rc;

use exos::watch::{Watcher, watchable};
use exos_host::Error;

use super::clock::wall_ahead_ns;
use crate::cli::DumpArgs;
use crate::limits::BATCH;
use crate::output::Output;
use crate::packet::{Origin, Packet};

/// Programs that are watched.
pub(super) struct Programs {
    interface: Option<String>,
    pid: Option<u32>,
    filter: String,
    snaplen: u32,
    all: Vec<Program>,
    /// What those had lost that have ended.
    lost_before: u64,
    bytes: Vec<u8>,
}

struct Program {
    watcher: Watcher,
    interface: Rc<str>,
    name: Rc<str>,
}

impl Programs {
    pub(super) fn new(args: &DumpArgs) -> Self {
        Self {
            interface: args.interface.clone(),
            pid: args.pid,
            filter: args.filter_text(),
            snaplen: args.snaplen(),
            all: Vec::new(),
            lost_before: 0,
            bytes: Vec::new(),
        }
    }

    /// Lets go of those that have ended and whose packets are all taken, and looks for new ones.
    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let mut kept = Vec::new();
        for mut program in std::mem::take(&mut self.all) {
            let has_ended = program.watcher.has_ended();
            if has_ended && program.watcher.next_time_ns()?.is_none() {
                self.lost_before += program.watcher.lost();
            } else {
                kept.push(program);
            }
        }
        self.all = kept;
        for found in watchable(self.pid) {
            let is_meant = self
                .interface
                .as_ref()
                .is_none_or(|i| *i == found.interface);
            let is_watched = |program: &Program| program.watcher.of().id == found.id;
            if is_meant && !self.all.iter().any(is_watched) {
                let interface = Rc::from(found.interface.as_str());
                let name = Rc::from(format!("{}[{}]", found.program, found.pid));
                let watcher = found.watch(&self.filter, self.snaplen)?;
                self.all.push(Program {
                    watcher,
                    interface,
                    name,
                });
            }
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Which, for a person.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |program: &Program| format!("{} on {}", program.name, program.interface);
        self.all.iter().map(name).collect()
    }

    /// Puts out what the rings hold, the oldest first; true when there may be more.
    pub(super) fn take(&mut self, output: &mut Output) -> Result<ControlFlow<(), bool>, Error> {
        let wall_ns = wall_ahead_ns();
        for _ in 0..BATCH {
            let mut first: Option<(u64, &mut Program)> = None;
            for program in &mut self.all {
                if let Some(time) = program.watcher.next_time_ns()?
                    && first.as_ref().is_none_or(|(earliest, _)| time < *earliest)
                {
                    first = Some((time, program));
                }
            }
            let Some((_, program)) = first else {
                return Ok(ControlFlow::Continue(false));
            };
            let Some(record) = program.watcher.take(&mut self.bytes)? else {
                continue;
            };
            let packet = Packet {
                time_ns: record.time_ns.saturating_add(wall_ns),
                bytes: &self.bytes,
                len: record.length.max(self.bytes.len()),
                origin: Origin {
                    interface: Some(Rc::clone(&program.interface)),
                    direction: Some(record.direction),
                    program: Some(Rc::clone(&program.name)),
                    ..Origin::default()
                },
            };
            if output.put(&packet)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(true))
    }

    /// What the rings had no room for: up to the last packet that was put out, or up to now.
    pub(super) fn lost(&self, up_to_last: bool) -> u64 {
        let watchers = self.all.iter().map(|program| &program.watcher);
        let lost = watchers.map(|watcher| match up_to_last {
            true => watcher.lost_before(),
            false => watcher.lost(),
        });
        self.lost_before + lost.sum::<u64>()
    }
}
