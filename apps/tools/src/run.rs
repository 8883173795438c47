//! Echo, discard and chargen as programs: set up, run the loop, stop in order.

use std::net::SocketAddr;
use std::process::ExitCode;

use exos::signals::Signals;
use exos::{Error, Exos, LinkKind, Role, clock};
use exos_inet::tcp::{ListenOptions, ListenerId, Reason};
use exos_program::names::{HostPort, look_up_over};
use exos_program::{
    Needs, Printer, Stream, inside_hint, reachable_addresses, taken_back, tell_news,
};

use crate::limits::GOODBYE_TIME;
use crate::options::{ChargenArgs, CommonArgs, DiscardArgs, EchoArgs, LoadArgs};
use crate::service::{Kind, Limits, Service};
use crate::statistics;

/// `exos echo`.
pub fn echo(args: &EchoArgs) -> Result<ExitCode, Error> {
    serve(&args.common, Kind::Echo, Limits::default(), args.port)
}

/// `exos discard`.
pub fn discard(args: &DiscardArgs) -> Result<ExitCode, Error> {
    load(&args.load, Kind::Discard, args.port, 9)
}

/// `exos chargen`.
pub fn chargen(args: &ChargenArgs) -> Result<ExitCode, Error> {
    load(&args.load, Kind::Chargen, args.port, 19)
}

fn load(args: &LoadArgs, kind: Kind, port: Option<u16>, usual: u16) -> Result<ExitCode, Error> {
    match &args.connect {
        Some(to) => connect(args, kind, port, to),
        None => serve(&args.common, kind, args.limits(), port.unwrap_or(usual)),
    }
}

/// A program that runs: its stack, its service, and what it is asked by signals.
struct Program<'a> {
    exos: Exos,
    service: Service,
    signals: Signals,
    printer: Printer,
    args: &'a CommonArgs,
    kind: Kind,
}

/// Take connections until a signal asks to stop.
fn serve(args: &CommonArgs, kind: Kind, limits: Limits, port: u16) -> Result<ExitCode, Error> {
    let needs = Needs {
        datagrams: true,
        ..Needs::new(Role::Serve(vec![port]))
    };
    let attachment = args.link.attachment(&needs)?;
    let is_inside = matches!(attachment.link, LinkKind::OwnTap(_));
    args.link.pin()?;
    let exos = Exos::attach(attachment)?;
    let mut program = Program::start(args, exos, kind, limits)?;
    let listener = program.listen(port)?;
    program.announce(is_inside, port);
    let mut revoked = false;
    while !program.signals.stop_requested() && !revoked {
        program.turn()?;
        revoked = tell_news(kind.name(), &mut program.exos);
    }
    program.exos.stack.tcp.close_listener(listener);
    let stopped = program.stop();
    program.end();
    if revoked {
        // That the link has gone meanwhile is no other reason.
        return Err(taken_back());
    }
    stopped.map(|()| ExitCode::SUCCESS)
}

/// Open connections, and run until they have ended or a signal asks to stop.
fn connect(
    args: &LoadArgs,
    kind: Kind,
    port: Option<u16>,
    to: &HostPort,
) -> Result<ExitCode, Error> {
    let link = &args.common.link;
    if args.connections > 1 && (port.is_some() || link.share_address) {
        return Err(Error::new("several connections need several local ports")
            .mend("leave --port and --share-address out, or --connections"));
    }
    let port = port.map_or_else(|| local_port(link.share_address), |port| Ok(Some(port)))?;
    let attachment = link.attachment(&Needs::new(role(port)))?;
    link.pin()?;
    let exos = Exos::attach(attachment)?;
    let (exos, all) = look_up_over(exos, link.share_address, kind.name(), &to.host)?;
    let mut near = all
        .iter()
        .filter(|ip| exos.stack.source_for(**ip).is_some());
    let to = SocketAddr::new(*near.next().unwrap_or(&all[0]), to.port);
    let mut program = Program::start(&args.common, exos, kind, args.limits())?;
    for _ in 0..args.connections {
        program.open(port, to)?;
    }
    let mut revoked = false;
    while !program.service.is_done() && !program.signals.stop_requested() && !revoked {
        program.turn()?;
        revoked = tell_news(kind.name(), &mut program.exos);
    }
    // What ended the last connection may have queued an answer.
    let stopped = program.stop();
    let failure = program.service.totals().failure;
    program.end();
    match failure {
        _ if revoked => Err(taken_back()),
        None => stopped.map(|()| ExitCode::SUCCESS),
        Some(reason) => Err(failed(to, reason)),
    }
}

/// Connects from this port, or from whichever.
pub(crate) fn role(port: Option<u16>) -> Role {
    port.map_or(Role::Connect(Vec::new()), |port| Role::Serve(vec![port]))
}

/// A port that the host lets us have, where connections come from the host's own address.
pub(crate) fn local_port(share_address: bool) -> Result<Option<u16>, Error> {
    if !share_address {
        return Ok(None);
    }
    let free = std::net::TcpListener::bind(("0.0.0.0", 0)).and_then(|l| l.local_addr());
    let free = free.map_err(|e| Error::io("cannot find a free port of this host", e))?;
    Ok(Some(free.port()))
}

/// What a person is told of a connection that did not end as it should.
pub(crate) fn failed(peer: SocketAddr, reason: Reason) -> Error {
    let error = Error::new(format!(
        "the connection with {peer} {}",
        statistics::words(reason)
    ));
    match reason {
        Reason::Refused => error.mend("start the server there, or give its port"),
        Reason::TimedOut => {
            error.mend("see whether the peer is up and a route leads there and back")
        }
        _ => error,
    }
}

impl<'a> Program<'a> {
    fn start(args: &'a CommonArgs, exos: Exos, kind: Kind, limits: Limits) -> Result<Self, Error> {
        exos_program::info!("exos {}: {}", kind.name(), exos.describe_link());
        let stream = if args.json {
            Stream::Output
        } else {
            Stream::Error
        };
        Ok(Self {
            service: Service::new(kind, limits, clock::now()),
            exos,
            signals: Signals::catch()?,
            printer: Printer::start(stream)?,
            args,
            kind,
        })
    }

    fn listen(&mut self, port: u16) -> Result<ListenerId, Error> {
        let options = ListenOptions {
            connection: self.kind.options(self.args.tcp.options()),
            ..ListenOptions::default()
        };
        let cannot =
            |e: &dyn std::fmt::Display| Error::new(format!("cannot listen on port {port}: {e}"));
        let stack = &mut self.exos.stack;
        let listener = stack.tcp.listen(None, port, options);
        // The address's UDP ports are the host's where it is shared: nothing comes to this one then.
        self.service
            .bind_datagrams(port, stack)
            .map_err(|e| cannot(&e))?;
        listener.map_err(|e| cannot(&e))
    }

    fn open(&mut self, port: Option<u16>, to: SocketAddr) -> Result<(), Error> {
        let options = self.args.tcp.options();
        let source = self.exos.source(to, port)?;
        let stack = &mut self.exos.stack;
        self.service
            .connect(clock::now(), source, to, &options, stack)
            .map_err(|e| Error::new(format!("cannot connect to {to}: {e}")))
    }

    /// Tell a person where the service is, which is inside of a user namespace or not.
    fn announce(&self, is_inside: bool, port: u16) {
        let addresses = reachable_addresses(&self.exos);
        for &ip in &addresses {
            exos_program::say!("{}", SocketAddr::new(ip, port));
        }
        if let (true, Some(ip)) = (is_inside, addresses.first()) {
            let name = self.service.kind().name();
            let command = inside_hint(&format!("nc {ip} {port}"));
            exos_program::info!("exos {name}: from another terminal of yours:\n    {command}");
        }
    }

    /// One turn: take in, answer, send, wait.
    fn turn(&mut self) -> Result<(), Error> {
        self.exos.receive();
        self.service.handle(self.exos.now(), &mut self.exos.stack);
        self.exos.send()?;
        if self.signals.take_report_request() {
            self.print();
        }
        self.exos
            .wait(self.service.poll_timeout(), &[self.signals.fd()])
    }

    /// Let what is queued go, say goodbye, and reset who is left.
    fn stop(&mut self) -> Result<(), Error> {
        self.service.stop(clock::now(), &mut self.exos.stack);
        let until = clock::now() + GOODBYE_TIME;
        while self.service.connections() > 0 && clock::now() < until {
            self.turn()?;
            // Another signal changes nothing, but must not keep the loop awake.
            self.signals.stop_requested();
        }
        while self.service.abort_some(clock::now(), &mut self.exos.stack) {
            while self.exos.send()? > 0 {}
        }
        while self.exos.send()? > 0 {}
        self.exos.leave();
        Ok(())
    }

    fn print(&self) {
        let report = statistics::report(&self.exos, &self.service, self.args.json);
        self.printer.print(report);
    }

    fn end(self) {
        self.print();
        self.printer.finish();
    }
}
