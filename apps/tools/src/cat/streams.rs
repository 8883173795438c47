//! The standard streams, on threads of their own.
//!
//! Reading and writing them may block for any time, while a connection's timers go on. Chunks
//! travel through bounded channels: a full one to the output means that the bytes stay in the receive
//! buffer and the peer's window closes; a full one from the input, that the input is not read.
//! Whenever a thread has made news it wakes the program's loop.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use exos_host::Waker;

use crate::limits::{CHUNK_LEN, CHUNKS_MAX};

/// What there is on the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing now.
    Nothing,
    /// Bytes.
    Bytes(Vec<u8>),
    /// Its end.
    End,
    /// It cannot be read any more.
    Broken(ErrorKind),
}

/// The input and the output of a program.
pub struct Streams {
    input: Receiver<io::Result<Vec<u8>>>,
    output: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    error: Option<io::Error>,
    waker: Arc<Waker>,
}

impl Streams {
    /// Begin to read and write.
    pub fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (send_input, from_input) = sync_channel(CHUNKS_MAX);
        let (to_output, take_output) = sync_channel(CHUNKS_MAX);
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let for_input = waker.clone();
        thread("input").spawn(move || read_all(input, send_input, &for_input))?;
        let for_output = waker.clone();
        let writer = thread("output").spawn(move || {
            let result = write_all(output, &take_output, &for_output);
            // What waits will not be written: anyone who sends more shall notice.
            drop(take_output);
            for_output.wake();
            result
        })?;
        Ok(Self {
            input: from_input,
            output: Some(to_output),
            writer: Some(writer),
            error: None,
            waker,
        })
    }

    /// Readable when there is news.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    /// From here on news wakes again. Call it before looking at the streams.
    pub fn listen(&mut self) {
        self.waker.clear();
    }

    /// What there is on the input. After `End` or `Broken` it is not to be asked again.
    pub fn take_input(&mut self) -> Input {
        match self.input.try_recv() {
            Ok(Ok(bytes)) => Input::Bytes(bytes),
            Ok(Err(e)) => Input::Broken(e.kind()),
            Err(TryRecvError::Empty) => Input::Nothing,
            Err(TryRecvError::Disconnected) => Input::End,
        }
    }

    /// Write a copy of the first of these bytes; how many those are. `None` when nobody takes them any more.
    pub fn offer(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = 0;
        while taken < bytes.len() {
            let chunk = &bytes[taken..(taken + CHUNK_LEN).min(bytes.len())];
            match self.output.as_ref()?.try_send(chunk.to_vec()) {
                Ok(()) => taken += chunk.len(),
                Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Disconnected(_)) => return None,
            }
        }
        Some(taken)
    }

    /// Write these last bytes, however long that takes.
    pub fn finish(&mut self, rest: Vec<u8>) {
        if let Some(output) = self.output.take()
            && !rest.is_empty()
        {
            let _ = std::thread::Builder::new()
                .name("last output".into())
                .spawn(move || output.send(rest));
        }
    }

    /// All is written that will be; only after `finish`, or when nobody takes it any more.
    pub fn is_written(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Why not everything was written; does not wait.
    pub fn take_error(&mut self) -> Option<io::Error> {
        if let Some(writer) = self.writer.take_if(|writer| writer.is_finished()) {
            self.error = match writer.join() {
                Ok(result) => result.err(),
                Err(panic) => std::panic::resume_unwind(panic),
            };
        }
        self.error.take()
    }
}

fn read_all(mut input: impl Read, out: SyncSender<io::Result<Vec<u8>>>, waker: &Waker) {
    loop {
        let mut chunk = vec![0; CHUNK_LEN];
        let read = match input.read(&mut chunk) {
            Ok(0) => break,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Ok(count) => {
                chunk.truncate(count);
                Ok(chunk)
            }
            Err(e) => Err(e),
        };
        let broken = read.is_err();
        if out.send(read).is_err() || broken {
            break;
        }
        waker.wake();
    }
    // The end is told by the channel's end, which must come before the waking.
    drop(out);
    waker.wake();
}

fn write_all(mut output: impl Write, chunks: &Receiver<Vec<u8>>, waker: &Waker) -> io::Result<()> {
    for chunk in chunks {
        waker.wake();
        output.write_all(&chunk)?;
        output.flush()?;
    }
    Ok(())
}
