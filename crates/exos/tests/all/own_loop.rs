//! A program that waits in an event loop of its own: what it is told to wait for brings it every connection. As root; in a
//! namespace of the test's own.

use crate::common;
use crate::echo;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, skip_without_root};
use exos::{Exos, ListenOptions, OwnPair};
use exos_host::netns::NetNs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// As epoll, mio or tokio would wait.
fn rest(exos: &mut Exos) {
    let Some(sleep) = exos.prepare_sleep() else {
        return;
    };
    assert!(!sleep.fds.is_empty() && sleep.at_most <= Duration::from_secs(1));
    let flags = |writing| match writing {
        true => PollFlags::IN | PollFlags::OUT,
        false => PollFlags::IN,
    };
    let all = sleep.fds.iter().map(|(fd, w)| PollFd::new(fd, flags(*w)));
    let mut fds: Vec<_> = all.collect();
    let at_most = Timespec {
        tv_sec: sleep.at_most.as_secs() as i64,
        tv_nsec: sleep.at_most.subsec_nanos().into(),
    };
    poll(&mut fds, Some(&at_most)).unwrap();
}

#[test]
fn another_event_loop_wakes_for_every_connection() {
    if skip_without_root("another_event_loop_wakes_for_every_connection") {
        return;
    }
    let here = NetNs::anonymous().unwrap();
    here.enter().unwrap();
    let mut exos = Exos::attach(OwnPair::new()).unwrap();
    let ip = exos.pair().unwrap().addresses[0].ip;
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, 80, options).unwrap();
    let visitor = thread::spawn(move || {
        for _ in 0..20 {
            let to = SocketAddr::new(ip, 80);
            let mut socket = TcpStream::connect_timeout(&to, PATIENCE).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(b"hello").unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let mut back = String::new();
            socket.read_to_string(&mut back).unwrap();
            assert_eq!(back, "hello");
        }
    });
    while !visitor.is_finished() {
        exos.receive();
        echo::example::answer(&mut exos.stack);
        exos.send().unwrap();
        rest(&mut exos);
    }
    visitor.join().unwrap();
}
