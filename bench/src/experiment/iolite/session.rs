//! Two processes for each way, one way after the other.

use super::policies;
use super::round_trip::{Answering, Timing};
use super::stream::{Consuming, Producing};
use super::wakes::{Gathering, Trickling, Waking};
use super::way::{OURS, Way};
use super::{Cell, Job};
use crate::experiment::figure::{Figures, Goal};
use crate::stage::Stage;
use crate::stage::args::CommonArgs;
use crate::stage::helper::Helper;
use exos_host::Result;
use std::process::Command;

/// The length for which the goals of throughput are.
const LONG: u32 = 65536;

pub(super) struct Session {
    pub stage: Stage,
    pub seconds: f64,
    /// The seed of the next trace.
    traces: std::cell::Cell<u64>,
}

impl Session {
    /// Three runs of two seconds, unless other numbers were asked for.
    pub fn new(args: &CommonArgs) -> Result<Self> {
        let stage = Stage::new(args, args.runs(3))?;
        stage.note_other_load()?;
        let seconds = args.seconds(if args.quick { 1.0 } else { 2.0 });
        Ok(Self {
            stage,
            seconds,
            traces: std::cell::Cell::new(1),
        })
    }

    /// A run of a cell.
    pub fn measure(&self, cell: Cell, figures: &mut Figures) -> Result<()> {
        match cell {
            Cell::Stream(bytes, job) => self.streams(cell, bytes, job, figures),
            Cell::RoundTrip { is_polling } => self.round_trips(cell, is_polling, figures),
            Cell::Tools(work) => super::tools::measure(&self.stage, work, figures),
            Cell::Policies(part) => {
                let seed = self.traces.replace(self.traces.get() + 1);
                policies::measure(&cell.to_string(), seed, part, figures);
                Ok(())
            }
            Cell::Wakes => self.wakes(cell, figures),
        }
    }

    /// Has two processes measure: one that makes what they meet at, and then another.
    fn pair<A: Helper, B: Helper>(&self, one: &A, other: &B) -> Result<(A::Measured, B::Measured)> {
        let (stage, command) = (&self.stage, || Command::new(&self.stage.helpers));
        let one = stage.help(command(), stage.cores[0], one)?;
        let other = stage.begin(command(), stage.cores[1], other)?;
        let measured = one.measured(stage, self.seconds)?;
        Ok((measured, other.measured(stage, self.seconds)?))
    }

    fn streams(&self, cell: Cell, bytes: u32, job: Job, figures: &mut Figures) -> Result<()> {
        let mut rates = Vec::new();
        for way in Way::OF_STREAMS {
            let path = self.stage.new_file("iolite");
            let consuming = Consuming {
                way,
                bytes,
                job,
                path: path.clone(),
                seconds: self.seconds,
            };
            let (rate, ()) = self.pair(&consuming, &Producing { way, bytes, path })?;
            figures.add(format!("{cell}/{way}"), "MB/s", rate);
            rates.push((way, rate));
        }
        // The kernel's pipe of either size, whichever is faster.
        let of = |asked: &[Way]| {
            let asked = rates.iter().filter(|(way, _)| asked.contains(way));
            asked.map(|(_, rate)| *rate).fold(0.0, f64::max)
        };
        let ours = of(&[OURS]);
        for (name, peers, goal) in [
            ("by-pipe", &[Way::Pipe, Way::LargePipe][..], 5.0),
            ("by-vmsplice", &[Way::Vmsplice], 1.5),
        ] {
            let (name, ratio) = (format!("{cell}/{name}"), ours / of(peers));
            match bytes == LONG && job == Job::Sum {
                true => figures.add_goal(name, "", Goal::AtLeast(goal), ratio),
                false => figures.add(name, "", ratio),
            }
        }
        Ok(())
    }

    fn round_trips(&self, cell: Cell, is_polling: bool, figures: &mut Figures) -> Result<()> {
        let (mut ours, mut pipe) = (0.0, 0.0);
        for way in Way::OF_ROUND_TRIPS {
            let path = self.stage.new_file("iolite");
            let answering = Answering {
                way,
                is_polling,
                path: path.clone(),
            };
            let timing = Timing {
                way,
                is_polling,
                path,
                seconds: self.seconds,
            };
            let ((), ns) = self.pair(&answering, &timing)?;
            figures.add(format!("{cell}/{way}"), "ns", ns);
            match way {
                Way::Pipe => pipe = ns,
                Way::Ours { .. } => ours = ns,
                _ => {}
            }
        }
        let goal = Goal::AtMost(if is_polling { 0.2 } else { 1.0 });
        figures.add_goal(format!("{cell}/by-pipe"), "", goal, ours / pipe);
        Ok(())
    }

    fn wakes(&self, cell: Cell, figures: &mut Figures) -> Result<()> {
        let mut sleeps = Vec::new();
        for waking in Waking::ALL {
            let path = self.stage.new_file("iolite");
            let gathering = Gathering {
                waking,
                path: path.clone(),
                seconds: self.seconds,
            };
            let (gathered, ()) = self.pair(&gathering, &Trickling { waking, path })?;
            let of_messages = |count: u64| count as f64 / gathered.messages;
            let name = format!("{cell}/{waking}");
            sleeps.push(of_messages(gathered.sleeps));
            figures.add(name.clone(), "of messages", of_messages(gathered.sleeps));
            figures.add(format!("{name}/cpu"), "ns", of_messages(gathered.cpu_ns));
            if waking != Waking::Pipe {
                let false_wakes = of_messages(gathered.false_wakes);
                figures.add(format!("{name}/false"), "of messages", false_wakes);
            }
        }
        let [by_predicate, by_message, pipe] = sleeps[..] else {
            unreachable!("three ways");
        };
        let by = |other: f64| by_predicate / other;
        figures.add(format!("{cell}/ratio-of-message"), "", by(by_message));
        figures.add(format!("{cell}/ratio-of-pipe"), "", by(pipe));
        Ok(())
    }
}
