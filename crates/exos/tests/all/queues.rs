//! A program on one core, on an interface with several queues, with the kernel's TCP at the other end. As root; in
//! namespaces of the test's own.

use crate::common;
use crate::echo;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, skip_without_root};
use exos::{Addresses, Exos, Interface, Queues, Role, SharedInterface};
use exos_host::ethtool::Channels;
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_inet::tcp::{EventSet, ListenOptions, Options};

/// By a hash of their ports they come by all queues, and half of them by one that is not the first.
const CONNECTIONS: usize = 40;

/// A wire from the calling thread's namespace to the one that is returned, whose ends have four queues; of ours three are
/// in use.
fn wire(test: &str) -> Option<NetNs> {
    if skip_without_root(test) {
        return None;
    }
    let [here, there] = [0, 1].map(|_| NetNs::anonymous().unwrap());
    here.enter().unwrap();
    let end = |netns| VethEnd {
        netns,
        queues: 4,
        ..VethEnd::named("wire")
    };
    let netlink = here.netlink().unwrap();
    netlink
        .create_veth_pair(&end(None), &end(Some(there.as_fd())))
        .unwrap();
    for (netns, address) in [(&here, "10.79.0.1"), (&there, "10.79.0.2")] {
        let netlink = netns.netlink().unwrap();
        let index = netlink.link_by_name("wire").unwrap().index;
        netlink
            .add_address(index, address.parse().unwrap(), 24)
            .unwrap();
        netlink.set_up(index, true).unwrap();
        let channels = Channels {
            rx: 3,
            tx: 3,
            ..Channels::default()
        };
        let ethtool = netns.ethtool().unwrap();
        ethtool.set_channels("wire", channels).unwrap();
    }
    Some(there)
}

fn interface(queues: Queues) -> Interface {
    let ours = Addresses::new(["10.79.0.7/24".parse().unwrap()]).unwrap();
    Interface {
        queues,
        ..Interface::new("wire", ours)
    }
}

/// Each says something and gets it back.
fn visit(address: SocketAddr) {
    for n in 0..CONNECTIONS {
        let socket = TcpStream::connect_timeout(&address, PATIENCE);
        let mut socket = socket.unwrap_or_else(|e| panic!("connection {n}: {e}"));
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(b"hello").unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut back = String::new();
        socket.read_to_string(&mut back).unwrap();
        assert_eq!(back, "hello");
    }
}

fn serve(there: &NetNs, mut exos: Exos, address: &str) {
    let options = ListenOptions::default();
    exos.stack.tcp.listen(None, 80, options).unwrap();
    let address = SocketAddr::new(address.parse().unwrap(), 80);
    thread::scope(|scope| {
        let visitor = scope.spawn(|| there.run(|| visit(address)).unwrap());
        while !visitor.is_finished() {
            echo::turn(&mut exos);
        }
        visitor.join().unwrap();
    });
}

#[test]
fn a_server_has_what_comes_by_every_queue() {
    let Some(there) = wire("a_server_has_what_comes_by_every_queue") else {
        return;
    };
    let exos = Exos::attach(interface(Queues::default()));
    serve(&there, exos.unwrap(), "10.79.0.7");
    let exos = Exos::attach(SharedInterface::new("wire", Role::Serve(vec![80])));
    serve(&there, exos.unwrap(), "10.79.0.1");
}

/// Beside the host, whose own stack resets what it gets of ours.
#[test]
fn a_client_gets_answers_by_every_queue() {
    let Some(there) = wire("a_client_gets_answers_by_every_queue") else {
        return;
    };
    let peer: SocketAddr = "10.79.0.2:80".parse().unwrap();
    let listener = there.run(|| TcpListener::bind(peer).unwrap()).unwrap();
    let done = AtomicBool::new(false);
    let beside = SharedInterface::new("wire", Role::Connect(vec![peer]));
    let mut exos = Exos::attach(beside).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sockets = Vec::new();
            while sockets.len() < CONNECTIONS {
                let (mut socket, _) = listener.accept().unwrap();
                socket.write_all(b"hello").unwrap();
                sockets.push(socket);
            }
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..CONNECTIONS {
            let now = exos.now();
            let opened = exos.stack.tcp.connect(now, None, peer, &Options::default());
            opened.expect("there are ports");
        }
        let mut greeted = 0;
        common::until_so("all greetings", || {
            exos.receive();
            while let Some(event) = exos.stack.poll_event() {
                if event.set.contains(EventSet::READABLE) {
                    greeted += usize::from(exos.stack.tcp.readable(event.connection) == b"hello");
                }
            }
            exos.send().unwrap();
            exos.wait(Some(exos.now() + Duration::from_millis(20)), &[])
                .unwrap();
            greeted == CONNECTIONS
        });
        done.store(true, Ordering::Relaxed);
    });
}

/// It may be steered to, or not be in use.
#[test]
fn a_queue_that_is_named_is_taken_at_its_word() {
    let Some(_there) = wire("a_queue_that_is_named_is_taken_at_its_word") else {
        return;
    };
    let attach = |queues| Exos::attach(interface(queues));
    let exos = attach(Queues::One(2)).unwrap();
    assert!(exos.describe_link().contains("queue 2,"));
    drop(exos);
    let exos = attach(Queues::default()).unwrap();
    assert!(exos.describe_link().contains("queues 0 to 2,"));
    drop(exos);
    let refused = attach(Queues::One(3)).err().expect("nothing comes by it");
    assert!(refused.to_string().contains("wire uses no queue 3"));
}
