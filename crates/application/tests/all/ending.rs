//! How answers, links and applications end in order.

use crate::common::{LONG, Server, pattern, socket};
use exos_application::{Answer, Application, Event, Head, RequestId};
use exos_iolite::{Aggregate, Shape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a test has an application do.
type Step = Box<dyn FnOnce(&mut Application, &[RequestId]) + Send>;

/// An application that does what it is told, with the requests that have come, and tells what happens.
struct Told {
    steps: Sender<Step>,
    events: Receiver<String>,
    running: JoinHandle<()>,
}

impl Told {
    fn new(path: PathBuf) -> Told {
        let (steps, told) = channel::<Step>();
        let (tell, events) = channel();
        let running = thread::spawn(move || {
            let mut application = Application::listen(path, Shape::of(64)).expect("a socket");
            let mut requests = Vec::new();
            while !application.is_over() {
                let short = Some(Duration::from_millis(1));
                match application.wait(short).expect("a socket") {
                    Some(event) => {
                        if let Event::Request(id) = event {
                            requests.push(id);
                        }
                        let name = format!("{event:?}");
                        let _ = tell.send(name.split('(').next().unwrap_or_default().to_owned());
                    }
                    None => told
                        .try_iter()
                        .for_each(|step| step(&mut application, &requests)),
                }
            }
        });
        Told {
            steps,
            events,
            running,
        }
    }

    fn has(&self, step: impl FnOnce(&mut Application, &[RequestId]) + Send + 'static) {
        self.steps.send(Box::new(step)).expect("it runs");
    }

    fn hears(&self) -> String {
        self.events.recv_timeout(LONG).expect("it happens")
    }
}

fn is_refused(path: &Path) -> bool {
    UnixStream::connect(path).is_err()
}

#[test]
fn one_that_stops_answers_what_was_asked_and_ends() {
    let path = socket();
    let told = Told::new(path.clone());
    let mut server = Server::new(&path);
    let (slow, other) = (server.ask("/slow"), server.ask("/other"));
    server.turn();
    assert_eq!([told.hears(), told.hears()], ["Request", "Request"]);
    told.has(|application, requests| {
        application.begin(requests[0], &Head::new(200));
        application.stop(LONG);
        assert!(application.is_stopping() && !application.is_over());
    });
    server.await_true(|link| link.is_stopping());
    assert!(is_refused(&path));
    // Another may listen there at once.
    let next = Told::new(path.clone());
    drop(Server::new(&path));
    told.has(|application, requests| {
        let page = application.pool().copy(&pattern(300_000)).expect("room");
        application.send(requests[0], page);
        application.end(requests[0]);
        application.answer(requests[1], Answer::new(Head::new(204)));
    });
    let got = server.take(slow);
    assert!(got.is_whole && got.content == pattern(300_000));
    // What is asked all the same is answered too.
    let late = server.ask("/late");
    assert!(server.take(other).is_whole);
    server.turn();
    assert_eq!(told.hears(), "Request");
    told.has(|application, requests| application.answer(requests[2], Answer::new(Head::new(204))));
    assert!(server.take(late).is_whole && server.link.failure().is_none());
    drop(server);
    told.running.join().expect("it has ended");
    next.has(|application, _| application.stop(Duration::ZERO));
    next.running.join().expect("it has ended");
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn one_that_stops_waits_for_servers_as_long_as_it_was_told() {
    let path = socket();
    let told = Told::new(path.clone());
    let mut server = Server::new(&path);
    let request = server.ask("/");
    server.turn();
    assert_eq!(told.hears(), "Request");
    told.has(|application, _| {
        application.stop(LONG);
        // The shorter time counts.
        application.stop(Duration::from_millis(10));
        application.stop(LONG);
    });
    assert_eq!(told.hears(), "Left");
    told.running.join().expect("it has ended");
    assert!(!server.take(request).is_whole && server.link.failure().is_some());
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn one_that_serves_stops_when_a_descriptor_says_so() {
    let path = socket();
    let (mut tell, told) = UnixStream::pair().expect("descriptors");
    let listened = path.clone();
    let running = thread::spawn(move || {
        let mut application = Application::listen(listened, Shape::of(64)).expect("a socket");
        application.stop_on(told.into(), LONG).expect("it is one");
        application.serve(|_, pool| Ok(Answer::new(Head::new(200)).fresh(pool.copy(b"served")?)))
    });
    let mut server = Server::new(&path);
    let request = server.ask("/");
    assert_eq!(server.take(request).content, b"served");
    std::io::Write::write_all(&mut tell, b"x").expect("it reads");
    server.await_true(|link| link.is_stopping());
    let request = server.ask("/");
    assert_eq!(server.take(request).content, b"served");
    drop(server);
    running.join().expect("no panic").expect("in order");
    std::fs::remove_file(path).expect("its socket");
}

#[test]
fn an_answer_that_is_given_up_is_not_whole_and_others_are() {
    let path = socket();
    let told = Told::new(path.clone());
    let mut server = Server::new(&path);
    let all: Vec<u32> = (0..4).map(|_| server.ask("/")).collect();
    server.turn();
    all.iter().for_each(|_| assert_eq!(told.hears(), "Request"));
    told.has(|application, requests| {
        let page = application.pool().copy(&pattern(3000)).expect("room");
        application.begin(requests[0], &Head::new(200));
        application.send(requests[0], page.clone());
        application.begin(requests[2], &Head::new(200));
        application.send(requests[2], page);
        application.end(requests[2]);
        // That changes nothing any more.
        application.give_up(requests[2]);
        application.give_up(requests[1]);
    });
    let got = server.take(all[2]);
    assert!(got.is_whole && got.content == pattern(3000));
    let got = server.take(all[1]);
    let head = (&*got.head, got.length);
    assert_eq!(head, ("Status: 500\r\n\r\n", Some(0)));
    told.has(|application, requests| {
        application.give_up(requests[0]);
        assert!(application.request(requests[0]).is_none());
        application.answer(requests[3], Answer::new(Head::new(204)));
    });
    let got = server.take(all[0]);
    assert!(!got.is_whole && got.content == pattern(3000));
    assert!(server.take(all[3]).is_whole && server.link.failure().is_none());
    std::fs::remove_file(path).expect("its socket");
}

thread_local! {
    /// What an application keeps from one step to the next.
    static KEPT: RefCell<Aggregate> = RefCell::default();
}

#[test]
fn one_that_found_no_buffer_is_told_when_there_are_some() {
    let path = socket();
    let told = Told::new(path.clone());
    let mut server = Server::new(&path);
    let request = server.ask("/");
    server.turn();
    assert_eq!(told.hears(), "Request");
    told.has(|application, requests| {
        let all = application.pool().copy(&vec![7; 64 << 16]).expect("room");
        assert!(application.pool().copy(b"x").is_err());
        KEPT.set(all);
        application.await_buffers(requests[0]);
        application.await_buffers(requests[0]);
    });
    told.has(|application, _| {
        assert!(application.pool().copy(b"x").is_err());
        KEPT.take();
    });
    assert_eq!(told.hears(), "Room");
    told.has(|application, requests| {
        let page = application.pool().copy(b"there").expect("room");
        application.answer(requests[0], Answer::new(Head::new(200)).fresh(page));
        // One that is over waits for nothing.
        application.await_buffers(requests[0]);
    });
    assert_eq!(server.take(request).content, b"there");
    std::fs::remove_file(path).expect("its socket");
}

/// A program with a loop of its own waits for the descriptor, and misses nothing.
#[test]
fn a_loop_of_its_own_hears_of_all_by_one_descriptor() {
    let path = socket();
    let listened = path.clone();
    let (end, ended) = channel::<()>();
    let running = thread::spawn(move || {
        let mut application = Application::listen(listened, Shape::of(64)).expect("a socket");
        let mut answered = 0;
        loop {
            while let Some(event) = application.wait(Some(Duration::ZERO)).expect("a socket") {
                if let Event::Request(id) = event {
                    application.answer(id, Answer::new(Head::new(204)));
                    answered += 1;
                }
            }
            if ended.try_recv().is_ok() {
                return answered;
            }
            // What is missed once is not found again in the time that the server waits.
            let time = application.poll_timeout().unwrap_or(2 * LONG);
            let time = Timespec::try_from(time).expect("short");
            let mut fds = [PollFd::new(&application, PollFlags::IN)];
            poll(&mut fds, Some(&time)).expect("it can be polled");
        }
    });
    let mut server = Server::new(&path);
    for _ in 0..500 {
        let request = server.ask("/");
        assert!(server.take(request).is_whole);
    }
    end.send(()).expect("it runs");
    drop(server);
    assert_eq!(running.join().expect("no panic"), 500);
    std::fs::remove_file(path).expect("its socket");
}
