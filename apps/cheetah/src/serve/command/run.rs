//! `exos serve` from its options to its exit: what is wrong is found first, then the link is attached, then a thread for
//! each core serves until a signal ends all in order.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use exos::signals::{Ask, Signals};
use exos::{Core, Error};
use exos_host::limits::raise_descriptors;
use exos_inet::limits::CONNECTIONS_MAX;
use exos_inet::tcp::FreeRoom;
use exos_program::cores::is_shared;
use exos_program::{taken_back, tell_news};
use exos_quic::Loops;

use super::announce::announce;
use super::check;
use super::interfaces::{Interface, Opened};
use super::on_sockets;
use super::options::{self, ServeArgs};
use crate::acme::Acme;
use crate::applications::AllPermits;
use crate::config::Config;
use crate::connections::Specialisation;
use crate::connections::in_kernel::Common;
use crate::connections::peers::Peers;
use crate::log::Log;
use crate::secure::Acceptor;
use crate::serve::content::files::Feed;
use crate::serve::content::sites::{self, Fresh};
use crate::serve::cores::leader::{Leader, Reporter};
use crate::serve::cores::on_packets::{self, Setup};
use crate::serve::cores::threads::{self, Ready};
use crate::serve::cores::upkeep::Upkeep;
use crate::serve::cores::worker::{Asks, Place, Worker};
use crate::site::Tree;
use crate::site::store::cache::FromCache;

/// Serve until a signal asks to stop.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Error> {
    // First what can be wrong without anything having been made.
    let config = args.configuration()?;
    if args.check {
        return check::check(&config, args.sockets);
    }
    let allowed = exos_host::affinity::allowed()?;
    let places = match args.sockets {
        true => vec![config.place_on_sockets(&allowed)?],
        false => config.places(&allowed)?,
    };
    // Files are read on other threads: what they leave is to be given back whole after a reload.
    exos_host::memory::limit_heaps(places.iter().map(|of_link| of_link.len().max(1)).sum());
    let file_cache = FromCache::new(None, allowed.clone());
    let (fresh, trees) = sites::read_or_tell(&config, &file_cache)?;
    if let Some(file) = &args.config {
        config.user.warn_of_unreadable("serve", file);
    }
    let first = places.iter().flatten().next();
    first.map_or(Ok(()), |&core| exos_host::affinity::pin(core))?;
    if args.sockets {
        return on_sockets::run(args, &config, (fresh, trees), file_cache, &allowed);
    }
    let mut attachments = config.attachments(&places)?;
    for attachment in &mut attachments {
        attachment.segmentation &= !args.without.contains(&Specialisation::SuperPackets);
    }
    // Keys may be such as only who starts it can read.
    let acceptor = Acceptor::of(&config, Acme::of(&config, true)?)?;
    let opened = Opened::open(&config, attachments, &places)?;
    let signals = Signals::catch()?;
    let program = Program {
        args,
        config,
        acceptor,
        file_cache,
        allowed,
        places,
        signals: &signals,
    };
    program.serve(opened, fresh, trees)
}

/// What the parts of a program are set up from.
struct Program<'a> {
    args: &'a ServeArgs,
    config: Config,
    acceptor: Option<Arc<Acceptor>>,
    /// Where documents come from, if that is wanted.
    file_cache: FromCache,
    /// Where other threads than the loops may run.
    allowed: Vec<usize>,
    /// Where the loops of each link run; none for one loop that runs anywhere.
    places: Vec<Vec<usize>>,
    signals: &'a Signals,
}

impl Program<'_> {
    fn serve(self, opened: Opened, fresh: Fresh, trees: Vec<Tree>) -> Result<ExitCode, Error> {
        let Opened {
            first: (exos, listeners),
            others,
            interfaces,
            is_inside,
        } = opened;
        // Each connection to an application or an upstream is a descriptor.
        raise_descriptors()?;
        let count = 1 + others.len();
        let logs = options::open_logs(self.args, &self.config, &self.allowed, count)?;
        if logs.is_some() {
            self.signals.catch_also(Ask::Reopen)?;
        }
        let allowed = self.allowed.clone();
        // Not earlier: a program of several threads may enter no user namespace.
        if let Some(acceptor) = &self.acceptor {
            acceptor.follow(&allowed)?;
        }
        let (acceptor, file_cache) = (self.acceptor.clone(), self.file_cache.clone());
        let reader = self.args.reader(&self.config, acceptor, file_cache);
        let trees = (trees, fresh.cache().clone());
        let (mut upkeep, feeds) = Upkeep::start(reader, trees, allowed, count, self.signals)?;
        let mut setups = self.setups(fresh, feeds, logs, &interfaces)?.into_iter();
        let first = setups.next().ok_or_else(|| Error::new("no core"))?;
        thread::scope(|scope| {
            let mut threads = first.worker.threads(scope);
            let mut server = on_packets::open(exos, listeners, first)?;
            threads::start(&mut threads, self.threads(others, setups))?;
            server.begin();
            announce(&server.served, &self.config, is_inside, &interfaces)?;
            let reporter = Reporter::start(self.args.json)?;
            let leader = Leader {
                signals: self.signals,
                reporter: &reporter,
            };
            let mut revoked = false;
            let served = leader.serve(&mut server, &mut upkeep, |served| {
                served.see_to_handlers();
                revoked = tell_news("serve", &mut served.exos);
                revoked
            });
            server.worker.ask_others(Asks::STOP);
            let stopped = served.and_then(|()| leader.end(&mut server));
            server.give_up();
            let stopped = stopped.and(threads.end(Asks::STOP.bits()));
            server.served.exos.leave();
            server.close();
            reporter.print(&server);
            reporter.finish();
            if revoked {
                // That the link has gone meanwhile is no other reason.
                return Err(taken_back());
            }
            stopped.map(|()| ExitCode::SUCCESS)
        })
    }

    /// What each core begins with.
    fn setups(
        &self,
        fresh: Fresh,
        feeds: Vec<Feed>,
        logs: Option<Vec<Log>>,
        interfaces: &[Interface],
    ) -> Result<Vec<Setup>, Error> {
        let workers = Worker::make(self.worker_places(interfaces))?.into_iter();
        let links = interfaces.iter().map(|it| it.description.as_str());
        let links = (interfaces.len() > 1).then(|| links.collect::<Vec<_>>().join("\n").into());
        let most = self.config.bounds.max_connections;
        let most = most.map_or(CONNECTIONS_MAX, |most| most as usize);
        let room = Arc::new(FreeRoom::new(most));
        let mut logs = logs.into_iter().flatten();
        let (peers, in_kernel) = (Peers::default(), Common::default());
        let (peer_streams, quic_loops) = (Peers::default(), Loops::default());
        let permits = AllPermits::default();
        let setup = |(feed, worker): (Feed, Worker)| Setup {
            config: self.config.clone(),
            without: self.args.without.clone(),
            allowed: self.allowed.clone(),
            fresh: fresh.clone(),
            feed,
            log: logs.next(),
            peers: peers.clone(),
            peer_streams: peer_streams.clone(),
            permits: permits.clone(),
            acceptor: self.acceptor.clone(),
            quic_loops: quic_loops.clone(),
            room: room.clone(),
            in_kernel: in_kernel.clone(),
            shares_core: is_shared(worker.place().core, &self.places),
            worker,
            links: links.clone(),
        };
        Ok(feeds.into_iter().zip(workers).map(setup).collect())
    }

    /// Where each loop runs, in the order of the links.
    fn worker_places(&self, interfaces: &[Interface]) -> Vec<Place> {
        if self.places.iter().all(Vec::is_empty) {
            return vec![Place {
                core: self.allowed[0],
                interface: None,
            }];
        }
        let several = interfaces.len() > 1;
        let all = self.places.iter().zip(interfaces);
        let of_link = |(cores, interface): (&Vec<usize>, &Interface)| {
            let name = several.then(|| interface.name.clone());
            let at = |&core| Place {
                core,
                interface: name.clone(),
            };
            cores.iter().map(at).collect::<Vec<_>>()
        };
        all.flat_map(of_link).collect()
    }

    /// The processor and the loop of each core but the first.
    fn threads(
        &self,
        others: Vec<Core>,
        setups: impl Iterator<Item = Setup>,
    ) -> impl Iterator<
        Item = (
            usize,
            impl FnOnce(Ready) -> Result<(), Error> + Send + 'static,
        ),
    > {
        let cores = self.places.iter().flatten().skip(1).copied();
        let all = cores.zip(others).zip(setups);
        all.map(|((number, core), setup)| {
            (number, move |ready| on_packets::serve(core, setup, ready))
        })
    }
}
