//! One core's part of the server: a stack on its queue, its connections, its tables of documents, and its loop.
//!
//! All cores run this; the first does more between two turns ([`lead`](crate::serve::lead)). What comes from other cores and
//! threads is heard in [`Station::heed`], between turns; in a turn nothing of theirs is touched.

use std::os::fd::BorrowedFd;

use exos::{Core, Error, Exos, clock};
use exos_inet::tcp::{ListenOptions, ListenerId};

use crate::config::Config;
use crate::http::Server;
use crate::limits::{GOODBYE_TIME, RECEIVE_BUFFER_LEN, STOP_TIME};
use crate::log::Log;
use crate::serve::bounds::Peers;
use crate::serve::connections::{Cheetah, Packets};
use crate::serve::documents::{Documents, OnStack};
use crate::serve::files::Feed;
use crate::serve::room::Lease;
use crate::serve::sites::Fresh;
use crate::serve::threads::Ready;
use crate::serve::without::Without;
use crate::serve::worker::{Asks, Worker};
use crate::serve::{Specialisation, options, statistics};

/// What a core begins with, made where the program starts.
pub(in crate::serve) struct Setup {
    pub(in crate::serve) config: Config,
    pub(in crate::serve) without: Vec<Specialisation>,
    /// Where other threads than the loops may run.
    pub(in crate::serve) allowed: Vec<usize>,
    pub(in crate::serve) fresh: Fresh,
    pub(in crate::serve) feed: Feed,
    pub(in crate::serve) log: Option<Log>,
    pub(in crate::serve) peers: Peers,
    pub(in crate::serve) lease: Lease,
    pub(in crate::serve) worker: Worker,
}

pub(in crate::serve) struct Station {
    pub(in crate::serve) exos: Exos,
    pub(in crate::serve) cheetah: Cheetah,
    pub(in crate::serve) worker: Worker,
    listener: ListenerId,
    documents: Documents,
    lease: Lease,
    /// What is measured without something.
    without: Option<Without>,
}

impl Station {
    /// On a stack that listens; tables and all else that belongs to this thread is made here.
    pub(in crate::serve) fn open(
        mut exos: Exos,
        listener: ListenerId,
        setup: Setup,
    ) -> Result<Station, Error> {
        let config = &setup.config;
        let mut server = Server::new(setup.fresh.into_sites(), clock::unix_secs());
        if let Some(log) = setup.log {
            server.set_log(log);
        }
        if let Some(pages) = config.status.pages()? {
            server.set_status_pages(pages);
        }
        let without = Without::these(&setup.without, &mut server, &mut exos.stack);
        let mut cheetah = Cheetah::new(server, clock::now());
        let is_first = setup.worker.is_first();
        cheetah.set_streams(options::streams(config, &setup.allowed, is_first)?);
        cheetah.set_bounds(config.bounds.bounds());
        cheetah.share_peers(setup.peers);
        setup.lease.begin(&mut exos.stack.tcp);
        Ok(Station {
            exos,
            cheetah,
            worker: setup.worker,
            listener,
            documents: Documents::new(setup.feed),
            lease: setup.lease,
            without,
        })
    }

    /// Between two turns: what others ask of this core, documents that change, the number of connections it may have.
    /// Gives what it was asked.
    pub(in crate::serve) fn heed(&mut self) -> Asks {
        let asks = self.worker.take_asks();
        if asks.contains(Asks::SHOW) {
            self.show();
            self.worker.shown();
        }
        let served = &mut OnStack {
            exos: &mut self.exos,
            cheetah: &mut self.cheetah,
            without: self.without.as_mut(),
        };
        self.documents.turn(asks, &self.worker, served);
        self.lease.renew(&mut self.exos.stack.tcp);
        asks
    }

    /// One turn: take in, answer, send. Then [`wait`](Station::wait).
    pub(in crate::serve) fn turn(&mut self) -> Result<(), Error> {
        let Station {
            exos,
            cheetah,
            documents,
            without,
            ..
        } = self;
        exos.receive();
        statistics::bring_pages_up_to_date(exos, cheetah, &self.worker);
        if let Some(without) = without {
            without.begin_turn(&mut exos.stack);
        }
        let now = exos.now();
        let mut packets = Packets::without(&mut exos.stack, without.as_mut());
        cheetah.handle(now, clock::unix_secs(), &mut packets);
        let without = without.as_mut();
        documents.ask(&mut OnStack {
            exos,
            cheetah,
            without,
        });
        exos.send()?;
        Ok(())
    }

    /// Waits for something to do; not when `is_busy`. These descriptors wake it too.
    pub(in crate::serve) fn wait(
        &mut self,
        is_busy: bool,
        others: &[BorrowedFd<'_>],
    ) -> Result<(), Error> {
        let is_without = self.without.as_ref().is_some_and(Without::is_waiting);
        let is_busy = is_busy || is_without || self.documents.is_busy();
        let now = is_busy.then(|| self.exos.now());
        let until = [self.cheetah.poll_timeout(), now];
        let mut fds = others.to_vec();
        fds.push(self.worker.fd());
        fds.extend(self.documents.fd());
        fds.extend(self.cheetah.streams().fd());
        self.exos.wait(until.into_iter().flatten().min(), &fds)
    }

    /// Shows the others its numbers as they are now.
    pub(in crate::serve) fn show(&self) {
        self.worker.show(statistics::row(&self.exos, &self.cheetah));
    }

    /// Takes no new connections, lets responses under way end, says goodbye to idle clients, and resets who is left.
    /// `each` is done in each turn, whose waits these descriptors end.
    pub(in crate::serve) fn end(
        &mut self,
        fds: &[BorrowedFd<'_>],
        mut each: impl FnMut(&mut Station, Asks),
    ) -> Result<(), Error> {
        self.exos.answer_syns_here();
        self.exos.stack.tcp.close_listener(self.listener);
        self.documents.end_exchanges();
        let now = self.exos.now();
        let mut packets = Packets::without(&mut self.exos.stack, self.without.as_mut());
        self.cheetah.stop(now, &mut packets);
        let (busy_until, until) = (clock::now() + STOP_TIME, clock::now() + GOODBYE_TIME);
        while (self.cheetah.is_busy() && clock::now() < busy_until)
            || (self.cheetah.connections() > 0 && clock::now() < until)
        {
            let asks = self.heed();
            self.turn()?;
            each(self, asks);
            self.wait(false, fds)?;
        }
        while self
            .cheetah
            .abort_some(&mut Packets::new(&mut self.exos.stack))
        {
            while self.exos.send()? > 0 {}
        }
        Ok(())
    }

    /// The last that it says: its numbers, and what is left of its log. That of the first core waits for the log's thread,
    /// which the others' must have left before.
    pub(in crate::serve) fn close(mut self) -> Station {
        if let Some(log) = self.cheetah.server_mut().log_mut() {
            log.finish();
        }
        self.show();
        self
    }
}

/// What the thread of another core than the first does, from its start to its end.
pub(in crate::serve) fn serve(core: Core, setup: Setup, ready: Ready) -> Result<(), Error> {
    let mut exos = core.start()?;
    let listener = listen(&mut exos, &setup.config)?;
    let mut station = Station::open(exos, listener, setup)?;
    ready.say();
    while !station.heed().contains(Asks::STOP) {
        station.turn()?;
        station.wait(false, &[])?;
    }
    let ended = station.end(&[], |_, _| {});
    station.close();
    ended
}

/// Listens on a stack, and has the kernel answer SYNs where that is wanted, which takes privilege.
pub(in crate::serve) fn listen(exos: &mut Exos, config: &Config) -> Result<ListenerId, Error> {
    let (port, mut connection) = (config.port, config.tcp.options());
    if config.tcp.receive_buffer.is_none() {
        // Requests need no more, and nobody can have us keep more.
        connection.receive_buffer_bytes = RECEIVE_BUFFER_LEN;
        connection.receive_buffer_max_bytes = RECEIVE_BUFFER_LEN;
    }
    let options = ListenOptions {
        connection,
        ..ListenOptions::default()
    };
    let listener = exos.stack.tcp.listen(None, port, options);
    let listener =
        listener.map_err(|e| Error::new(format!("cannot listen on port {port}: {e}")))?;
    if config.syn_handler {
        let answers = exos.answer_syns_in_kernel(listener);
        answers.map_err(|e| e.or_mend("leave --syn-handler out"))?;
    }
    Ok(listener)
}
