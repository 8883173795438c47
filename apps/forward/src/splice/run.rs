//! The program on joined sockets: its start and its loop.

use std::process::ExitCode;

use exos::signals::Signals;
use exos::{Error, clock};
use exos_host::limits::raise_descriptors;
use exos_program::names::look_up;
use exos_program::{Printer, Stream};

use super::choice::services;
use super::report;
use super::splicer::Splicer;
use crate::program::announce::announce;
use crate::settings::options::ForwardArgs;
use crate::settings::written::{Named, To, Weighted};

/// The program.
pub(crate) fn run(args: &ForwardArgs) -> Result<ExitCode, Error> {
    check(args)?;
    let args = &with_addresses(args.clone())?;
    args.links.first().pin()?;
    let services = services(args)?;
    let signals = Signals::catch()?;
    // Each connection takes two descriptors, and up to four more while bytes wait in it.
    raise_descriptors()?;
    let splicer = Splicer::listen(services, args.proxy_protocol, args.flows)?;
    args.user.give_up()?;
    let stream = if args.json {
        Stream::Output
    } else {
        Stream::Error
    };
    let printer = Printer::start(stream)?;
    exos_program::info!("exos forward: on the kernel's sockets, by splicing");
    announce(&args.listen);
    let ended = turn(splicer, &signals, &printer, args.json);
    printer.finish();
    ended.map_err(|e| Error::io("cannot wait for connections", e))?;
    Ok(ExitCode::SUCCESS)
}

/// Puts its addresses in the place of each server's name, once: joined sockets do not follow names.
fn with_addresses(mut args: ForwardArgs) -> Result<ForwardArgs, Error> {
    let mut to = Vec::new();
    for server in args.to {
        let To::Named(named) = server else {
            to.push(server);
            continue;
        };
        let Named { port, weight, .. } = named;
        let all = look_up("forward", &named.name)?.into_iter();
        to.extend(all.map(|ip| To::At(Weighted { ip, port, weight })));
    }
    args.to = to;
    Ok(args)
}

fn turn(
    mut splicer: Splicer,
    signals: &Signals,
    printer: &Printer,
    json: bool,
) -> std::io::Result<()> {
    splicer.watch(signals.fd())?;
    while !signals.stop_requested() {
        splicer.wait(clock::now())?;
        splicer.handle(clock::now());
        if signals.take_report_request() {
            printer.print(report::report(&splicer, json));
        }
    }
    printer.print(report::report(&splicer, json));
    Ok(())
}

/// What makes no sense on sockets.
fn check(args: &ForwardArgs) -> Result<(), Error> {
    let link = args.links.first();
    let without = link.link.is_none() && link.via.is_none() && link.mode.is_none();
    let names_hosts =
        !link.address.is_empty() || !link.gateway.is_empty() || !link.route.is_empty();
    if !without || names_hosts || link.share_address {
        return Err(Error::new("--splice is on the kernel's sockets, which need no link")
            .mend("leave --link, --via, --mode, --address, --gateway, --route and --share-address out, and listen at addresses of this host"));
    }
    if args.keep.is_some() {
        return Err(
            Error::new("joined sockets end with the program, whatever is kept")
                .mend("leave --keep out, or forward packets without --splice"),
        );
    }
    Ok(())
}
