//! The thread that resolves names again and again, and tells the loop of it.
//!
//! Both sides have one place for what they say to the other, so nothing heaps up while the resolver, or the loop, takes its time.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use exos::names::Family;
use exos::{Instant, clock};
use exos_host::Waker;

use super::known::Answer;
use crate::limits::RESOLVE_EVERY_MIN;

/// What is to be resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolveRequest {
    pub names: Vec<String>,
    /// Those that are listened for.
    pub families: Vec<Family>,
    /// How long an answer is taken for true at most; zero for until it is asked.
    pub every: Duration,
}

/// What a round has come to.
#[derive(Debug, Default)]
pub struct Resolved {
    pub answers: Vec<Answer>,
    /// From when on another round may say something else, before their time is over; `None` when it may not.
    pub until: Option<Instant>,
}

impl ResolveRequest {
    /// Whether there is anything to resolve.
    pub fn is_of_any(&self) -> bool {
        !self.names.is_empty()
    }
}

/// The thread, as the loop sees it. It ends when this has gone.
pub struct Follower {
    asks: SyncSender<ResolveRequest>,
    /// What the thread has not had room for.
    unasked: Option<ResolveRequest>,
    answers: Receiver<Vec<Answer>>,
    /// It is woken with each.
    waker: Arc<Waker>,
}

impl Follower {
    /// Resolves these by this function, first when the least time between two rounds is over. It is told whether to ask again for
    /// what it knows.
    ///
    /// # Errors
    ///
    /// There is no thread, or no descriptor, to be had.
    pub fn start(
        asked: ResolveRequest,
        resolve: impl FnMut(&ResolveRequest, bool) -> Resolved + Send + 'static,
    ) -> std::io::Result<Self> {
        let (asks, to_do) = mpsc::sync_channel(1);
        let (done, answers) = mpsc::sync_channel(1);
        let waker = Arc::new(Waker::new()?);
        let wakes = Arc::clone(&waker);
        let work = move || follow(asked, &to_do, &done, &wakes, resolve);
        std::thread::Builder::new()
            .name("names".into())
            .spawn(work)?;
        Ok(Self {
            asks,
            unasked: None,
            answers,
            waker,
        })
    }

    /// Resolves these from now on, first at once.
    pub fn ask(&mut self, asked: ResolveRequest) {
        if let Err(TrySendError::Full(asked)) = self.asks.try_send(asked) {
            self.unasked = Some(asked);
        }
    }

    /// The answers of a round, when it is over.
    pub fn take(&mut self) -> Option<Vec<Answer>> {
        if !self.waker.clear() {
            return None;
        }
        let answers = self.answers.try_recv().ok()?;
        // A thread that has answered has taken what it was asked before.
        if let Some(asked) = self.unasked.take() {
            self.ask(asked);
        }
        Some(answers)
    }

    /// What becomes readable with answers.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

fn follow(
    mut asked: ResolveRequest,
    to_do: &Receiver<ResolveRequest>,
    done: &SyncSender<Vec<Answer>>,
    waker: &Waker,
    mut resolve: impl FnMut(&ResolveRequest, bool) -> Resolved,
) {
    let mut asked_for_all = clock::now();
    let mut until = Some(asked_for_all);
    loop {
        let now = clock::now();
        let next = match asked.every {
            Duration::ZERO => to_do.recv().map_err(|_| RecvTimeoutError::Disconnected),
            every => {
                let soon = until.map(|until| until.max(now + RESOLVE_EVERY_MIN));
                let last = asked_for_all + every;
                to_do.recv_timeout(soon.map_or(last, |soon| soon.min(last)) - now)
            }
        };
        let is_asked = next.is_ok();
        match next {
            Ok(next) => asked = next,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock::now();
        let asks_for_all = is_asked || now >= asked_for_all + asked.every;
        if asks_for_all {
            asked_for_all = now;
        }
        let resolved = resolve(&asked, asks_for_all);
        until = resolved.until;
        if done.send(resolved.answers).is_err() {
            return;
        }
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Mutex;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    /// The next round, for which the loop would wait so.
    fn next(follower: &mut Follower) -> Vec<Answer> {
        loop {
            if let Some(answers) = follower.take() {
                return answers;
            }
            let mut fds = [PollFd::from_borrowed_fd(follower.fd(), PollFlags::IN)];
            poll(&mut fds, None).unwrap();
        }
    }

    type Table = Result<Vec<IpAddr>, String>;

    fn answers(names: &[String], table: &Table) -> Vec<Answer> {
        let answers = names.iter().map(|name| Answer::whole(name, table.clone()));
        answers.collect()
    }

    /// What holds for less than the interval is resolved before, but not asked for again.
    #[test]
    fn it_comes_back_when_an_answer_has_run_out() {
        let (said, rounds) = mpsc::channel();
        let resolve = move |asked: &ResolveRequest, again| {
            let _ = said.send(again);
            Resolved {
                answers: answers(&asked.names, &Err("not yet".to_owned())),
                until: Some(clock::now()),
            }
        };
        let every = Duration::from_hours(1);
        let names = vec!["web".to_owned()];
        let request = ResolveRequest {
            names,
            every,
            ..ResolveRequest::default()
        };
        let mut follower = Follower::start(request, resolve).unwrap();
        for _ in 0..2 {
            assert_eq!(next(&mut follower).len(), 1);
            assert!(!rounds.recv().unwrap());
        }
        follower.ask(ResolveRequest::default());
        assert!(next(&mut follower).is_empty() && rounds.recv().unwrap());
    }

    #[test]
    fn it_tells_what_names_have_become_and_resolves_others_when_asked() {
        let hosts = Arc::new(Mutex::new(Err("not yet".to_owned())));
        let table = Arc::clone(&hosts);
        let asked = |names: &[&str], every| ResolveRequest {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            every,
            ..ResolveRequest::default()
        };
        let often = Duration::from_millis(5);
        let resolve = move |asked: &ResolveRequest, _| Resolved {
            answers: answers(&asked.names, &table.lock().unwrap()),
            until: None,
        };
        let mut follower = Follower::start(asked(&["web"], often), resolve).unwrap();
        let answer = |name: &str| Answer::whole(name, hosts.lock().unwrap().clone());
        assert_eq!(next(&mut follower), [answer("web")]);
        *hosts.lock().unwrap() = Ok(vec![[10, 0, 0, 2].into()]);
        while next(&mut follower) != [answer("web")] {}
        // However often it is asked meanwhile, the last counts.
        let never = Duration::ZERO;
        for n in 0..10 {
            follower.ask(asked(&[&format!("web{n}")], never));
        }
        while next(&mut follower) != [answer("web9")] {}
        drop(follower);
        // The thread has ended when what it resolved by has gone.
        while Arc::strong_count(&hosts) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
