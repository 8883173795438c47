//! A forwarder: how many flows there are, what goes through each listener and server, and what does not and why.
//!
//! What it answers over its control socket is the only source ([`status`]); rates are differences of two answers ([`rates`]).
//! [`app`] is what reports change, [`view`] what is seen; both perform no I/O, and are tested without a terminal.

pub mod app;
pub mod rates;
pub mod status;
pub mod view;

use std::path::{Path, PathBuf};
use std::time::Duration;

use exos_host::Error;
use exos_program::control;
use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;
use schemars::JsonSchema;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::keys::Next;
use crate::limits::ANSWER_TIME;
use crate::watch::Watch;
use app::App;
use rates::Row;
use status::Status;

/// A forwarder that is watched.
pub(crate) struct Watched {
    app: App,
    path: PathBuf,
}

impl Watched {
    /// One that answers.
    ///
    /// # Errors
    ///
    /// It does not.
    pub(crate) fn new(path: PathBuf) -> Result<Self, Error> {
        let mut app = App::default();
        app.handle_status(ask(&path)?.1);
        Ok(Self { app, path })
    }
}

impl Watch for Watched {
    fn refresh(&mut self) {
        match ask(&self.path) {
            Ok((_, status)) => self.app.handle_status(status),
            Err(error) => self.app.handle_trouble(error.to_string()),
        }
    }

    fn is_paused(&self) -> bool {
        self.app.servers.keys.paused
    }

    fn handle_key(&mut self, key: KeyEvent) -> Next {
        self.app.servers.handle_key(key)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        view::draw(&self.app, frame);
    }
}

/// The status, as the forwarder wrote it and as values.
fn ask(path: &Path) -> Result<(Value, Status), Error> {
    let line = control::ask(path, &json!({ "request": "status" }), ANSWER_TIME)?;
    let mut answer = control::answer(&line)??;
    let whole = answer["status"].take();
    let status = Status::deserialize(&whole).map_err(|e| {
        Error::new(format!("this is no status: {e}"))
            .mend("use a program of the forwarder's version")
    })?;
    Ok((whole, status))
}

/// A status, with rates beside it that are of so long a time.
///
/// # Errors
///
/// No forwarder answers there.
pub(crate) fn json_of(path: &Path, interval: Duration) -> Result<Value, Error> {
    let (_, before) = ask(path)?;
    std::thread::sleep(interval);
    let (whole, now) = ask(path)?;
    let rows = |rows: Vec<Row>| rows.iter().map(Rates::of).collect::<Vec<_>>();
    let report = Report {
        schema: "exos.top.forward/1",
        status: whole,
        listeners: rows(rates::listeners(Some(&before), &now)),
        servers: rows(rates::servers(Some(&before), &now)),
    };
    Ok(serde_json::to_value(report).expect("numbers and texts under names"))
}

/// What `exos top --forward --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Report {
    /// `"exos.top.forward/1"`.
    schema: &'static str,
    /// The forwarder's status, as [it wrote it](#exos-forward---json).
    status: Value,
    /// Its listeners, in the order of the status.
    listeners: Vec<Rates>,
    /// Its servers, in the order of the status.
    servers: Vec<Rates>,
}

/// A listener or a server, since the status before, which was asked for `--interval` earlier. Rates are `null` when there is
/// nothing to compare with.
#[derive(Serialize, JsonSchema)]
struct Rates {
    /// Which: `"tcp:ADDRESS:PORT"`.
    name: String,
    /// Flows begun.
    flows_begun_per_sec: Option<f64>,
    /// Flows refused.
    flows_refused_per_sec: Option<f64>,
    /// Packets sent on to servers.
    packets_to_servers_per_sec: Option<f64>,
    /// Their bits, from the IP header on.
    bits_to_servers_per_sec: Option<f64>,
    /// Packets sent on to clients.
    packets_to_clients_per_sec: Option<f64>,
    /// Their bits, from the IP header on.
    bits_to_clients_per_sec: Option<f64>,
}

impl Rates {
    fn of(row: &Row) -> Self {
        let rates = row.rates.as_ref();
        Self {
            name: row.name.clone(),
            flows_begun_per_sec: rates.map(|r| r.begun),
            flows_refused_per_sec: rates.map(|r| r.refused),
            packets_to_servers_per_sec: rates.map(|r| r.packets_in),
            bits_to_servers_per_sec: rates.map(|r| r.bits_in),
            packets_to_clients_per_sec: rates.map(|r| r.packets_out),
            bits_to_clients_per_sec: rates.map(|r| r.bits_out),
        }
    }
}
