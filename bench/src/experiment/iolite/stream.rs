//! Messages as fast as one process makes them and another has them.

use super::Job;
use super::way::{Reading, Way, Writing, lent_messages, read_some, splice_all, told, write_all};
use crate::stage::helper::{Helper, say_ready};
use exos_host::error::Context as _;
use exos_host::{Error, Result};
use exos_iolite::{Pool, Read, Receiver, Sender, Wait};
use exos_wire::checksum::Sum;
use rustix::pipe::{SpliceFlags, splice};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The process that has the messages. It ends the measurement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Consuming {
    pub way: Way,
    pub bytes: u32,
    pub job: Job,
    pub path: PathBuf,
    pub seconds: f64,
}

/// The process that makes them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Producing {
    pub way: Way,
    pub bytes: u32,
    pub path: PathBuf,
}

impl Helper for Consuming {
    const NAME: &'static str = "iolite-consume";
    /// MB/s.
    type Measured = f64;

    fn run(self) -> Result<f64> {
        let name = self.way.name(&self.path)?;
        say_ready()?;
        let time = Duration::from_secs_f64(self.seconds);
        let meter = Meter::new(self.bytes as usize, time);
        match self.way.reading(&name)? {
            Reading::Ours(receiver) => take_ours(*receiver, self.way.wait(), self.job, meter),
            Reading::Kernels(file) => take_copies(file, self.job, meter),
            Reading::Socket(socket) => take_copies(socket, self.job, meter),
            Reading::Spliced(file) => match self.job {
                Job::Sum => take_copies(file, Job::Sum, meter),
                Job::Take => throw_away(&file, meter),
            },
        }
    }
}

/// Counts bytes, from a hundred messages on until the time is over.
struct Meter {
    message: usize,
    time: Duration,
    count: usize,
    began: Option<(Instant, usize)>,
    rate: Option<f64>,
}

impl Meter {
    fn new(message: usize, time: Duration) -> Self {
        Self {
            message,
            time,
            count: 0,
            began: None,
            rate: None,
        }
    }

    /// Counts some; true when the time is over.
    #[inline]
    fn count(&mut self, bytes: usize) -> bool {
        self.count += bytes;
        match self.began {
            None if self.count >= 100 * self.message => {
                self.began = Some((Instant::now(), self.count));
                false
            }
            None => false,
            Some((began, before)) => {
                let elapsed = began.elapsed();
                let mb = (self.count - before) as f64 / 1e6;
                self.rate = Some(mb / elapsed.as_secs_f64());
                elapsed >= self.time
            }
        }
    }

    fn rate(self) -> Result<f64> {
        self.rate
            .ok_or_else(|| Error::new("the producer has ended too early"))
    }
}

fn take_ours(mut receiver: Receiver, wait: Wait, job: Job, mut meter: Meter) -> Result<f64> {
    let message = meter.message;
    loop {
        let Read::Data(data) = receiver.read_wait(message, wait).map_err(told)? else {
            break;
        };
        if job == Job::Sum {
            black_box(data.sum());
        }
        if meter.count(data.len()) {
            break;
        }
    }
    meter.rate()
}

fn take_copies(mut from: impl std::io::Read, job: Job, mut meter: Meter) -> Result<f64> {
    let mut buffer = vec![0; meter.message];
    loop {
        let len = read_some(&mut from, &mut buffer);
        match job {
            Job::Sum => _ = black_box(Sum::of(&buffer[..len])),
            Job::Take => _ = black_box(&buffer),
        }
        if len == 0 || meter.count(len) {
            return meter.rate();
        }
    }
}

fn throw_away(pipe: &File, mut meter: Meter) -> Result<f64> {
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.context(|| "cannot open /dev/null")?;
    loop {
        let flags = SpliceFlags::empty();
        let len = splice(pipe, None, &nowhere, None, meter.message, flags);
        let len = len.context(|| "cannot splice")?;
        if len == 0 || meter.count(len) {
            return meter.rate();
        }
    }
}

impl Helper for Producing {
    const NAME: &'static str = "iolite-produce";
    type Measured = ();

    fn run(self) -> Result<()> {
        let bytes = self.bytes as usize;
        let mut memory = vec![0; bytes];
        match self.way.writing(&self.path)? {
            Writing::Ours(sender, pool) => {
                return make_ours(*sender, &pool, self.way.wait(), bytes);
            }
            Writing::Kernels(mut pipe) => make(|| {
                fill(&mut memory);
                write_all(&mut pipe, &memory)
            }),
            Writing::Socket(mut socket) => make(|| {
                fill(&mut memory);
                write_all(&mut socket, &memory)
            }),
            Writing::Spliced(pipe) => {
                let count = lent_messages(bytes);
                let mut memory = vec![0; count * bytes];
                let mut next = 0;
                make(|| {
                    let message = &mut memory[next * bytes..][..bytes];
                    fill(message);
                    next = (next + 1) % count;
                    splice_all(&pipe, message)
                });
            }
        }
        Ok(())
    }
}

/// Until nobody reads any more.
fn make(mut send: impl FnMut() -> bool) {
    while send() {}
}

/// Writes all bytes of a message: other ones in each place, and other ones than before.
#[inline]
fn fill(message: &mut [u8]) {
    let (words, _) = message.as_chunks_mut();
    let first = words.first().map_or(0, |word| u64::from_ne_bytes(*word));
    for (number, word) in words.iter_mut().enumerate() {
        *word = (first + 1 + number as u64).to_ne_bytes();
    }
}

fn make_ours(mut sender: Sender, pool: &Pool, wait: Wait, bytes: usize) -> Result<()> {
    loop {
        let mut draft = pool.draft(bytes).map_err(told)?;
        fill(draft.bytes_mut());
        match sender.write_all(&mut draft.freeze().into(), wait) {
            Ok(_) => {}
            Err(exos_iolite::Error::PeerGone) => return Ok(()),
            Err(error) => return Err(told(error)),
        }
    }
}
