//! The task that runs the stack for all others.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use exos::Sleep;
use exos::net::Net;
use rustix::event::epoll;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::LocalSet;
use tokio::time::Instant;

/// Runs a future on a runtime of this thread, with the stack beside it. Tasks that use its sockets are begun with
/// `tokio::task::spawn_local`; those still there are dropped at the end.
///
/// # Errors
///
/// The runtime cannot be made, or the interface has gone.
pub fn block_on<F: Future>(net: &Net, future: F) -> io::Result<F::Output> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let tasks = LocalSet::new();
    let net = net.clone();
    tasks.block_on(&runtime, async {
        let mut driver = pin!(tokio::task::spawn_local(drive(net)));
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let ended = std::task::ready!(driver.as_mut().poll(cx));
            Poll::Ready(Err(ended.unwrap_or_else(io::Error::other)))
        })
        .await
    })
}

/// Runs the stack, for a program that has a runtime of its own: to be begun with `spawn_local`. Gives why it cannot go on.
pub async fn drive(net: Net) -> io::Error {
    let mut bed = match Bed::new() {
        Ok(bed) => bed,
        Err(error) => return error,
    };
    loop {
        match poll_fn(|cx| Poll::Ready(bed.turn(&net, cx))).await {
            // All tasks that have news go on before the next turn.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => bed.sleep().await,
            Err(error) => return error,
        }
    }
}

/// What the task sleeps on.
struct Bed {
    /// An epoll set of its own, which tokio's waits for: the stack's descriptors may come and go.
    set: AsyncFd<OwnedFd>,
    /// What is in the set; with `true` to be written to as well.
    members: Vec<(RawFd, bool)>,
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Bed {
    fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            set: watched(set)?,
            members: Vec::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
        })
    }

    /// One turn of the stack; true when the next one is due at once.
    fn turn(&mut self, net: &Net, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut made = Ok(());
        let goes_on = net.poll_turn(cx, |sleep| made = self.make(&sleep))?;
        made.map(|()| goes_on)
    }

    /// Makes ready to sleep.
    fn make(&mut self, sleep: &Sleep<'_>) -> io::Result<()> {
        self.timer.as_mut().reset(Instant::now() + sleep.at_most);
        let wanted = sleep
            .fds
            .iter()
            .map(|(fd, writing)| (fd.as_raw_fd(), *writing));
        if wanted.eq(self.members.iter().copied()) {
            return Ok(());
        }
        // A descriptor that was closed has left the set by itself, and its number may be another's now: all are taken out.
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        self.members.clear();
        for (fd, writing) in &sleep.fds {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, *writing);
            epoll::add(&set, fd.as_fd(), epoll::EventData::new_u64(0), flags)?;
            self.members.push((fd.as_raw_fd(), *writing));
        }
        self.set = watched(set)?;
        Ok(())
    }

    /// Until there is something to do: the stack's descriptors, its time, or a task that has given it something.
    async fn sleep(&mut self) {
        let mut asleep = false;
        poll_fn(|cx| {
            if let Poll::Ready(Ok(mut ready)) = self.set.poll_read_ready(cx) {
                ready.clear_ready();
                return Poll::Ready(());
            }
            if asleep || self.timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            asleep = true;
            Poll::Pending
        })
        .await;
    }
}

/// An epoll set that tokio waits for.
#[allow(unsafe_code)]
fn watched(set: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, and one descriptor, until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(set, Interest::READABLE) }?)
}
