//! Small messages, one after the other, to a process that wants many bytes at once: how often it is woken for them, and what that costs.
//!
//! A kernel's pipe has no low water: its reader wakes for whatever is there, and so does ours where it does not say what it waits for.

use super::way::{accept, connect, read_some, told, write_all};
use crate::stage::cpu::own_ns;
use crate::stage::helper::{Helper, say_ready};
use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_iolite::{LowWater, Options, Pool, Read, Receiver, Sender, Shape, Trust, Wait};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a message.
pub(super) const MESSAGE: usize = 1000;
/// Bytes that the consumer wants at once.
const WANTED: usize = 65_536;
/// A message is sent this often.
const EVERY: Duration = Duration::from_micros(10);
/// Twice the messages that are wanted at once.
const SLOTS: usize = 128;

/// By what the consumer is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Waking {
    /// Our pipe's producer, when as many bytes are there as are wanted.
    Predicate,
    /// Our pipe's producer, when something is there.
    Message,
    /// The kernel, when something is in its pipe.
    Pipe,
}

impl Waking {
    pub const ALL: [Self; 3] = [Self::Predicate, Self::Message, Self::Pipe];
}

impl fmt::Display for Waking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Predicate => "by-predicate",
            Self::Message => "by-message",
            Self::Pipe => "pipe",
        })
    }
}

/// The process that sends a message now and then.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Trickling {
    pub waking: Waking,
    pub path: PathBuf,
}

/// The process that sleeps until it has many. It ends the measurement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Gathering {
    pub waking: Waking,
    pub path: PathBuf,
    pub seconds: f64,
}

/// What the consumer saw.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Gathered {
    pub messages: f64,
    /// How often it slept, as the kernel counts that.
    pub sleeps: u64,
    /// Wake-ups behind which what it waited for was not there, as our pipe counts them.
    pub false_wakes: u64,
    /// Processor time.
    pub cpu_ns: u64,
}

impl Helper for Trickling {
    const NAME: &'static str = "iolite-trickle";
    type Measured = ();

    fn run(self) -> Result<()> {
        let message = [7; MESSAGE];
        if self.waking == Waking::Pipe {
            let pipe = File::options().write(true).open(&self.path);
            let mut pipe = pipe.context(|| "cannot open a pipe")?;
            return trickle(|| Ok(write_all(&mut pipe, &message)));
        }
        let pool = Pool::new("bench", Shape::of(64)).map_err(told)?;
        let options = Options {
            slots: SLOTS,
            ..Options::default()
        };
        let socket = connect(&self.path)?.into();
        let mut sender = Sender::connect(socket, &pool, options).map_err(told)?;
        trickle(|| {
            let mut draft = pool.draft(MESSAGE).map_err(told)?;
            draft.bytes_mut().copy_from_slice(&message);
            match sender.write_all(&mut draft.freeze().into(), Wait::Sleep) {
                Ok(_) => Ok(true),
                Err(exos_iolite::Error::PeerGone) => Ok(false),
                Err(error) => Err(told(error)),
            }
        })
    }
}

/// Sends a message whenever its time has come, until nobody reads any more; what is late follows at once.
fn trickle(mut send: impl FnMut() -> Result<bool>) -> Result<()> {
    let mut next = Instant::now();
    while send()? {
        next += EVERY;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

impl Helper for Gathering {
    const NAME: &'static str = "iolite-gather";
    type Measured = Gathered;

    fn run(self) -> Result<Gathered> {
        let time = Duration::from_secs_f64(self.seconds);
        if self.waking == Waking::Pipe {
            make_fifo(&self.path)?;
            say_ready()?;
            let pipe = File::open(&self.path);
            let mut pipe = pipe.context(|| "cannot open a pipe")?;
            let mut buffer = vec![0; WANTED];
            return gather(time, || Ok((read_some(&mut pipe, &mut buffer), 0)));
        }
        let listener = UnixListener::bind(&self.path).context(|| "cannot listen")?;
        say_ready()?;
        let socket = accept(&listener)?.into();
        let mut receiver = Receiver::accept(socket, Trust::Trusted).map_err(told)?;
        if self.waking == Waking::Predicate {
            receiver.set_low_water(LowWater::bytes(WANTED));
        }
        gather(time, || {
            let len = match receiver.read_wait(WANTED, Wait::Sleep).map_err(told)? {
                Read::Data(data) => data.len(),
                Read::Nothing | Read::End => 0,
            };
            Ok((len, receiver.waits().false_wakes))
        })
    }
}

fn make_fifo(path: &Path) -> Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).context(|| "cannot make a pipe")
}

/// Reads for a time: what comes is bytes, and false wake-ups so far.
fn gather(time: Duration, mut read: impl FnMut() -> Result<(usize, u64)>) -> Result<Gathered> {
    // Before it is counted, everything was used once.
    let (_, false_before) = read()?;
    let (began, slept_before, cpu_before) = (Instant::now(), sleeps()?, own_ns());
    let mut bytes = 0;
    let false_wakes = loop {
        let (len, all_false) = read()?;
        if len == 0 {
            return Err(Error::new("the producer has ended too early"));
        }
        bytes += len;
        if began.elapsed() >= time {
            break all_false - false_before;
        }
    };
    Ok(Gathered {
        messages: bytes as f64 / MESSAGE as f64,
        sleeps: sleeps()? - slept_before,
        false_wakes,
        cpu_ns: own_ns() - cpu_before,
    })
}

/// How often this process gave its processor away to wait.
fn sleeps() -> Result<u64> {
    let what = || "cannot read /proc/self/status";
    let status = std::fs::read_to_string("/proc/self/status").context(what)?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = count.and_then(|count| count.trim().parse().ok());
    count.ok_or_else(|| Error::new(what()))
}
