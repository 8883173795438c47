//! What a load is to do, as far as the command line says it: made before anything is opened, so that mistakes show first.

use std::io::IsTerminal as _;
use std::time::Duration;

use exos::{Error, clock};

use crate::driver::Driver;
use crate::driver::replay::Extent;
use crate::engine::{Engine, Shape};
use crate::moment;
use crate::options::{Idle, LoadArgs};
use crate::report::{Effort, Generator, Live};
use crate::schedule::{Beat, Phase, Schedule};
use crate::target::Target;

use super::course::Course;

/// What is to be done.
pub(crate) struct Setup {
    pub(super) target: Target,
    driver: Box<dyn Driver>,
    duration: Duration,
    phases: Vec<Phase>,
    /// What there is of a log.
    log: Option<Extent>,
    /// The times of a log, and how fast they go by.
    beats: Option<(Vec<Beat>, f64)>,
    idle: Idle,
}

impl Setup {
    pub(super) fn make(args: &LoadArgs) -> Result<Self, Error> {
        let duration = args.duration()?;
        let plan = args.plan(duration)?;
        for note in &plan.notes {
            eprintln!("exos load: {note}");
        }
        let target = Target::find(&plan.url)?;
        let phases = if plan.beats.is_none() && args.is_open() {
            args.phases(duration)?
        } else {
            Vec::new()
        };
        Ok(Self {
            target,
            driver: plan.driver,
            log: plan.log,
            beats: plan.beats,
            duration,
            phases,
            idle: args.idle(),
        })
    }

    /// The same with another driver.
    pub(super) fn with(self, driver: Box<dyn Driver>) -> Self {
        Self { driver, ..self }
    }

    /// Begins it, now or when it was said.
    pub(super) fn begin<Id: Copy>(self, args: &LoadArgs) -> Result<Course<Id>, Error> {
        let (now, unix_now) = (clock::now(), moment::unix_now());
        let start = args
            .start_at
            .map_or(now, |at| moment::of_unix(now, unix_now, at));
        let time: Duration = self.phases.iter().map(|phase| phase.time).sum();
        let lasts = !self.phases.is_empty() && args.requests.is_none();
        let lasts_until = lasts.then_some(start + time.min(self.duration));
        let shape = match self.beats {
            Some((beats, speed)) => Shape::Open(Schedule::replay(beats, speed, start)),
            None if args.is_open() => {
                let (arrivals, seed) = (args.arrivals(), args.seed);
                Shape::Open(Schedule::new(self.phases, arrivals, seed, start))
            }
            None => Shape::Closed,
        };
        let generator = Generator {
            url: self.target.url.to_string(),
            address: self.target.address.to_string(),
            started_unix_secs: unix_now + (start - now).as_secs_f64(),
            parameters: args.parameters(self.duration),
            log: self.log,
            responses: 0,
            busy_share: 0.0,
            processor_secs: 0.0,
        };
        let measured_from = start + args.warm_up;
        let style = args.show.style(std::io::stderr().is_terminal());
        Ok(Course {
            engine: Engine::new(args.behaviour(), shape, self.driver, start, measured_from),
            until: start + self.duration,
            lasts_until,
            effort: Effort::start(start),
            idle: self.idle,
            generator,
            live: Live::start(style, start, self.duration)?,
        })
    }
}
