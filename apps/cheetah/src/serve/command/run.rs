//! `exos serve` from its options to its exit: what is wrong is found first, then the link is attached, then a thread for
//! each core serves until a signal ends all in order.

use std::process::ExitCode;
use std::thread;

use exos::signals::{Ask, Signals};
use exos::{Core, Error, Exos, LinkKind};
use exos_inet::limits::CONNECTIONS_MAX;
use exos_inet::tcp::ListenerId;
use exos_program::{taken_back, tell_news};

use super::announce::announce;
use super::check;
use super::on_sockets;
use super::options::{self, ServeArgs};
use crate::config::Config;
use crate::connections::Specialisation;
use crate::connections::peers::Peers;
use crate::log::Log;
use crate::serve::content::files::Feed;
use crate::serve::content::sites::{self, Fresh};
use crate::serve::cores::connection_limit::Lease;
use crate::serve::cores::leader::{Leader, Reporter};
use crate::serve::cores::on_packets::{self, Setup};
use crate::serve::cores::threads::{Ready, Threads};
use crate::serve::cores::upkeep::Upkeep;
use crate::serve::cores::worker::{Asks, Worker};
use crate::site::Tree;

/// Serve until a signal asks to stop.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Error> {
    // First what can be wrong without anything having been made.
    let config = args.configuration()?;
    if args.check {
        return check::check(&config, args.sockets);
    }
    let (fresh, trees) = sites::read_or_tell(&config)?;
    if let Some(file) = &args.config {
        config.user.warn_of_unreadable("serve", file);
    }
    let allowed = exos_host::affinity::allowed()?;
    let cores = match args.sockets {
        true => config.place_on_sockets(&allowed)?,
        false => config.places(&allowed)?,
    };
    cores
        .first()
        .map_or(Ok(()), |&core| exos_host::affinity::pin(core))?;
    if args.sockets {
        return on_sockets::run(args, &config, (fresh, trees), &allowed);
    }
    let mut attachment = config.attachment()?;
    attachment.segmentation &= !args.without.contains(&Specialisation::SuperPackets);
    let listen = |exos: &mut Exos| on_packets::listen(exos, &config);
    let is_inside = matches!(attachment.link, LinkKind::OwnTap(_));
    let (exos, listener) = config.user.attach(attachment, listen)?;
    let signals = Signals::catch()?;
    let program = Program {
        args,
        config,
        allowed,
        cores,
        signals: &signals,
    };
    program.serve((exos, listener), is_inside, fresh, trees)
}

/// What the parts of a program are set up from.
struct Program<'a> {
    args: &'a ServeArgs,
    config: Config,
    /// Where other threads than the loops may run.
    allowed: Vec<usize>,
    /// Where the loops run; none for one loop that runs anywhere.
    cores: Vec<usize>,
    signals: &'a Signals,
}

impl Program<'_> {
    fn serve(
        self,
        (mut exos, listener): (Exos, ListenerId),
        is_inside: bool,
        fresh: Fresh,
        trees: Vec<Tree>,
    ) -> Result<ExitCode, Error> {
        let others = exos.take_cores();
        let count = 1 + others.len();
        let logs = options::open_logs(self.args, &self.config, &self.allowed, count)?;
        if logs.is_some() {
            self.signals.catch_also(Ask::Reopen)?;
        }
        let allowed = self.allowed.clone();
        // Not earlier: a program of several threads may enter no user namespace.
        let (mut upkeep, feeds) =
            Upkeep::start(self.args.reader(), trees, allowed, count, self.signals)?;
        let mut setups = self.setups(fresh, feeds, logs)?.into_iter();
        let first = setups.next().ok_or_else(|| Error::new("no core"))?;
        thread::scope(|scope| {
            let mut threads = Threads::new(scope, first.worker.clone());
            let mut server = on_packets::open(exos, listener, first)?;
            threads.start(self.threads(others, setups))?;
            announce(&server.served, &self.config, is_inside, &self.cores)?;
            let reporter = Reporter::start(self.args.json)?;
            let leader = Leader {
                signals: self.signals,
                reporter: &reporter,
            };
            let mut revoked = false;
            let served = leader.serve(&mut server, &mut upkeep, |served| {
                if let Some(why) = served.exos.see_to_handlers() {
                    let why = why.or_mend("leave --syn-handler out there");
                    exos_program::warn!("exos serve: {why}");
                }
                revoked = tell_news("serve", &mut served.exos);
                revoked
            });
            server.worker.ask_others(Asks::STOP);
            let stopped = served.and_then(|()| leader.end(&mut server));
            let stopped = stopped.and(threads.end());
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
    ) -> Result<Vec<Setup>, Error> {
        let count = feeds.len();
        let cores = match &self.cores[..] {
            [] => &self.allowed[..1],
            cores => cores,
        };
        let workers = Worker::make(cores)?.into_iter();
        let most = self.config.bounds.max_connections;
        let most = most.map_or(CONNECTIONS_MAX, |most| most as usize);
        let leases = Lease::make(most, count);
        let mut logs = logs.into_iter().flatten();
        let peers = Peers::default();
        let all = feeds.into_iter().zip(workers).zip(leases);
        let setup = |((feed, worker), lease)| Setup {
            config: self.config.clone(),
            without: self.args.without.clone(),
            allowed: self.allowed.clone(),
            fresh: fresh.clone(),
            feed,
            log: logs.next(),
            peers: peers.clone(),
            lease,
            worker,
        };
        Ok(all.map(setup).collect())
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
        let cores = self.cores.iter().skip(1).copied();
        let all = cores.zip(others).zip(setups);
        all.map(|((number, core), setup)| {
            (number, move |ready| on_packets::serve(core, setup, ready))
        })
    }
}
