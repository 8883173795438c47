//! The cores but the first: a thread for each, from its start to its end.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use exos::Error;
use exos_program::workers::Thread;

use super::worker::{Asks, Worker};

/// The threads. When this is dropped, however that comes, they are asked to end, and waited for.
pub(in crate::serve) struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    /// The first core.
    first: Worker,
    threads: Vec<Thread<'scope, ()>>,
}

/// Tells the first core that this thread ends, in order or not.
struct Leaving(Worker);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// To be said by a thread when it serves.
pub(in crate::serve) struct Ready(SyncSender<()>);

impl Ready {
    /// It serves. Those who have begun keep nobody waiting for the others.
    pub(in crate::serve) fn say(self) {
        let _ = self.0.send(());
    }
}

impl<'scope, 'env> Threads<'scope, 'env> {
    /// Nobody yet, besides the first core.
    pub(in crate::serve) fn new(
        scope: &'scope Scope<'scope, 'env>,
        first: Worker,
    ) -> Threads<'scope, 'env> {
        Threads {
            scope,
            first,
            threads: Vec::new(),
        }
    }

    /// Starts a thread for each loop, on its processor, and waits until all serve.
    ///
    /// # Errors
    ///
    /// One of them cannot begin.
    pub(in crate::serve) fn start<F>(
        &mut self,
        loops: impl IntoIterator<Item = (usize, F)>,
    ) -> Result<(), Error>
    where
        F: FnOnce(Ready) -> Result<(), Error> + Send + 'scope,
    {
        let (ready, is_ready) = sync_channel(0);
        for (number, serve) in loops {
            let (ready, leaving) = (Ready(ready.clone()), Leaving(self.first.clone()));
            self.threads.push(Thread::start(self.scope, number, || {
                let _leaving = leaving;
                serve(ready)
            })?);
        }
        drop(ready);
        self.await_all(&is_ready)
    }

    fn await_all(&mut self, is_ready: &Receiver<()>) -> Result<(), Error> {
        match self.threads.iter().all(|_| is_ready.recv().is_ok()) {
            true => Ok(()),
            false => Err(self
                .end()
                .err()
                .unwrap_or_else(|| Error::new("a core has not begun"))),
        }
    }

    /// Asks all to end in order, and waits for them.
    ///
    /// # Errors
    ///
    /// That of the first that has ended with one.
    pub(in crate::serve) fn end(&mut self) -> Result<(), Error> {
        self.first.ask_others(Asks::STOP);
        let ended = self.threads.drain(..).map(Thread::join);
        ended.fold(Ok(()), Result::and)
    }
}

impl Drop for Threads<'_, '_> {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            exos_program::warn!("exos serve: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::super::worker::Place;
    use super::*;

    type Serve = Box<dyn FnOnce(Ready) -> Result<(), Error> + Send>;

    fn workers() -> (usize, Vec<Worker>) {
        let core = exos_host::affinity::allowed().unwrap()[0];
        let at = |_| Place {
            core,
            interface: None,
        };
        (core, Worker::make((0..3).map(at)).unwrap())
    }

    /// A loop that serves until it is asked to end.
    fn until_asked(worker: Worker) -> Serve {
        Box::new(move |ready| {
            ready.say();
            while !worker.take_asks().contains(Asks::STOP) {
                poll(&mut [PollFd::new(&worker.fd(), PollFlags::IN)], None).unwrap();
            }
            Ok(())
        })
    }

    /// The first core is woken, ends the others, which end in order, and the error names the core that has panicked.
    #[test]
    fn a_core_that_panics_ends_the_program_and_not_the_others_work() {
        let (core, workers) = workers();
        let (panic, now) = channel::<()>();
        let panics: Serve = Box::new(move |ready| {
            ready.say();
            let _ = now.recv();
            panic!("of this test");
        });
        thread::scope(|scope| {
            let mut threads = Threads::new(scope, workers[0].clone());
            threads
                .start([(core, panics), (core, until_asked(workers[2].clone()))])
                .unwrap();
            assert_eq!(workers[0].take_asks(), Asks::default());
            drop(panic);
            let mut asks = Asks::default();
            while !asks.contains(Asks::ONE_LEFT) {
                poll(&mut [PollFd::new(&workers[0].fd(), PollFlags::IN)], None).unwrap();
                asks = workers[0].take_asks();
            }
            let error = threads.end().unwrap_err().to_string();
            let says = format!("on core {core}: the thread on core {core} has panicked");
            assert!(error.contains(&says), "{error}");
            threads.end().expect("nobody is left");
        });
    }

    /// Anyone who cannot begin keeps nobody waiting.
    #[test]
    fn a_core_that_cannot_begin_is_the_error_of_the_start() {
        let (core, workers) = workers();
        for panics in [false, true] {
            let fails: Serve = Box::new(move |_| {
                std::thread::sleep(Duration::from_millis(10));
                assert!(!panics, "of this test");
                Err(Error::new("no queue for it"))
            });
            let error = thread::scope(|scope| {
                let mut threads = Threads::new(scope, workers[0].clone());
                threads.start([(core, until_asked(workers[1].clone())), (core, fails)])
            });
            let error = error.unwrap_err().to_string();
            let says = if panics {
                "has panicked"
            } else {
                "no queue for it"
            };
            assert!(error.contains(says), "{error}");
        }
    }
}
