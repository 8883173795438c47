//! An emulator that runs: its threads, from opening the interfaces to the last statistics.
//!
//! Two threads: one forwards, one answers at the control socket, both in the namespace in the middle. The same in
//! a process of its own (`exos lab up`) and inside another program (`exos_lab::emulate`).

use super::control::Control;
use super::forward::Forwarder;
use super::interfaces::Dropped;
use super::reporter::Reporter;
use super::shared::Shared;
use super::statistics::{Emulation, Statistics};
use crate::settings::{Side, middle_namespace};
use exos_host::netns::NetNs;
use exos_host::{Error, Result, affinity, error::Context as _};
use std::num::NonZeroU64;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// An emulator of this process. Dropped, it stops.
#[derive(Debug)]
pub(crate) struct Running {
    reporter: Arc<Reporter>,
    forwarding: Option<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
    /// Closed to have the control thread end.
    quit: Option<UnixStream>,
}

impl Running {
    /// Starts forwarding in the middle of the lab of this name. When it returns, frames pass.
    pub(crate) fn start(lab: &str, emulation: &Emulation) -> Result<Self> {
        emulation.conditions.check()?;
        let middle = &NetNs::open(&middle_namespace(lab))?;
        let shared = Arc::new(Shared::new()?);
        let reporter = Arc::new(Reporter {
            shared: shared.clone(),
            emulation: emulation.clone(),
            started: Instant::now(),
            lab: lab.to_owned(),
            middle: middle.try_clone()?,
            dropped_before: Dropped::read(lab, middle),
        });
        let forwarding = forward(middle, emulation, shared)?;
        let mut running = Self {
            reporter,
            forwarding: Some(forwarding),
            control: None,
            quit: None,
        };
        running.answer(middle)?;
        Ok(running)
    }

    /// The numbers of now.
    pub(crate) fn statistics(&self) -> Result<Statistics> {
        self.reporter.statistics()
    }

    /// Stops; the last numbers.
    pub(crate) fn stop(&self) -> Result<Statistics> {
        self.reporter.stop()
    }

    /// True when it no longer forwards.
    pub(crate) fn is_over(&self) -> bool {
        let thread = self.forwarding.as_ref();
        thread.is_none_or(JoinHandle::is_finished)
    }

    /// Waits until somebody stops it or an interface goes.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.forwarding.take() {
            let _ = thread.join();
        }
    }

    fn answer(&mut self, middle: &NetNs) -> Result<()> {
        let control = Control::listen(middle, self.reporter.clone())?;
        let pair = UnixStream::pair().context(|| "cannot make a pair of sockets")?;
        let (ours, theirs) = pair;
        let thread = std::thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || control.serve(theirs.as_fd()));
        self.control = Some(thread.context(|| "cannot start a thread")?);
        self.quit = Some(ours);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.reporter.shared.stop();
        drop(self.quit.take());
        for thread in [self.forwarding.take(), self.control.take()] {
            let _ = thread.map(JoinHandle::join);
        }
    }
}

/// Starts the forwarding thread, and waits until it forwards or says why it cannot.
fn forward(middle: &NetNs, emulation: &Emulation, shared: Arc<Shared>) -> Result<JoinHandle<()>> {
    let (ready, opened) = channel();
    let middle = middle.try_clone()?;
    let emulation = emulation.clone();
    let thread = std::thread::Builder::new().name("emulator".to_owned());
    let thread = thread
        .spawn(move || forward_here(&middle, &emulation, &shared, &ready))
        .context(|| "cannot start a thread")?;
    match opened.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::new("the emulator's thread ended as it started")),
    }
}

fn forward_here(
    middle: &NetNs,
    emulation: &Emulation,
    shared: &Arc<Shared>,
    ready: &Sender<Result<()>>,
) {
    let mut forwarder = match prepare(middle, emulation, shared) {
        Ok(forwarder) => forwarder,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let end = forwarder.run().map_err(|e| e.to_string());
    shared.publish(forwarder.snapshot());
    // The interfaces are free again when others hear of the end.
    drop(forwarder);
    shared.end(end);
}

fn prepare(middle: &NetNs, emulation: &Emulation, shared: &Arc<Shared>) -> Result<Forwarder> {
    middle.enter()?;
    if let Some(core) = emulation.core {
        affinity::pin(core)?;
    }
    // The kernel may wake this thread no later than asked: by default it takes 50 us.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let interfaces = Side::BOTH.map(Side::middle_interface);
    Forwarder::open(
        interfaces,
        &emulation.conditions,
        emulation.seed,
        shared.clone(),
    )
}
