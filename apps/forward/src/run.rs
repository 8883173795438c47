//! The program: sets up, runs the loop, stops in order.
//!
//! Each frame is shown to the forwarder first, where it lies in the link's memory. One that goes on gets the link address
//! of its next hop and leaves from where it is; only while a neighbour is asked for is it copied, to wait.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use exos::signals::Signals;
use exos::{Error, Exos, LinkName, Passage, clock};
use exos_inet::{Instant, Stack};
use exos_program::{Printer, Stream};
use serde_json::json;

use crate::checking::Checking;
use crate::control::{self, ControlServer, Kind, Request};
use crate::forwarder::{Forwarder, Verdict};
use crate::keeper::Keeper;
use crate::limits::CONTROL_EVERY;
use crate::options::{ForwardArgs, Other, Place, Weighted};
use crate::service::{Listen, Services};
use crate::statistics;

/// `exos forward`.
///
/// # Errors
///
/// What is wanted does not fit together, or the link cannot be had or has gone.
pub fn run(args: &ForwardArgs) -> Result<ExitCode, Error> {
    if let Some(Other::Ctl(args)) = &args.other {
        return control::run(args);
    }
    if args.splice {
        return crate::splice::run(args);
    }
    check_listeners(args)?;
    let control = args.control.as_deref().map(ControlServer::listen);
    let control = control.transpose()?;
    args.link.pin()?;
    let mut exos = attach(args)?;
    let services = services(args, &exos.stack)?;
    let mac = exos.stack.config().mac;
    let mut forwarder = Forwarder::new(services, mac, args.flows, secret()?);
    forwarder.set_no_server(args.no_server);
    forwarder.services_mut().set_passive(args.health.passive());
    forwarder.services_mut().set_balance(args.balance);
    let checks = args.health.rule()?.map(Checking::new);
    let keep = |path: &PathBuf| Keeper::start(path, &mut forwarder);
    let keeper = args.keep.as_ref().map(keep).transpose()?;
    eprintln!("exos forward: {}", exos.describe_link());
    seek_servers(&mut exos, &forwarder);
    let signals = Signals::catch()?;
    let stream = if args.json {
        Stream::Output
    } else {
        Stream::Error
    };
    let program = Program {
        exos,
        forwarder,
        keeper,
        checks,
        control,
        control_due: clock::now(),
        signals,
        printer: Printer::start(stream)?,
        json: args.json,
    };
    announce(&args.listen);
    program.run()
}

/// Listeners are at addresses of ours.
fn check_listeners(args: &ForwardArgs) -> Result<(), Error> {
    let ours = |ip: IpAddr| args.link.address.iter().any(|a| a.ip == ip);
    match args.listen.iter().find(|listen| !ours(listen.at.ip())) {
        None => Ok(()),
        Some(Place { at, .. }) => Err(Error::new(format!("{} is no address of ours", at.ip()))
            .mend(format!("give --address {}/PREFIX too", at.ip()))),
    }
}

fn attach(args: &ForwardArgs) -> Result<Exos, Error> {
    let attachment = args.link.attachment(0)?;
    if attachment.share_address || !matches!(attachment.link, LinkName::Xdp { .. }) {
        return Err(Error::new(
            "packets are forwarded on an interface by AF_XDP, with addresses of their own",
        )
        .mend("give --link xdp:INTERFACE and --address ADDRESS/PREFIX"));
    }
    Exos::attach(&attachment)
}

/// What is listened to, each with the servers of its family.
fn services(args: &ForwardArgs, stack: &Stack) -> Result<Services, Error> {
    let mut wanted = Vec::new();
    for &Place { transport, at } in &args.listen {
        let mut to = Vec::new();
        for server in args.to.iter().filter(|s| s.ip.is_ipv6() == at.is_ipv6()) {
            let end = SocketAddr::new(server.ip, server.port.unwrap_or(at.port()));
            to.push((end, server.weight, source(stack, server.ip)?));
        }
        wanted.push(Listen { transport, at, to });
    }
    let is_used = |to: &&Weighted| wanted.iter().any(|w| w.at.is_ipv6() == to.ip.is_ipv6());
    if let Some(server) = args.to.iter().find(|server| !is_used(server)) {
        return Err(Error::new(format!("nothing is forwarded to {}", server.ip))
            .mend("listen at an address of its family too, or leave it out"));
    }
    Services::new(&wanted).map_err(|misfit| Error::new(misfit.to_string()))
}

/// The address of ours that a server sees.
fn source(stack: &Stack, server: IpAddr) -> Result<IpAddr, Error> {
    if stack.addresses().iter().any(|a| a.addr == server) {
        return Err(Error::new(format!("{server} is an address of ours"))
            .mend("name a server elsewhere: to ourselves would be a loop"));
    }
    let ours = stack.source_for(server).filter(|_| stack.has_route(server));
    ours.ok_or_else(|| {
        Error::new(format!("no route leads to {server}"))
            .mend("give an --address in its network, or a --gateway")
    })
}

/// Asks for the servers' link addresses, so that the first clients need not wait for them.
fn seek_servers(exos: &mut Exos, forwarder: &Forwarder) {
    for (_, server) in forwarder.services().present() {
        let _ = exos
            .stack
            .link_address(clock::now(), server.at.address.into());
    }
}

/// Tells a person, and whoever waits for it, that it runs.
pub(crate) fn announce(listen: &[Place]) {
    for place in listen {
        let transport = place.transport.name();
        // Nobody may be reading; the forwarder is there all the same.
        let _ = writeln!(std::io::stdout(), "{transport}:{}", place.at);
    }
}

fn secret() -> Result<u64, Error> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::io("cannot draw a secret for the table of flows", e))?;
    Ok(u64::from_le_bytes(seed))
}

/// A forwarder that runs.
struct Program {
    exos: Exos,
    forwarder: Forwarder,
    keeper: Option<Keeper>,
    checks: Option<Checking>,
    control: Option<ControlServer>,
    /// When the control socket is looked at next.
    control_due: Instant,
    signals: Signals,
    printer: Printer,
    json: bool,
}

impl Program {
    fn run(mut self) -> Result<ExitCode, Error> {
        let mut ended = Ok(ExitCode::SUCCESS);
        while !self.signals.stop_requested() {
            if let Err(error) = self.turn() {
                ended = Err(error);
                break;
            }
        }
        self.print();
        self.printer.finish();
        ended
    }

    /// One turn: forward, see to what is due, send, wait.
    fn turn(&mut self) -> Result<(), Error> {
        let forwarder = &mut self.forwarder;
        if forwarder.reads_ahead() {
            self.exos.look(|frame| forwarder.look(frame));
            forwarder.read_ahead();
        }
        self.exos.relay(|stack, now, frame, checksum| {
            let verdict = forwarder.handle_frame(now, frame, checksum);
            send_on(forwarder, verdict, stack, now, frame)
        });
        self.forwarder.handle_timeout(self.exos.now());
        if let Some(checks) = &mut self.checks {
            checks.turn(&mut self.exos, &mut self.forwarder);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(&mut self.forwarder);
        }
        self.serve_control();
        if let Some(keeper) = &mut self.keeper {
            keeper.keep_names(&self.forwarder);
        }
        self.exos.send()?;
        if self.signals.take_report_request() {
            self.print();
        }
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.control.iter().flat_map(ControlServer::fds));
        let behind = self.control.as_ref().is_some_and(ControlServer::is_behind);
        let control = behind.then_some(self.control_due);
        let checks = self.checks.as_ref().and_then(Checking::poll_timeout);
        let due = [self.forwarder.poll_timeout(), checks, control];
        self.exos.wait(due.into_iter().flatten().min(), &fds)
    }

    /// Hears the control socket. Flows have been kept by now, so that no place that is given out has any in the file.
    fn serve_control(&mut self) {
        let now = self.exos.now();
        let Some(mut control) = self.control.take_if(|_| self.control_due <= now) else {
            return;
        };
        self.control_due = now + CONTROL_EVERY;
        control.serve(|line| control::answer(self.respond(line)));
        self.control = Some(control);
    }

    fn respond(&mut self, line: &[u8]) -> Result<serde_json::Value, String> {
        let request = Request::parse(line)?;
        if request.request == Kind::Status {
            let status = statistics::json(&self.exos, &self.forwarder);
            return Ok(json!({ "status": status }));
        }
        let stack = &self.exos.stack;
        let source = |ip| source(stack, ip).map_err(|e| e.to_string());
        let answer = control::apply(&mut self.forwarder, &request, &source)?;
        seek_servers(&mut self.exos, &self.forwarder);
        Ok(answer)
    }

    fn print(&self) {
        let report = statistics::report(&self.exos, &self.forwarder, self.json);
        self.printer.print(report);
    }
}

/// Puts the link addresses on what goes on.
#[inline]
fn send_on(
    forwarder: &mut Forwarder,
    verdict: Verdict,
    stack: &mut Stack,
    now: Instant,
    frame: &mut [u8],
) -> Passage {
    let to = match verdict {
        Verdict::Onward(to) => to,
        Verdict::Stack => return Passage::Stack,
        Verdict::Drop => return Passage::Done,
    };
    let Some(mac) = stack.link_address(now, to) else {
        forwarder.note_late();
        stack.pass(now, to, frame.to_vec());
        return Passage::Done;
    };
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&stack.config().mac.0);
    Passage::Onward
}
