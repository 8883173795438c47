//! A core but the first: what its thread begins with, and its loop.

use exos::{Core, Error};
use exos_program::Idle;

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

impl OtherCore {
    /// Its loop, until it is asked to end.
    pub fn run(self, shared: &Shared) -> Result<(), Error> {
        let links = self.links.into_iter().map(Core::start);
        let links = Links::new(links.collect::<Result<_, _>>()?);
        let mut core = CoreLoop::new(links, self.idle, self.worker.clone());
        let ended = turns(&mut core, shared);
        self.worker.show(core.row());
        ended
    }
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
