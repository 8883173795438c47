//! The cores but the first: a thread for each, from its start to its end.

use std::thread::Scope;

use exos::{Core, Error};
use exos_program::Idle;
use exos_program::workers::Thread;

use super::core_loop::CoreLoop;
use super::table::Shared;
use super::worker::{Asks, Worker};
use crate::program::links::Links;

/// What the thread of a core begins with.
pub struct OtherCore {
    /// Its share of each link.
    pub links: Vec<Core>,
    pub idle: Idle,
    pub worker: Worker,
}

/// The threads. When this is dropped, however that comes, they are asked to end, and waited for.
pub struct Threads<'scope> {
    /// The first core.
    first: Worker,
    threads: Vec<Thread<'scope, ()>>,
}

/// Tells the first core that this thread ends, in order or not.
struct Leaving(Worker);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.tell_first(Asks::ONE_LEFT);
    }
}

impl<'scope> Threads<'scope> {
    /// Starts a thread for each, on its processor.
    ///
    /// # Errors
    ///
    /// There are too many threads already.
    pub fn start(
        scope: &'scope Scope<'scope, '_>,
        first: &Worker,
        others: Vec<OtherCore>,
        shared: &'scope Shared,
    ) -> Result<Self, Error> {
        let mut all = Self {
            first: first.clone(),
            threads: Vec::new(),
        };
        for other in others {
            let core = other.worker.core();
            let leaving = Leaving(other.worker.clone());
            let work = move || {
                let _leaving = leaving;
                run(other, shared)
            };
            all.threads.push(Thread::start(scope, core, work)?);
        }
        Ok(all)
    }

    /// Asks all to end so, and waits for them.
    ///
    /// # Errors
    ///
    /// That of the first that has ended with one.
    pub fn end(&mut self, how: Asks) -> Result<(), Error> {
        self.first.ask_others(how);
        let ended = self.threads.drain(..).map(Thread::join);
        ended.fold(Ok(()), Result::and)
    }
}

impl Drop for Threads<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.end(Asks::STOP) {
            exos_program::warn!("exos forward: {error}");
        }
    }
}

/// A core's loop, until it is asked to end.
fn run(other: OtherCore, shared: &Shared) -> Result<(), Error> {
    let OtherCore {
        links,
        idle,
        worker,
    } = other;
    let links: Vec<_> = links
        .into_iter()
        .map(Core::start)
        .collect::<Result<_, _>>()?;
    let mut core = CoreLoop::new(Links::new(links), idle, worker.clone());
    let ended = turns(&mut core, shared);
    worker.show(core.row());
    ended
}

fn turns(core: &mut CoreLoop, shared: &Shared) -> Result<(), Error> {
    loop {
        let asks = core.worker.take_asks();
        if asks.contains(Asks::SHOW) {
            core.worker.show(core.row());
        }
        if asks.contains(Asks::HAND_OVER) {
            return core.forward_the_last(shared);
        }
        if asks.contains(Asks::STOP) {
            return Ok(());
        }
        core.turn(shared, None, |core, table| {
            // The first core tells who does not answer.
            core.seek_servers(table);
        });
        core.links.send()?;
        core.wait(None, &[])?;
    }
}
