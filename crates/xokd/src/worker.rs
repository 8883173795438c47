//! What takes the kernel long, on a thread beside the loop: programs of users are compiled and verified there.
//!
//! One thing at a time, and then the next, so that users wait for one another here and for nothing else. Anyone who has used
//! the least is next: the daemon's own things first, then as the caller says ([`Worker::go_on`]), of equals anyone who asked
//! first. How long each took is measured as the thread's own time, which a busy machine does not lengthen.
//!
//! The thread lives as long as the thing that it does, and begins on the processor that the loop leaves when it waits next. It has
//! the loop's privileges, and there is nothing that it shares with the loop: what it needs goes with the job, what it made comes
//! back. To begin it takes no descriptor.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use exos_host::error::{Context as _, Result};
use exos_host::{Waker, affinity};
use rustix::time::{ClockId, clock_gettime};

/// How long the calling thread has been at work.
pub fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Something to do.
pub type Job<T> = Box<dyn FnOnce() -> T + Send>;

/// It gives what came of its thing, and how long that took.
type Thread<T> = JoinHandle<(T, Duration)>;

/// What is done.
#[derive(Debug)]
pub struct Done<O, T> {
    /// The user that it is for; `None` for the daemon itself.
    pub owner: Option<O>,
    /// What came of it.
    pub made: T,
    /// How long the thread was at work.
    pub took: Duration,
}

/// The thread, and what waits for it. `O` is anyone who a thing is done for.
pub struct Worker<O, T> {
    /// Readable when something is done.
    wake: Arc<Waker>,
    running: Option<(Option<O>, Thread<T>)>,
    waiting: Vec<(Option<O>, Job<T>)>,
}

impl<O: Copy, T: Send + 'static> Worker<O, T> {
    /// Nothing to do.
    pub fn new() -> Result<Self> {
        let wake = Waker::new().context(|| "cannot make a descriptor to wake up by")?;
        Ok(Self {
            wake: Arc::new(wake),
            running: None,
            waiting: Vec::new(),
        })
    }

    /// Has something done when it is its turn.
    pub fn ask(&mut self, owner: Option<O>, job: Job<T>) {
        self.waiting.push((owner, job));
    }

    /// What has been done since the last call.
    pub fn done(&mut self) -> Option<Done<O, T>> {
        let running = self.wake.clear().then(|| self.running.take());
        let (owner, thread) = running.flatten()?;
        let (made, took) = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(Done { owner, made, took })
    }

    /// Does here what could not be begun, where there was no thread to be had for it: the thing that has waited for longest.
    /// `None` when a thread is at work, or nothing waits.
    pub fn do_here(&mut self) -> Option<T> {
        let may = self.running.is_none() && !self.waiting.is_empty();
        may.then(|| self.waiting.remove(0).1())
    }

    /// Waits for the thread that is at work, and lets what it made go.
    pub fn wait(&mut self) {
        if let Some((_, thread)) = self.running.take() {
            let _ = thread.join();
            self.wake.clear();
        }
    }

    /// Begins with the next thing, unless one is being done: that of the owner for whom `used` is least. Without a thread to be had it
    /// waits for the next call.
    pub fn go_on<U: Ord>(&mut self, used: impl Fn(O) -> U) {
        let next = self.waiting.iter().map(|(owner, _)| owner.map(&used));
        let next = next
            .enumerate()
            .min_by(|(_, one), (_, other)| one.cmp(other));
        let Some((at, _)) = next.filter(|_| self.running.is_none()) else {
            return;
        };
        let (owner, job) = self.waiting.remove(at);
        match self.start(job) {
            Ok(thread) => self.running = Some((owner, thread)),
            Err(job) => self.waiting.insert(at, (owner, job)),
        }
    }

    fn start(&self, job: Job<T>) -> std::result::Result<Thread<T>, Job<T>> {
        // Not in the closure alone, which would be lost if there is no thread for it.
        let handed = Arc::new(Mutex::new(Some(job)));
        let wake = Waking(Arc::clone(&self.wake));
        let taken = Arc::clone(&handed);
        let take = |handed: &Mutex<Option<Job<T>>>| {
            let mut handed = handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.take().expect("a thing is handed over once")
        };
        let spawned = affinity::spawn_here("worker", move || {
            let _wake = wake;
            let job = take(&taken);
            let made = job();
            (made, own_time())
        });
        spawned.map_err(|_| take(&handed))
    }
}

/// Wakes the loop up when the thread's thing is done, also by a panic.
struct Waking(Arc<Waker>);

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl<O, T> AsFd for Worker<O, T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn next(worker: &mut Worker<u32, u32>, used: impl Fn(u32) -> u32) -> (Option<u32>, u32) {
        worker.go_on(used);
        poll(&mut [PollFd::new(&*worker, PollFlags::IN)], None).expect("it is done");
        let done = worker.done().expect("it is done");
        (done.owner, done.made)
    }

    /// Of three users one has used much, and has asked for most; the daemon's own comes last.
    #[test]
    fn whoever_has_used_least_is_next() {
        let mut worker = Worker::new().expect("a descriptor");
        for (owner, number) in [
            (Some(7), 1),
            (Some(7), 2),
            (Some(8), 3),
            (Some(9), 4),
            (None, 5),
        ] {
            worker.ask(owner, Box::new(move || number));
        }
        let used = |user| if user == 7 { 20 } else { 10 };
        let order: Vec<_> = (0..5).map(|_| next(&mut worker, used)).collect();
        let expected = [
            (None, 5),
            (Some(8), 3),
            (Some(9), 4),
            (Some(7), 1),
            (Some(7), 2),
        ];
        assert_eq!(order, expected);
        assert!(worker.done().is_none());
    }

    #[test]
    fn a_thing_that_panics_is_not_waited_for_for_ever() {
        let mut worker: Worker<u32, u32> = Worker::new().expect("a descriptor");
        worker.ask(
            None,
            Box::new(|| std::panic::resume_unwind(Box::new("in the thread"))),
        );
        let panicked = std::panic::AssertUnwindSafe(|| next(&mut worker, |_| 0));
        let panic = std::panic::catch_unwind(panicked).expect_err("it is passed on");
        assert_eq!(panic.downcast_ref(), Some(&"in the thread"));
        assert!(worker.running.is_none());
    }

    #[test]
    fn what_has_no_thread_can_be_done_here_and_a_thread_be_waited_for() {
        let mut worker: Worker<u32, u32> = Worker::new().expect("a descriptor");
        assert_eq!(worker.do_here(), None);
        worker.ask(None, Box::new(|| 1));
        worker.ask(None, Box::new(|| 2));
        assert_eq!(worker.do_here(), Some(1));
        worker.go_on(|_| 0);
        assert_eq!(worker.do_here(), None, "a thread has it");
        worker.wait();
        assert!(worker.done().is_none() && worker.running.is_none());
    }

    #[test]
    fn one_thing_is_done_at_a_time_and_its_time_is_known() {
        let mut worker: Worker<u32, u32> = Worker::new().expect("a descriptor");
        let busy = || {
            while own_time() < Duration::from_millis(5) {}
            1
        };
        worker.ask(Some(7), Box::new(busy));
        worker.ask(Some(7), Box::new(|| 2));
        worker.go_on(|_| 0);
        worker.go_on(|_| 0);
        assert_eq!(worker.waiting.len(), 1);
        poll(&mut [PollFd::new(&worker, PollFlags::IN)], None).expect("it is done");
        let first = worker.done().expect("it is done");
        assert_eq!(first.made, 1);
        assert!(first.took >= Duration::from_millis(5), "{:?}", first.took);
        assert_eq!(next(&mut worker, |_| 0), (Some(7), 2));
    }
}
