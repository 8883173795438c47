//! The loop: reports from the daemon, keys from the terminal, and frames to it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use exos::signals::Signals;
use exos_host::Error;
use exos_program::status::{Daemon, Status};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::app::{App, Next};
use crate::cli::TopArgs;
use crate::limits::KEY_PAUSE;
use crate::rates::rows;
use crate::{json, view};

/// Does what the command line says.
///
/// # Errors
/// There is no daemon, or the terminal is none.
pub fn run(args: &TopArgs) -> Result<ExitCode, Error> {
    let path = args.xokd.clone().unwrap_or_else(exos::via::socket_path);
    // Said on the terminal as it is, and not in the view.
    let first = Daemon::connect(&path)?;
    if args.json {
        return print_json(first, args.interval());
    }
    let signals = Signals::catch()?;
    let mut terminal = ratatui::try_init()
        .map_err(|e| Error::io("the terminal cannot be used", e).mend("--json needs none"))?;
    let ended = watch(&mut terminal, first, path, args.interval(), &signals);
    ratatui::restore();
    ended.map(|()| ExitCode::SUCCESS)
}

fn print_json(mut daemon: Daemon, interval: Duration) -> Result<ExitCode, Error> {
    let before = Status::parse(&daemon.report()?)?;
    std::thread::sleep(interval);
    let text = daemon.report()?;
    let now = Status::parse(&text)?;
    let report = serde_json::from_str(&text).expect("it was read just now");
    println!("{:#}", json::object(&report, &rows(Some(&before), &now)));
    Ok(ExitCode::SUCCESS)
}

fn watch(
    terminal: &mut DefaultTerminal,
    first: Daemon,
    path: PathBuf,
    interval: Duration,
    signals: &Signals,
) -> Result<(), Error> {
    let trouble = |e| Error::io("the terminal cannot be used", e);
    let (mut app, mut daemon) = (App::default(), Some(first));
    let mut due = Instant::now();
    while !signals.stop_requested() {
        let now = Instant::now();
        if now >= due {
            due = now + interval;
            if !app.paused {
                refresh(&mut app, &mut daemon, &path);
            }
            terminal
                .draw(|frame| view::draw(&app, frame))
                .map_err(trouble)?;
        }
        let pause = due.saturating_duration_since(Instant::now()).min(KEY_PAUSE);
        if !event::poll(pause).map_err(trouble)? {
            continue;
        }
        if let Event::Key(key) = event::read().map_err(trouble)?
            && key.kind == KeyEventKind::Press
            && app.handle_key(key) == Next::Quit
        {
            return Ok(());
        }
        // Whatever it was, a resize among it, is seen at once.
        terminal
            .draw(|frame| view::draw(&app, frame))
            .map_err(trouble)?;
    }
    Ok(())
}

/// Asks for a report, of a new connection where the old one has ended: the daemon may start again.
fn refresh(app: &mut App, daemon: &mut Option<Daemon>, path: &Path) {
    let connected = match daemon.take() {
        Some(daemon) => Ok(daemon),
        None => Daemon::connect(path),
    };
    let asked = connected.and_then(|mut it| {
        let status = Status::parse(&it.report()?)?;
        *daemon = Some(it);
        Ok(status)
    });
    match asked {
        Ok(status) => app.handle_status(status),
        Err(error) => app.handle_trouble(error.to_string()),
    }
}
