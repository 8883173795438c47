//! The cores but the first: a thread for each, and when all of them serve.

use std::sync::mpsc::{SyncSender, sync_channel};

use exos::Error;

use super::worker::{Asks, Threads};

/// To be said by a thread when it serves.
pub(in crate::serve) struct Ready(SyncSender<()>);

impl Ready {
    /// It serves. Those who have begun keep nobody waiting for the others.
    pub(in crate::serve) fn say(self) {
        let _ = self.0.send(());
    }
}

/// Starts a thread for each loop, on its processor, and waits until all serve.
///
/// # Errors
///
/// One of them cannot begin.
pub(in crate::serve) fn start<'scope, F>(
    threads: &mut Threads<'scope, '_>,
    loops: impl IntoIterator<Item = (usize, F)>,
) -> Result<(), Error>
where
    F: FnOnce(Ready) -> Result<(), Error> + Send + 'scope,
{
    let (ready, is_ready) = sync_channel(0);
    for (core, serve) in loops {
        let ready = Ready(ready.clone());
        threads.start(core, || serve(ready))?;
    }
    drop(ready);
    if (0..threads.count()).all(|_| is_ready.recv().is_ok()) {
        return Ok(());
    }
    let ended = threads.end(Asks::STOP.bits());
    Err(ended
        .err()
        .unwrap_or_else(|| Error::new("a core has not begun")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::super::worker::{Place, Worker};
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
            let mut threads = workers[0].threads(scope);
            let others = [(core, panics), (core, until_asked(workers[2].clone()))];
            start(&mut threads, others).unwrap();
            assert_eq!(workers[0].take_asks(), Asks::default());
            drop(panic);
            let mut asks = Asks::default();
            while !asks.contains(Asks::ONE_LEFT) {
                poll(&mut [PollFd::new(&workers[0].fd(), PollFlags::IN)], None).unwrap();
                asks = workers[0].take_asks();
            }
            let error = threads.end(Asks::STOP.bits()).unwrap_err().to_string();
            let says = format!("on core {core}: the thread on core {core} has panicked");
            assert!(error.contains(&says), "{error}");
            threads.end(Asks::STOP.bits()).expect("nobody is left");
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
                let mut threads = workers[0].threads(scope);
                let others = [(core, until_asked(workers[1].clone())), (core, fails)];
                start(&mut threads, others)
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
