//! What the first core does for all between two turns: signals, reports, reloads.

use std::os::fd::BorrowedFd;

use exos::Error;
use exos::signals::{Ask, Signals};
use exos_program::{Printer, Stream};

use super::server_loop::ServerLoop;
use super::statistics;
use super::upkeep::Upkeep;
use super::worker::Asks;
use crate::connections::Carried;

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

    pub(in crate::serve) fn print<S: Carried>(&self, server: &ServerLoop<S>) {
        let report = statistics::report(&server.served, &server.worker, self.as_json);
        self.printer.print(report);
    }

    pub(in crate::serve) fn finish(self) {
        self.printer.finish();
    }
}

pub(in crate::serve) struct Leader<'a> {
    pub(in crate::serve) signals: &'a Signals,
    pub(in crate::serve) reporter: &'a Reporter,
}

impl Leader<'_> {
    /// Serves until a signal or another core's end.
    pub(in crate::serve) fn serve<S: Carried>(
        &self,
        server: &mut ServerLoop<S>,
        upkeep: &mut Upkeep,
        mut is_over: impl FnMut(&mut S) -> bool,
    ) -> Result<(), Error> {
        server.served.watch(self.signals.fd())?;
        server.served.watch(upkeep.fd())?;
        while !self.signals.stop_requested() {
            let asks = server.handle_asks()?;
            if asks.contains(Asks::ONE_LEFT) || is_over(&mut server.served) {
                return Ok(());
            }
            upkeep.turn(asks, &server.worker);
            server.turn()?;
            self.attend(server, asks);
            if self.signals.take_asked(Ask::Reload) {
                upkeep.request_reload();
            }
            let now = upkeep.is_busy().then(|| server.served.now());
            server.wait(now, &[self.signals.fd(), upkeep.fd()])?;
        }
        Ok(())
    }

    /// Ends in order.
    pub(in crate::serve) fn end<S: Carried>(
        &self,
        server: &mut ServerLoop<S>,
    ) -> Result<(), Error> {
        let fds: [BorrowedFd<'_>; 1] = [self.signals.fd()];
        server.end(&fds, |server, asks| {
            self.attend(server, asks);
            // Another signal changes nothing, but must not keep the loop awake.
            self.signals.stop_requested();
            self.signals.take_asked(Ask::Reload);
        })
    }

    fn attend<S: Carried>(&self, server: &mut ServerLoop<S>, asks: Asks) {
        let is_alone = server.worker.count() == 1;
        let is_asked = self.signals.take_report_request();
        if is_asked && !is_alone {
            server.worker.ask_for_rows();
        }
        if asks.contains(Asks::ALL_SHOWN) || is_asked && is_alone {
            self.reporter.print(server);
        }
        if self.signals.take_asked(Ask::Reopen)
            && let Some(log) = server.http().log_mut()
        {
            log.reopen();
        }
    }
}
