//! The daemon: who is on its interfaces, how much each sends and receives, and what is dropped and why.
//!
//! Its report, asked for once in a while, is the only source ([`exos_program::status`]); rates are differences of two of them
//! ([`rates`]). [`app`] is what reports change, [`view`] what is seen; both perform no I/O, and are tested without a terminal.

pub mod app;
pub mod json;
pub mod rates;
pub mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use exos_host::Error;
use exos_program::status::{Daemon, Status};
use exos_program::with_options;
use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;
use serde_json::Value;

use crate::keys::Next;
use crate::watch::Watch;
use app::App;

/// A daemon that is watched.
pub(crate) struct Watched {
    app: App,
    daemon: Option<Daemon>,
    path: PathBuf,
}

impl Watched {
    /// Connects.
    ///
    /// # Errors
    ///
    /// There is no daemon.
    pub(crate) fn new(path: PathBuf) -> Result<Self, Error> {
        let daemon = Some(Daemon::connect(&path)?);
        let app = App::default();
        Ok(Self { app, daemon, path })
    }
}

impl Watch for Watched {
    /// Of a new connection where the old one has ended: the daemon may start again.
    fn refresh(&mut self) {
        let connected = match self.daemon.take() {
            Some(daemon) => Ok(daemon),
            None => Daemon::connect(&self.path),
        };
        let asked = connected.and_then(|mut it| {
            let status = Status::parse(&it.report()?)?;
            self.daemon = Some(it);
            Ok(status)
        });
        match asked {
            Ok(status) => self.app.handle_status(status),
            Err(error) => self.app.handle_trouble(with_options(error).to_string()),
        }
    }

    fn is_paused(&self) -> bool {
        self.app.programs.keys.paused
    }

    fn handle_key(&mut self, key: KeyEvent) -> Next {
        self.app.programs.handle_key(key)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(&self.app, frame);
    }
}

/// A report, with rates beside it that are of so long a time.
///
/// # Errors
///
/// There is no daemon.
pub(crate) fn json_of(path: &Path, interval: Duration) -> Result<Value, Error> {
    let mut daemon = Daemon::connect(path)?;
    let before = Status::parse(&daemon.report()?)?;
    std::thread::sleep(interval);
    let text = daemon.report()?;
    let now = Status::parse(&text)?;
    let report = serde_json::from_str(&text).expect("it was read just now");
    let report = json::Report::new(report, &rates::rows(Some(&before), &now));
    Ok(serde_json::to_value(report).expect("numbers and texts under names"))
}
