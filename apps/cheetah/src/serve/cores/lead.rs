//! What the first core does for all between two turns: signals, reports, reloads.

use std::os::fd::BorrowedFd;

use exos::Error;
use exos::signals::{Ask, Signals};
use exos_program::{Printer, Stream};

use crate::serve::station::Station;
use crate::serve::statistics;
use crate::serve::upkeep::Upkeep;
use crate::serve::worker::Asks;

/// Prints the statistics: JSON on standard output, text on standard error.
pub(in crate::serve) struct Reporter {
    printer: Printer,
    as_json: bool,
}

impl Reporter {
    pub(in crate::serve) fn start(as_json: bool) -> Result<Self, Error> {
        let stream = if as_json {
            Stream::Output
        } else {
            Stream::Error
        };
        let printer = Printer::start(stream)?;
        Ok(Self { printer, as_json })
    }

    pub(in crate::serve) fn as_json(&self) -> bool {
        self.as_json
    }

    pub(in crate::serve) fn print(&self, station: &Station) {
        self.print_text(statistics::report(station, self.as_json));
    }

    pub(in crate::serve) fn print_text(&self, report: String) {
        self.printer.print(report);
    }

    pub(in crate::serve) fn finish(self) {
        self.printer.finish();
    }
}

pub(in crate::serve) struct Lead<'a> {
    pub(in crate::serve) signals: &'a Signals,
    pub(in crate::serve) reporter: &'a Reporter,
}

impl Lead<'_> {
    /// Serves until a signal or another core's end.
    pub(in crate::serve) fn serve(
        &self,
        station: &mut Station,
        upkeep: &mut Upkeep,
        mut is_over: impl FnMut(&mut Station) -> bool,
    ) -> Result<(), Error> {
        while !self.signals.stop_requested() {
            let asks = station.heed();
            if asks.contains(Asks::ONE_LEFT) || is_over(station) {
                return Ok(());
            }
            upkeep.turn(asks, &station.worker);
            station.turn()?;
            self.attend(station, asks);
            if self.signals.take_asked(Ask::Reload) {
                upkeep.request_reload();
            }
            station.wait(upkeep.is_busy(), &[self.signals.fd(), upkeep.fd()])?;
        }
        Ok(())
    }

    /// Ends in order.
    pub(in crate::serve) fn end(&self, station: &mut Station) -> Result<(), Error> {
        let fds: [BorrowedFd<'_>; 1] = [self.signals.fd()];
        station.end(&fds, |station, asks| {
            self.attend(station, asks);
            // Another signal changes nothing, but must not keep the loop awake.
            self.signals.stop_requested();
            self.signals.take_asked(Ask::Reload);
        })
    }

    fn attend(&self, station: &mut Station, asks: Asks) {
        let is_alone = station.worker.count() == 1;
        let is_asked = self.signals.take_report_request();
        if is_asked && !is_alone {
            station.worker.ask_for_rows();
        }
        if asks.contains(Asks::ALL_SHOWN) || is_asked && is_alone {
            self.reporter.print(station);
        }
        if self.signals.take_asked(Ask::Reopen)
            && let Some(log) = station.cheetah.server_mut().log_mut()
        {
            log.reopen();
        }
    }
}
