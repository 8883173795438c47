//! The start of a forwarder: what is wanted is checked, then the link, the table, the sockets and the kernel's part are had.

use std::path::PathBuf;

use exos::signals::{Ask, Signals};
use exos::{Core, Error, Exos, clock};
use exos_filter::handler::forward::flows::HashKey;
use exos_host::affinity;
use exos_host::random::random_number;
use exos_program::{Idle, Printer, Stream};

use super::program::{Program, Started};
use super::reload::set_rules;
use crate::forwarder::Forwarder;
use crate::kernel::Kernel;
use crate::program::announce::announce;
use crate::program::answers::Answers;
use crate::program::checking::Checking;
use crate::program::control::ControlServer;
use crate::program::cores::core_loop::CoreLoop;
use crate::program::cores::other_core::OtherCore;
use crate::program::cores::table::Table;
use crate::program::cores::worker::Worker;
use crate::program::exporter::Exporter;
use crate::program::keeper::Keeper;
use crate::program::lent;
use crate::program::links::Links;
use crate::program::predecessor::Predecessor;
use crate::service::Services;
use crate::settings::names::Names;
use crate::settings::options::ForwardArgs;
use crate::settings::rehearsal::rehearse;
use crate::settings::setup::{attach, check, check_cores, listens};
use crate::settings::wanted::Wanted;

impl Program {
    /// A forwarder that has all it needs, and has given up the privilege that it needed for that.
    pub(super) fn start(args: &ForwardArgs) -> Result<Started, Error> {
        let wanted = checked(args)?;
        let checks = wanted.health.rule()?;
        let checks = checks.map(|rule| Checking::new(rule, wanted.links.all().len()));
        let resolve = || Names::resolve(&wanted, args.config.as_deref());
        let mut names = wanted.user.as_user(resolve)?;
        let wanted = names.known().filled(&wanted)?;
        let before = predecessor(args, &wanted)?;
        if before.is_some() {
            rehearse(&wanted)?;
        }
        // A predecessor has to give its own up first.
        let mut control = match &before {
            None => listen(&wanted)?,
            Some(_) => None,
        };
        let idle = Idle::or_by_room(args.idle, wanted.core_count());
        let cores = wanted.places(&affinity::allowed()?)?;
        let (mut links, shares) = attached(&wanted, &cores, before)?;
        if control.is_none() {
            control = listen(&wanted)?;
        }
        let exporter = wanted.metrics.map(Exporter::listen).transpose()?;
        names.in_force = listens(&wanted.services, &links.stacks())?;
        let mut table = table(&names, &mut links, &wanted)?;
        describe(&links, &shares, &cores);
        let mut answers = Answers::default();
        answers.take(&mut links, table.forwarder.services())?;
        if wanted.in_kernel {
            table.kernel = Some(in_kernel(&mut links, &mut table.forwarder)?);
        }
        wanted.user.give_up()?;
        let signals = Signals::catch()?;
        // Without a file it is said that there is none to reload.
        signals.catch_also(Ask::Reload)?;
        names.follow()?;
        let stream = match args.json {
            true => Stream::Output,
            false => Stream::Error,
        };
        let (core, others) = loops(links, shares, &cores, idle)?;
        let program = Self {
            core,
            checks,
            names,
            control,
            exporter,
            control_due: clock::now(),
            kernel_due: None,
            kernel_look: None,
            hands_over: false,
            started: clock::now(),
            signals,
            printer: Printer::start(stream)?,
            json: args.json,
            args: args.clone(),
            wanted_links: wanted.links,
            answers,
        };
        for service in &wanted.services {
            announce(&service.listen);
        }
        Ok(Started {
            program,
            table,
            others,
        })
    }
}

/// The links, for a loop on the first core, and what each other core has of them.
fn attached(
    wanted: &Wanted,
    cores: &[usize],
    before: Option<Predecessor>,
) -> Result<(Links, Vec<Vec<Core>>), Error> {
    cores
        .first()
        .map_or(Ok(()), |first| affinity::pin(*first))?;
    let mut links = Links::new(attach(wanted, before)?);
    let shares = shares(&mut links);
    for exos in links.all() {
        exos.check_relaying()
            .map_err(|e| e.or_mend("forward on the kernel's sockets (--splice)"))?;
    }
    Ok((links, shares))
}

/// The loop of this core, and those of the others.
fn loops(
    links: Links,
    shares: Vec<Vec<Core>>,
    cores: &[usize],
    idle: Idle,
) -> Result<(CoreLoop, Vec<OtherCore>), Error> {
    let mut workers = Worker::make(if cores.is_empty() { &[0] } else { cores })?.into_iter();
    let first = workers.next().expect("one at least");
    let other = |(links, worker)| OtherCore {
        links,
        idle,
        worker,
    };
    let others = shares.into_iter().zip(workers).map(other).collect();
    Ok((CoreLoop::new(links, idle, first), others))
}

/// Tells a person of the links, and which core has what of each.
fn describe(links: &Links, shares: &[Vec<Core>], cores: &[usize]) {
    let first = links.all().iter().map(Exos::describe_link);
    match shares {
        [] => first.for_each(|link| exos_program::info!("exos forward: {link}")),
        _ => {
            let others = shares.iter().map(|share| share.iter());
            let others = others.map(|share| share.map(Core::describe_link).collect());
            let all = std::iter::once(first.collect::<Vec<_>>()).chain(others);
            for (core, link) in cores
                .iter()
                .zip(all)
                .flat_map(|(core, links)| links.into_iter().map(move |link| (core, link)))
            {
                exos_program::info!("exos forward: {link}, on core {core}");
            }
        }
    }
}

/// What each core but the first has of every link.
fn shares(links: &mut Links) -> Vec<Vec<Core>> {
    let mut shares: Vec<Vec<Core>> = Vec::new();
    for exos in links.all_mut() {
        for (place, core) in exos.take_cores().into_iter().enumerate() {
            if shares.len() == place {
                shares.push(Vec::new());
            }
            shares[place].push(core);
        }
    }
    shares
}

/// What the options and the file want, where it fits together.
fn checked(args: &ForwardArgs) -> Result<Wanted, Error> {
    let mut wanted = args.wanted()?;
    let is_lent = wanted.links.first().is_lent()?;
    if is_lent {
        lent::name_addresses(&mut wanted);
    }
    check(&wanted, wanted.in_kernel, is_lent)?;
    check_cores(&wanted)?;
    if let Some(file) = &args.config {
        wanted.user.warn_of_unreadable("forward", file);
    }
    Ok(wanted)
}

/// The control socket, where one is wanted.
fn listen(wanted: &Wanted) -> Result<Option<ControlServer>, Error> {
    let listen = |path: &PathBuf| wanted.user.as_user(|| ControlServer::listen(path));
    wanted.control.as_ref().map(listen).transpose()
}

/// Listeners and servers, and what these are called.
fn services(names: &Names) -> Result<Services, Error> {
    let mut services = Services::new(&names.in_force)?;
    services.set_names(names.known().by_address());
    Ok(services)
}

/// The forwarder for these services on these links.
fn forwarder(services: Services, links: &Links, wanted: &Wanted) -> Result<Forwarder, Error> {
    let facts = links.facts();
    let mut forwarder = Forwarder::new(services, facts[0].0, wanted.flows, random_number());
    forwarder.set_links(&facts);
    set_rules(&mut forwarder, wanted);
    // A client belongs to the same server from the first packet on.
    while !forwarder.services_mut().build(usize::MAX) {}
    Ok(forwarder)
}

/// Who keeps flows for a successor, where that is wanted.
fn keeper(wanted: &Wanted, forwarder: &mut Forwarder) -> Result<Option<Keeper>, Error> {
    let mut start = |path: &PathBuf| wanted.user.as_user(|| Keeper::start(path, forwarder));
    wanted.keep.as_ref().map(&mut start).transpose()
}

/// The flows of the services on these links, and who keeps them for a successor.
fn table(names: &Names, links: &mut Links, wanted: &Wanted) -> Result<Table, Error> {
    let services = services(names)?;
    lent::claim(links, wanted)?;
    let mut forwarder = forwarder(services, links, wanted)?;
    let keeper = keeper(wanted, &mut forwarder)?;
    if keeper.is_some() {
        lent::await_successor(links)?;
    }
    Ok(Table::new(forwarder, keeper, None))
}

/// The part of the kernel, which forwards packets of known flows.
fn in_kernel(links: &mut Links, forwarder: &mut Forwarder) -> Result<Kernel, Error> {
    let key = HashKey::new([random_number(), random_number()]);
    let kernel = Kernel::start(links, forwarder, key);
    let kernel = kernel.map_err(|e| e.or_mend("leave --in-kernel out"))?;
    forwarder.set_seen_elsewhere();
    Ok(kernel)
}

/// The forwarder that is there, where it is to be taken over from.
fn predecessor(args: &ForwardArgs, wanted: &Wanted) -> Result<Option<Predecessor>, Error> {
    match &wanted.control {
        _ if !args.take_over => Ok(None),
        Some(path) => Predecessor::find(path),
        None => Err(
            Error::new("a forwarder is taken over from at its control socket")
                .mend("give both --control PATH"),
        ),
    }
}
