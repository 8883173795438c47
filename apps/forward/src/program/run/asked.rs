//! What others ask of a forwarder that runs: over the control socket, and over HTTP for its metrics.

use super::program::Program;
use crate::limits::CONTROL_EVERY;
use crate::program::control::{self, Fields, Kind, Request};
use crate::program::cores::table::Shared;
use crate::program::{lent, statistics};
use crate::settings::setup::source;

impl Program {
    /// Hears the control socket, and who scrapes. Flows have been kept by now, so that no place that is given out has any in the file.
    pub(super) fn serve_askers(&mut self, shared: &Shared) {
        let now = self.core.links.now();
        if self.control_due > now {
            return;
        }
        self.control_due = now + CONTROL_EVERY;
        if let Some(mut control) = self.control.take() {
            control.serve(|line| self.respond(shared, line));
            self.control = Some(control);
        }
        if let Some(mut exporter) = self.exporter.take() {
            exporter.serve(|| {
                let rows = self.rows();
                let status = self.change(shared, |program, table| {
                    serde_json::to_value(statistics::Report::of(program.parts(table, &rows)))
                });
                control::metrics_text(&status.expect("numbers and texts under names"))
            });
            self.exporter = Some(exporter);
        }
    }

    /// The line that answers this one.
    fn respond(&mut self, shared: &Shared, line: &[u8]) -> String {
        let request = match Request::parse(line) {
            Ok(request) => request,
            Err(error) => return control::refuse(error),
        };
        match request.request {
            Kind::Status => {
                let rows = self.rows();
                self.change(shared, |program, table| {
                    let status = Some(statistics::Report::of(program.parts(table, &rows)));
                    control::answer(Ok(Fields {
                        status,
                        ..Fields::default()
                    }))
                })
            }
            Kind::HandOver => {
                let done = self.hand_over();
                control::answer(done.map(|()| Fields {
                    hands_over: Some(true),
                    ..Fields::default()
                }))
            }
            Kind::Reload => {
                let said = self.reload(shared).map_err(|e| e.to_string());
                control::answer(said.map(|said| Fields {
                    reloaded: Some(said),
                    ..Fields::default()
                }))
            }
            _ => {
                let changed = self.change(shared, |program, table| {
                    let stacks = program.core.links.stacks();
                    let source = |ip, reach| source(&stacks, ip, reach).map_err(|e| e.to_string());
                    control::apply(&mut table.forwarder, &request, &source)
                });
                control::answer(changed.map(|listeners| Fields {
                    listeners: Some(listeners),
                    ..Fields::default()
                }))
            }
        }
    }

    /// Ends after this turn, for the forwarder that asks.
    fn hand_over(&mut self) -> Result<(), String> {
        lent::await_successor(&mut self.core.links).map_err(|error| error.to_string())?;
        exos_program::info!("exos forward: hands over to another");
        self.hands_over = true;
        Ok(())
    }
}
