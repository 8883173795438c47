//! The loop: reports, keys from the terminal, and frames to it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use exos::signals::Signals;
use exos_host::Error;
use exos_program::control::FORWARD_SOCKET;
use exos_program::message;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::cli::TopArgs;
use crate::keys::Next;
use crate::limits::KEY_PAUSE;
use crate::watch::Watch;
use crate::{daemon, forward};

/// Does what the command line says.
///
/// # Errors
/// Nobody is there to be watched, or the terminal is none.
pub fn run(args: &TopArgs) -> Result<ExitCode, Error> {
    let daemon = args.xokd.clone().unwrap_or_else(exos::via::socket_path);
    // With nothing named, no matter who is there.
    let is_one = || {
        args.xokd.is_none()
            && !exos::via::is_there(&daemon)
            && std::path::Path::new(FORWARD_SOCKET).exists()
    };
    let forwarder = args.forward.clone();
    let forwarder = forwarder.or_else(|| is_one().then(|| FORWARD_SOCKET.into()));
    // What goes wrong at first is said on the terminal as it is, and not in the view.
    match forwarder {
        Some(path) if args.json => print(&forward::json_of(&path, args.interval())?),
        Some(path) => on_terminal(forward::Watched::new(path)?, args.interval()),
        None if args.json => print(&daemon::json_of(&daemon, args.interval())?),
        None => on_terminal(daemon::Watched::new(daemon)?, args.interval()),
    }
}

fn print(object: &serde_json::Value) -> Result<ExitCode, Error> {
    message::results(&format!("{object:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn on_terminal(mut watched: impl Watch, interval: Duration) -> Result<ExitCode, Error> {
    let signals = Signals::catch()?;
    let mut terminal = ratatui::try_init()
        .map_err(|e| Error::io("the terminal cannot be used", e).mend("--json needs none"))?;
    let ended = watch(&mut terminal, &mut watched, interval, &signals);
    ratatui::restore();
    ended.map(|()| ExitCode::SUCCESS)
}

fn watch(
    terminal: &mut DefaultTerminal,
    watched: &mut impl Watch,
    interval: Duration,
    signals: &Signals,
) -> Result<(), Error> {
    let trouble = |e| Error::io("the terminal cannot be used", e);
    let mut due = Instant::now();
    while !signals.stop_requested() {
        let now = Instant::now();
        if now >= due {
            due = now + interval;
            if !watched.is_paused() {
                watched.refresh();
            }
            terminal
                .draw(|frame| watched.draw(frame))
                .map_err(trouble)?;
        }
        let pause = due.saturating_duration_since(Instant::now()).min(KEY_PAUSE);
        if !event::poll(pause).map_err(trouble)? {
            continue;
        }
        if let Event::Key(key) = event::read().map_err(trouble)?
            && key.kind == KeyEventKind::Press
            && watched.handle_key(key) == Next::Quit
        {
            return Ok(());
        }
        // Whatever it was, a resize among it, is seen at once.
        terminal
            .draw(|frame| watched.draw(frame))
            .map_err(trouble)?;
    }
    Ok(())
}
