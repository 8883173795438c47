//! What a program of several threads has of the cache: whole files by reference, which any of its threads may look at, as a server's
//! documents are.
//!
//! A membership of the pool is one thread's, so one thread of the program has it, begun with the first question; others ask it, and wait.
//! What it lends ([`LentFile`]) stays where it is, whatever becomes of that thread, of the service or of the file. What is not used any more it
//! lets go of when it hears of that. So the program has one share and one connection, however many threads it has.
//!
//! Where there is no service it is looked for again after a while, and who asks meanwhile is told at once: nobody waits for a service more
//! than a part of the time.

use crate::client::{Client, File, Opened};
use crate::error::Error;
use crate::limits::{BUFFER_LEN, EXTENT_LEN, RETRY_PART, RETRY_TIME, SHARE_PATIENCE, SHARE_REST};
use crate::protocol::Status;
use exos_host::affinity;
use exos_iolite::{Aggregate, Lent};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Of its share a program keeps this part at most: the rest is for what it has given up and still uses, and for what comes.
const KEPT_PART: u64 = 2;

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

/// What others may see without asking.
#[derive(Default)]
struct State {
    /// Bytes of buffers that are lent.
    lent: AtomicU64,
    /// Bytes of them that may be kept.
    limit: AtomicU64,
    /// The thread is told already that something came back.
    is_told: AtomicBool,
}

/// What the thread is asked.
enum Ask {
    Read(
        OwnedFd,
        u64,
        SyncSender<Result<LentFile, NotLent>>,
        Arc<Shared>,
    ),
    /// Something came back.
    TakeBack,
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

    /// All of a file that is open for reading and has this length. Waits for the service.
    ///
    /// # Errors
    ///
    /// Why it is not lent.
    pub fn lend(&self, file: OwnedFd, len: u64) -> Result<LentFile, NotLent> {
        let gone = || NotLent::NoService(Error::Fault("no thread is left"));
        let (reply, answer) = sync_channel(1);
        let ask = Ask::Read(file, len, reply, self.0.clone());
        self.asks()?.send(ask).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }

    /// Bytes of buffers that the program may keep: half of its share, or less where others have the rest. None before it has a share.
    pub fn limit(&self) -> u64 {
        self.0.state.limit.load(Ordering::Relaxed)
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
    /// What the program may keep, the rest of it included.
    share: u64,
    /// Nobody is asked before.
    retry: Instant,
    /// Less than half of the share is kept until then.
    limit_until: Option<Instant>,
}

impl Work {
    fn new(socket: Option<PathBuf>, state: Arc<State>) -> Self {
        Self {
            socket,
            state,
            client: None,
            share: 0,
            retry: Instant::now(),
            limit_until: None,
        }
    }

    /// Answers until nobody can ask any more.
    fn go_on(&mut self, asks: &Receiver<Ask>) {
        while let Ok(ask) = asks.recv() {
            self.state.is_told.store(false, Ordering::SeqCst);
            self.client.iter().for_each(Client::take_back);
            if let Ask::Read(file, len, reply, home) = ask {
                let lent = self.read(&file, len).map(|lent| {
                    self.state.lent.fetch_add(lent.taken(), Ordering::Relaxed);
                    let lent = Some(lent);
                    LentFile { lent, home }
                });
                // Who asked may have gone.
                let _ = reply.send(lent);
            }
        }
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
            self.client = None;
            read = self.attempt(file, len);
        }
        match read {
            Ok(Some(lent)) => Ok(lent),
            Ok(None) => Err(NotLent::Share),
            Err(Error::Changed) => Err(NotLent::Refused(Status::Changed)),
            Err(Error::Refused(Status::Share)) => {
                self.squeeze();
                Err(NotLent::Share)
            }
            Err(Error::Refused(status)) => Err(NotLent::Refused(status)),
            Err(error) => {
                self.client = None;
                let waited = begun.elapsed().saturating_mul(RETRY_PART);
                self.retry = Instant::now() + waited.max(RETRY_TIME);
                Err(NotLent::NoService(error))
            }
        }
    }

    /// All of a file, from the service that is there; nothing where the program keeps all that it may.
    fn attempt(&mut self, file: &OwnedFd, len: u64) -> Result<Option<Lent>, Error> {
        self.connect()?;
        let lent = self.state.lent.load(Ordering::Relaxed);
        // The service would wait before it says so.
        if lent.saturating_add(Lender::taken(len)) > self.share {
            return Ok(None);
        }
        self.read_all(file, len).map(Some)
    }

    fn connect(&mut self) -> Result<(), Error> {
        if self.client.is_some() {
            if self
                .limit_until
                .is_some_and(|until| until <= Instant::now())
            {
                self.set_limit(self.share / KEPT_PART, None);
            }
            return Ok(());
        }
        let mut client = match &self.socket {
            Some(socket) => Client::connect(socket)?,
            None => Client::find()?,
        };
        self.share = client.statistics()?.share;
        self.set_limit(self.share / KEPT_PART, None);
        self.client = Some(client);
        Ok(())
    }

    fn set_limit(&mut self, limit: u64, until: Option<Instant>) {
        self.state.limit.store(limit, Ordering::Relaxed);
        self.limit_until = until;
    }

    /// Others have the rest of the share: for a while no more is kept than now, and the service is not asked at once again, since it waits
    /// before it says so.
    fn squeeze(&mut self) {
        let limit = self.state.limit.load(Ordering::Relaxed);
        let lent = self.state.lent.load(Ordering::Relaxed);
        let now = Instant::now();
        self.set_limit(limit.min(lent), Some(now + SHARE_REST));
        self.retry = now + SHARE_PATIENCE;
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
        write!(f, "Lender({} bytes of {} lent)", self.lent(), self.limit())
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
