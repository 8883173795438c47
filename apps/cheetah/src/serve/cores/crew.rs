//! The cores but the first: a thread for each, from its start to its end.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use exos::Error;
use exos_program::cores;

use crate::serve::team::{Asks, Seat};

/// The threads. When this is dropped, however that comes, they are asked to end, and waited for.
pub(in crate::serve) struct Crew {
    /// The first core's seat.
    seat: Seat,
    threads: Vec<(usize, JoinHandle<Result<(), Error>>)>,
}

/// Tells the first core that this thread ends, in order or not.
struct Leaving(Seat);

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

impl Crew {
    /// Nobody yet, besides the first core.
    pub(in crate::serve) fn new(seat: Seat) -> Crew {
        Crew {
            seat,
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
        F: FnOnce(Ready) -> Result<(), Error> + Send + 'static,
    {
        let (ready, is_ready) = sync_channel(0);
        for (number, serve) in loops {
            let (ready, leaving) = (Ready(ready.clone()), Leaving(self.seat.clone()));
            let thread = std::thread::Builder::new().name(format!("core {number}"));
            let thread = thread
                .spawn(move || {
                    let _leaving = leaving;
                    exos_host::affinity::pin(number)?;
                    serve(ready)
                })
                .map_err(|e| Error::io("cannot start a thread", e))?;
            self.threads.push((number, thread));
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
        self.seat.ask_others(Asks::STOP);
        let mut ended = Ok(());
        for (number, thread) in self.threads.drain(..) {
            ended = ended.and(cores::ended(number, thread.join()));
        }
        ended
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            exos_program::warn!("exos serve: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    type Serve = Box<dyn FnOnce(Ready) -> Result<(), Error> + Send>;

    fn seats() -> (usize, Vec<Seat>) {
        let core = exos_host::affinity::allowed().unwrap()[0];
        (core, Seat::make(&[core; 3]).unwrap())
    }

    /// A loop that serves until it is asked to end.
    fn until_asked(seat: Seat) -> Serve {
        Box::new(move |ready| {
            ready.say();
            while !seat.take_asks().contains(Asks::STOP) {
                poll(&mut [PollFd::new(&seat.fd(), PollFlags::IN)], None).unwrap();
            }
            Ok(())
        })
    }

    /// The first core is woken, ends the others, which end in order, and the error names the core that has panicked.
    #[test]
    fn a_core_that_panics_ends_the_program_and_not_the_others_work() {
        let (core, seats) = seats();
        let mut crew = Crew::new(seats[0].clone());
        let (panic, now) = channel::<()>();
        let panics: Serve = Box::new(move |ready| {
            ready.say();
            let _ = now.recv();
            panic!("of this test");
        });
        crew.start([(core, panics), (core, until_asked(seats[2].clone()))])
            .unwrap();
        assert_eq!(seats[0].take_asks(), Asks::default());
        drop(panic);
        let mut asks = Asks::default();
        while !asks.contains(Asks::ONE_LEFT) {
            poll(&mut [PollFd::new(&seats[0].fd(), PollFlags::IN)], None).unwrap();
            asks = seats[0].take_asks();
        }
        let error = crew.end().unwrap_err().to_string();
        let says = format!("on core {core}: the thread on core {core} has panicked");
        assert!(error.contains(&says), "{error}");
        crew.end().expect("nobody is left");
    }

    /// Anyone who cannot begin keeps nobody waiting.
    #[test]
    fn a_core_that_cannot_begin_is_the_error_of_the_start() {
        let (core, seats) = seats();
        for panics in [false, true] {
            let mut crew = Crew::new(seats[0].clone());
            let fails: Serve = Box::new(move |_| {
                std::thread::sleep(Duration::from_millis(10));
                assert!(!panics, "of this test");
                Err(Error::new("no queue for it"))
            });
            let error = crew.start([(core, until_asked(seats[1].clone())), (core, fails)]);
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
