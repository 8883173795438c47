//! The cores but the first: a thread for each, from its start to its end.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use exos::{Core, Error};

use super::station::{Setup, Station};
use super::team::{Asks, Seat};

/// The threads. When this is dropped, however that comes, they are asked to end, and waited for.
pub(super) struct Crew {
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

impl Crew {
    /// Nobody yet, besides the first core.
    pub(super) fn new(seat: Seat) -> Crew {
        Crew {
            seat,
            threads: Vec::new(),
        }
    }

    /// Starts a thread for each, on its processor, and waits until all serve.
    ///
    /// # Errors
    ///
    /// One of them cannot begin.
    pub(super) fn start(
        &mut self,
        cores: impl IntoIterator<Item = (usize, Core, Setup)>,
    ) -> Result<(), Error> {
        let (ready, is_ready) = sync_channel(0);
        for (number, core, setup) in cores {
            let ready = ready.clone();
            let thread = std::thread::Builder::new().name(format!("core {number}"));
            let thread = thread
                .spawn(move || run(number, core, setup, ready))
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
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.seat.ask_others(Asks::STOP);
        let mut ended = Ok(());
        for (number, thread) in self.threads.drain(..) {
            let how = thread.join().unwrap_or_else(|_| {
                Err(
                    Error::new(format!("the thread on core {number} has panicked"))
                        .mend("report what it says above, it is an error of the program"),
                )
            });
            ended = ended.and(how.map_err(|e| Error {
                what: format!("on core {number}: {}", e.what),
                ..e
            }));
        }
        ended
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            eprintln!("exos serve: {e}");
        }
    }
}

fn run(number: usize, core: Core, setup: Setup, ready: SyncSender<()>) -> Result<(), Error> {
    let _leaving = Leaving(setup.seat.clone());
    exos_host::affinity::pin(number)?;
    let mut station = Station::open(core.start()?, setup)?;
    let _ = ready.send(());
    drop(ready); // Those who have begun keep nobody waiting for the others.
    while !station.heed().contains(Asks::STOP) {
        station.turn()?;
        station.wait(false, &[])?;
    }
    let ended = station.end(&[], |_, _| {});
    station.close();
    ended
}
