//! What a program of several threads has of the cache: whole files by reference, which any of its threads may look at, as a server's
//! documents are.
//!
//! A membership of the pool is one thread's, so one thread of the program has it, begun with the first question; others ask it, and wait.
//! What it lends ([`LentFile`]) stays where it is, whatever becomes of that thread, of the service or of the file. What is not used any more it
//! lets go of when it hears of that. So the program has one share and one connection, however many threads it has.
//!
//! Where there is no service it is looked for again after a while, and who asks meanwhile is told at once. Nobody waits for a file longer than
//! [`LEND_TIME`]; where the service takes that long, it is not asked for nine times as long, whether it has answered or not.
//!
//! A membership that is over ([`Lender::ended`]) may keep all of its pool as long as something of it is lent: who keeps that is to give it up.

use crate::client::{Client, File, Opened};
use crate::error::Error;
use crate::lending::State;
use crate::limits::{
    BUFFER_LEN, EXTENT_LEN, LEND_TIME, RETIRED_MAX, RETRY_PART, RETRY_TIME, SHARE_PATIENCE,
};
use crate::protocol::Status;
use exos_host::affinity;
use exos_iolite::{Aggregate, Lent, Loans};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lends files of the cache to all threads of a program. A clone is the same one.
#[derive(Clone)]
pub struct Lender(Arc<Shared>);

struct Shared {
    /// None: where it is usually found.
    socket: Option<PathBuf>,
    /// Where its thread may run.
    cores: Vec<usize>,
    asks: Mutex<Option<Sender<Ask>>>,
    state: Arc<State>,
}

/// What the thread is asked.
enum Ask {
    Read(Wanted),
    /// Something came back.
    TakeBack,
}

struct Wanted {
    file: OwnedFd,
    len: u64,
    /// Nobody waits any more from then on.
    due: Instant,
    reply: SyncSender<Result<LentFile, NotLent>>,
    home: Arc<Shared>,
}

/// Why a file is not lent. The program reads it by itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotLent {
    /// There is no service, or it has ended or does not do as agreed.
    NoService(Error),
    /// There was none a moment ago, and none was looked for.
    NotNow,
    /// The program keeps as much as it may: it has to give something up, or others of its user have.
    Share,
    /// The service does not take the file.
    Refused(Status),
}

/// All of a version of a file, for any thread.
pub struct LentFile {
    /// There until it is dropped.
    lent: Option<Lent>,
    home: Arc<Shared>,
}

impl Lender {
    /// Lends files of the service at this socket, or of the one that is found ([`Client::find`]), by a thread that runs on these cores, or on
    /// any where none is named. Nothing is begun before a file is asked for.
    pub fn new(socket: Option<PathBuf>, cores: Vec<usize>) -> Self {
        Self(Arc::new(Shared {
            socket,
            cores,
            asks: Mutex::default(),
            state: Arc::default(),
        }))
    }

    /// All of a file that is open for reading and has this length. Waits for the service, [`LEND_TIME`] at most.
    ///
    /// # Errors
    ///
    /// Why it is not lent.
    pub fn lend(&self, file: OwnedFd, len: u64) -> Result<LentFile, NotLent> {
        let gone = || NotLent::NoService(Error::Fault("no thread is left"));
        if self.0.state.is_late() {
            return Err(NotLent::NotNow);
        }
        let (reply, answer) = sync_channel(1);
        let ask = Ask::Read(Wanted {
            file,
            len,
            due: Instant::now() + LEND_TIME,
            reply,
            home: self.0.clone(),
        });
        self.asks()?.send(ask).map_err(|_| gone())?;
        answer.recv_timeout(LEND_TIME).map_err(|why| match why {
            RecvTimeoutError::Timeout => NotLent::NoService(Error::Silent),
            RecvTimeoutError::Disconnected => gone(),
        })?
    }

    /// Bytes of buffers that the program may keep: half of its share, or less where others have the rest. Nothing where it is no member.
    pub fn limit(&self) -> Option<u64> {
        self.0.state.limit()
    }

    /// How many memberships are over. What was lent before is of one that is: it keeps memory that nobody else can use.
    pub fn ended(&self) -> u64 {
        self.0.state.ended.load(Ordering::SeqCst)
    }

    /// Bytes of buffers that are lent.
    pub fn lent(&self) -> u64 {
        self.0.state.lent.load(Ordering::Relaxed)
    }

    /// Bytes of buffers that a file of this length takes.
    pub fn taken(len: u64) -> u64 {
        len.next_multiple_of(BUFFER_LEN as u64)
    }

    /// The way to the thread, which is begun if it was not.
    fn asks(&self) -> Result<Sender<Ask>, NotLent> {
        let asks = self.0.asks.lock();
        let mut asks = asks.unwrap_or_else(PoisonError::into_inner);
        if let Some(asks) = &*asks {
            return Ok(asks.clone());
        }
        let (sender, receiver) = channel();
        let (socket, state) = (self.0.socket.clone(), self.0.state.clone());
        let work = move || Work::new(socket, state).go_on(&receiver);
        affinity::spawn("file-cache", &self.0.cores, work)
            .map_err(|error| NotLent::NoService(Error::System("cannot start a thread", error)))?;
        Ok(asks.insert(sender).clone())
    }
}

/// What the thread has.
struct Work {
    socket: Option<PathBuf>,
    state: Arc<State>,
    client: Option<Client>,
    /// What is lent of memberships that are over.
    retired: Vec<Loans>,
    /// What the program may keep, the rest of it included.
    share: u64,
    /// Nobody is asked before.
    retry: Instant,
}

impl Work {
    fn new(socket: Option<PathBuf>, state: Arc<State>) -> Self {
        Self {
            socket,
            state,
            client: None,
            retired: Vec::new(),
            share: 0,
            retry: Instant::now(),
        }
    }

    /// Answers until nobody can ask any more.
    fn go_on(&mut self, asks: &Receiver<Ask>) {
        while let Ok(ask) = asks.recv() {
            self.state.is_told.store(false, Ordering::SeqCst);
            self.take_back();
            match ask {
                Ask::Read(wanted) if Instant::now() < wanted.due => self.answer(wanted),
                // Who asked has gone.
                Ask::Read(_) | Ask::TakeBack => {}
            }
        }
    }

    fn take_back(&mut self) {
        self.client.iter().for_each(Client::take_back);
        self.retired.iter().for_each(Loans::take_back);
        self.retired.retain(|loans| !loans.are_over());
    }

    fn answer(&mut self, wanted: Wanted) {
        self.state.set_due(Some(wanted.due));
        let lent = self.read(&wanted.file, wanted.len).map(|lent| {
            self.state.lent.fetch_add(lent.taken(), Ordering::Relaxed);
            LentFile {
                lent: Some(lent),
                home: wanted.home,
            }
        });
        self.state.set_due(None);
        // Who asked may have gone.
        let _ = wanted.reply.send(lent);
    }

    fn read(&mut self, file: &OwnedFd, len: u64) -> Result<Lent, NotLent> {
        let begun = Instant::now();
        if begun < self.retry {
            return Err(NotLent::NotNow);
        }
        let was_connected = self.client.is_some();
        let mut read = self.attempt(file, len);
        if was_connected && read.as_ref().is_err_and(has_ended) {
            // Another may be there by now.
            self.retire();
            read = self.attempt(file, len);
        }
        let (read, rest) = self.judge(read);
        let waited = begun.elapsed();
        let rest = match waited >= LEND_TIME {
            true => rest.max(waited.saturating_mul(RETRY_PART)),
            false => rest,
        };
        self.retry = begun + waited + rest;
        read
    }

    /// What comes of an attempt, and how long there is none afterwards.
    fn judge(&mut self, read: Result<Option<Lent>, Error>) -> (Result<Lent, NotLent>, Duration) {
        match read {
            Ok(Some(lent)) => (Ok(lent), Duration::ZERO),
            Ok(None) => (Err(NotLent::Share), Duration::ZERO),
            Err(Error::Changed) => (Err(NotLent::Refused(Status::Changed)), Duration::ZERO),
            Err(Error::Refused(Status::Share)) => {
                // Others have the rest of the share, and the service waits before it says so.
                self.state.squeeze();
                (Err(NotLent::Share), SHARE_PATIENCE)
            }
            Err(Error::Refused(status)) => (Err(NotLent::Refused(status)), Duration::ZERO),
            Err(error) => {
                self.retire();
                (Err(NotLent::NoService(error)), RETRY_TIME)
            }
        }
    }

    /// The membership is over, but for what is lent of it.
    fn retire(&mut self) {
        if let Some(client) = self.client.take() {
            self.state.set_share(None);
            self.retired.push(client.retire());
            self.state.ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// All of a file, from the service that is there; nothing where the program keeps all that it may.
    fn attempt(&mut self, file: &OwnedFd, len: u64) -> Result<Option<Lent>, Error> {
        if self.client.is_none() {
            self.take_back();
            if self.retired.len() >= RETIRED_MAX {
                return Ok(None);
            }
            self.connect()?;
        }
        let (lent, taken) = (self.state.lent.load(Ordering::Relaxed), Lender::taken(len));
        // The service would wait before it says so.
        if lent.saturating_add(taken) > self.share {
            return Ok(None);
        }
        self.read_all(file, len).map(Some)
    }

    fn connect(&mut self) -> Result<(), Error> {
        let mut client = match &self.socket {
            Some(socket) => Client::connect(socket)?,
            None => Client::find()?,
        };
        self.share = client.statistics()?.share;
        self.state.set_share(Some(self.share));
        self.client = Some(client);
        Ok(())
    }

    /// All of a file, in memory that this process keeps from others as long as it is lent.
    fn read_all(&mut self, file: &OwnedFd, len: u64) -> Result<Lent, Error> {
        let client = self.client.as_mut().expect("it is connected");
        let opened = match client.open(file)? {
            Opened::Shared(opened) => opened,
            Opened::Not(status) => return Err(Error::Refused(status)),
        };
        let read = read_opened(client, &opened, len);
        if matches!(read, Ok(_) | Err(Error::Changed | Error::Refused(_))) {
            client.close(opened)?;
        }
        Ok(read?.lend())
    }
}

/// Whether the connection is of no use any more, which was found without waiting.
fn has_ended(error: &Error) -> bool {
    !matches!(error, Error::Changed | Error::Refused(_) | Error::Silent)
}

/// All of a file, which has another version where it is not so long.
fn read_opened(client: &mut Client, file: &File, len: u64) -> Result<Aggregate, Error> {
    let mut all = Aggregate::new();
    while (all.len() as u64) < len {
        let bytes = client.read_at(file, all.len() as u64, EXTENT_LEN)?;
        if bytes.is_empty() {
            return Err(Error::Changed);
        }
        all.concatenate(bytes);
    }
    match all.len() as u64 == len {
        true => Ok(all),
        false => Err(Error::Changed),
    }
}

impl exos_buf::Foreign for LentFile {
    fn len(&self) -> usize {
        self.bytes().len()
    }

    fn copy_to(&self, start: usize, out: &mut [u8]) {
        self.bytes().copy_to(start, out);
    }

    fn taken(&self) -> u64 {
        self.bytes().taken()
    }
}

impl LentFile {
    fn bytes(&self) -> &Lent {
        self.lent.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for LentFile {
    fn drop(&mut self) {
        let state = &self.home.state;
        if let Some(lent) = self.lent.take() {
            state.lent.fetch_sub(lent.taken(), Ordering::Relaxed);
        }
        // Behind what came back: one word is enough for all that came before the thread hears it.
        if !state.is_told.swap(true, Ordering::SeqCst) {
            let asks = self.home.asks.lock();
            let asks = asks.unwrap_or_else(PoisonError::into_inner);
            asks.iter().for_each(|asks| {
                let _ = asks.send(Ask::TakeBack);
            });
        }
    }
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lent, limit) = (self.lent(), self.limit());
        write!(f, "Lender({lent} bytes of {limit:?} lent)")
    }
}

impl fmt::Debug for LentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentFile({:?})", self.lent)
    }
}

impl fmt::Display for NotLent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(error) => error.fmt(f),
            Self::NotNow => f.write_str("there was no file cache a moment ago"),
            Self::Share => f.write_str(Status::Share.reason()),
            Self::Refused(status) => f.write_str(status.reason()),
        }
    }
}

impl std::error::Error for NotLent {}
