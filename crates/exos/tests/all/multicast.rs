//! IPv6 neighbours find a program on an interface that drops multicast which nobody has asked for, as cards do: here a
//! macvlan. As root; in namespaces of the test's own.

use crate::common;
use crate::echo;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;

use common::{skip_without_root, until_so};
use exos::{Addresses, Exos, Interface, Prefixed};
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_inet::tcp::ListenOptions;

/// A macvlan in the calling thread's namespace, on a wire to the kernel of the one that is returned.
fn card(test: &str) -> Option<NetNs> {
    if skip_without_root(test) {
        return None;
    }
    let [here, there] = [0, 1].map(|_| NetNs::anonymous().unwrap());
    here.enter().unwrap();
    let netlink = here.netlink().unwrap();
    let far = VethEnd {
        netns: Some(there.as_fd()),
        ..VethEnd::named("wire")
    };
    netlink
        .create_veth_pair(&VethEnd::named("wire"), &far)
        .unwrap();
    let mut ip = Command::new("ip");
    ip.args(["link", "add", "link", "wire", "name", "card0"]);
    let made = ip.args(["type", "macvlan", "mode", "private"]).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIPPED: {test} needs ip and macvlan");
        return None;
    }
    for name in ["wire", "card0"] {
        let index = netlink.link_by_name(name).unwrap().index;
        netlink.set_up(index, true).unwrap();
    }
    let netlink = there.netlink().unwrap();
    let wire = netlink.link_by_name("wire").unwrap().index;
    // Without it the address is no one's for a second, until it is certain that nobody else has it.
    there
        .set_sysctl("net/ipv6/conf/wire/accept_dad", "0")
        .unwrap();
    netlink.set_up(wire, true).unwrap();
    netlink
        .add_address(wire, "fd79::2".parse().unwrap(), 64)
        .unwrap();
    Some(there)
}

fn attach(pools: &[&str]) -> Exos {
    let pools: Vec<Prefixed> = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    let ours = Addresses::new(["fd79::7/64".parse().unwrap()]);
    let ours = ours.and_then(|ours| ours.with_pools(pools)).unwrap();
    let mut exos = Exos::attach(Interface::new("card0", ours)).unwrap();
    exos.stack
        .tcp
        .listen(None, 80, ListenOptions::default())
        .unwrap();
    exos
}

/// Says hello to `address` from there, and gets it back.
fn says_hello(there: &NetNs, exos: &mut Exos, address: &str) {
    let to: SocketAddr = format!("[{address}]:80").parse().unwrap();
    thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            there
                .run(|| {
                    let mut socket = TcpStream::connect_timeout(&to, common::PATIENCE)?;
                    socket.write_all(b"hello")?;
                    socket.shutdown(std::net::Shutdown::Write)?;
                    let mut back = String::new();
                    socket.read_to_string(&mut back)?;
                    std::io::Result::Ok(back)
                })
                .unwrap()
        });
        until_so("a visitor", || {
            echo::turn(exos);
            visitor.is_finished()
        });
        assert_eq!(visitor.join().unwrap().expect(address), "hello");
    });
}

#[test]
fn an_address_is_found_past_a_filter_of_multicast() {
    let Some(there) = card("an_address_is_found_past_a_filter_of_multicast") else {
        return;
    };
    says_hello(&there, &mut attach(&[]), "fd79::7");
}

/// A small pool's groups are joined, of a large one all.
#[test]
fn pools_are_found_past_a_filter_of_multicast() {
    let Some(there) = card("pools_are_found_past_a_filter_of_multicast") else {
        return;
    };
    says_hello(&there, &mut attach(&["fd79::40/124"]), "fd79::4f");
    says_hello(&there, &mut attach(&["fd79::8:0/112"]), "fd79::8:1234");
}

/// Nothing stays joined after a program.
#[test]
fn groups_are_left_at_the_end() {
    let Some(there) = card("groups_are_left_at_the_end") else {
        return;
    };
    let is_joined = || {
        let groups = std::fs::read_to_string("/proc/thread-self/net/dev_mcast").unwrap();
        groups.contains("3333ff000007")
    };
    let exos = attach(&[]);
    assert!(is_joined());
    drop(exos);
    // A child that another test starts has the socket too, from its fork until it is another program.
    until_so("the group is left", || !is_joined());
    drop(there);
}
