//! The threads of a load on several cores. Each is on its core from its begin to its end, and what it has seen is given when
//! all have ended.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{Scope, scope};

use exos::Error;
use exos_program::workers::Thread;

use crate::options::LoadArgs;
use crate::report::Results;

use super::others::{Carrier, Others};
use super::setup::Setup;
use super::worker::Worker;
use super::{on_packets, on_sockets, probe};

/// What became of a core's part; nothing of a load that ended before it began.
type Done = Result<Option<Results>, Error>;

/// Loads from several cores, the first of which leads.
///
/// # Errors
///
/// That of the first core that ended with one.
pub(super) fn load(
    args: &LoadArgs,
    setup: &Setup,
    workers: Vec<Worker<'_>>,
) -> Result<Results, Error> {
    scope(|scope| {
        let mut workers = workers.into_iter();
        let first = workers.next().expect("there is a first core");
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for worker in workers {
            let (sender, receiver) = channel();
            senders.push(sender);
            let work = move |worker: Worker<'_>| {
                args.user.give_up_here()?;
                let is_of_interface = worker.place.interface.is_some();
                match follow(args, setup, worker, &receiver) {
                    // It says its interface.
                    Err(error) if is_of_interface => Ok(Err(error)),
                    done => done.map(Ok),
                }
            };
            threads.push(start(scope, worker, work)?);
        }
        let others = Others(senders);
        // What is wrong with a load is no matter of a core.
        let work = move |first| Ok(lead(args, setup, first, others));
        let lead = start(scope, first, work)?;
        // It only waits from here on; the first core's thread gives up its own when it has the link.
        let given_up = args.user.give_up_here();
        let mut parts = vec![lead.join().and_then(|done| done)];
        let join = |thread: Thread<'_, Done>| thread.join().and_then(|done| done);
        parts.extend(threads.into_iter().map(join));
        given_up?;
        // The first core only says that it has not begun where another says why.
        let parts = parts.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let parts = parts.into_iter().collect::<Option<Vec<_>>>();
        parts.map(Results::of_cores).ok_or_else(stopped)
    })
}

/// Why there are no results where nothing went wrong.
pub(super) fn stopped() -> Error {
    Error::new(probe::STOPPED)
}

/// A thread on the worker's core.
fn start<'scope, 'a: 'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    worker: Worker<'a>,
    work: impl FnOnce(Worker<'a>) -> Result<T, Error> + Send + 'scope,
) -> Result<Thread<'scope, T>, Error> {
    let core = worker.place.core.expect("one of several is on a core");
    Thread::start(scope, core, || work(worker))
}

/// Sets the load up, and makes the first core's part of it; none when it has ended before it began.
pub(super) fn lead(args: &LoadArgs, setup: &Setup, worker: Worker<'_>, others: Others) -> Done {
    if args.sockets {
        on_sockets::lead(args, setup, worker, others)
    } else {
        on_packets::lead(args, setup, worker, others)
    }
}

/// Makes another core's part, by what the first core says.
fn follow(args: &LoadArgs, setup: &Setup, worker: Worker<'_>, carrier: &Receiver<Carrier>) -> Done {
    match carrier.recv() {
        Ok(Carrier::Queue(core)) => on_packets::follow(args, setup, worker, *core),
        Ok(Carrier::Sockets) => on_sockets::follow(args, setup, worker),
        // The first core has set nothing up, and says why.
        Err(_) => Ok(None),
    }
}
