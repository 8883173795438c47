//! Loads of a server with scripted faults, over sockets and over a stack of our own: what is counted is what the scripts
//! say, and times are no shorter than they say. No time is bounded from above, so a slow machine changes nothing.
//!
//! Over packets the tests need root; without it they say SKIPPED and pass.

mod cases;
mod server;

use clap::Parser;
use exos::signals::Signals;
use exos_host::netns::NetNs;
use exos_webswamp::report::{Distribution, Results};
use exos_webswamp::statistics::ErrorKind;
use exos_webswamp::{LoadArgs, load};
use hdrhistogram::Histogram;
use strum::VariantArray as _;

use cases::{CASES, Case};
use server::{Peer, Server};

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: LoadArgs,
}

/// What carries a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    Sockets,
    Packets,
}

impl Carrier {
    /// Runs a load, which ends by itself long before the time that it is given.
    fn load(self, url: &str, options: &str) -> Results {
        let by = match self {
            Self::Sockets => "--sockets",
            Self::Packets => "--via none",
        };
        // The server's threads, and other tests, need the cores.
        let line = format!("load {url} {by} --idle sleep --duration 1h --no-probe {options}");
        let args = Line::parse_from(line.split_whitespace()).args;
        let signals = Signals::catch().expect("signals are caught");
        load(&args, &signals).unwrap_or_else(|e| panic!("{line}: {e}"))
    }
}

/// In a network of its own, where the pair of a stack of ours disturbs nobody.
fn in_a_network(work: impl FnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: loads over packets need root");
        return;
    }
    let network = NetNs::anonymous().expect("root makes namespaces");
    network.run(work).expect("a thread enters it");
}

/// Errors in the order of a request's life.
fn errors(seen: &Results) -> Vec<(ErrorKind, u64)> {
    let count = |&kind: &ErrorKind| Some((kind, *seen.errors.get(kind.into())?));
    ErrorKind::VARIANTS.iter().filter_map(count).collect()
}

/// Milliseconds as a histogram tells them: of three digits.
fn is_at_least(times: &Distribution, millis: u64) -> bool {
    times.0.min() as f64 * 1.002 >= millis as f64 * 1000.0
}

fn check(carrier: Carrier, case: &Case) {
    let server = Server::start(case.script);
    let seen = carrier.load(&server.url(), case.options);
    let name = format!("{} on {carrier:?}", case.name);
    compare(&name, case, &seen, server);
}

fn compare(name: &str, case: &Case, seen: &Results, server: Server) {
    assert_eq!(errors(seen), case.errors, "{name}");
    assert_eq!(
        (seen.responses, seen.content_bytes, seen.connections),
        (case.responses, case.content, case.connections),
        "{name}: responses, content, connections"
    );
    // Each response is in each distribution, each connection in its own, and nothing else is.
    let times = &seen.times_us;
    let counts = [&times.first_byte, &times.service, &times.total].map(|times| times.0.len());
    assert_eq!(counts, [case.responses; 3], "{name}");
    assert_eq!(times.connect.0.len(), case.connections, "{name}");
    if case.responses > 0 {
        assert!(is_at_least(&times.first_byte, case.first_millis), "{name}");
        assert!(is_at_least(&times.service, case.last_millis), "{name}");
        assert!(is_at_least(&times.total, case.last_millis), "{name}");
    }
    let (connections, requests) = server.end();
    assert_eq!(connections, case.connections, "{name}: the server's count");
    assert_eq!(requests, case.requests, "{name}: the server's count");
}

#[test]
fn scripts_on_sockets() {
    CASES.iter().for_each(|case| check(Carrier::Sockets, case));
}

#[test]
fn scripts_on_packets() {
    in_a_network(|| CASES.iter().for_each(|case| check(Carrier::Packets, case)));
}

/// Two cores, each with its part of the clients and of the requests, see together what one sees. Left out are loads of one
/// client whose requests share connections, of which two clients have more.
fn on_two_cores(carrier: Carrier) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED: loads from two cores need two");
        return;
    }
    let is_divisible =
        |case: &&Case| !case.options.contains("-c 1") || case.connections == case.requests;
    let cases: Vec<&Case> = CASES.iter().filter(is_divisible).collect();
    assert!(cases.len() > 10, "{}", cases.len());
    for case in cases {
        let server = Server::start(case.script);
        let options = case.options.replace("-c 1", "-c 2") + " --cores 2";
        let seen = carrier.load(&server.url(), &options);
        let name = format!("{} on two cores and {carrier:?}", case.name);
        compare(&name, case, &seen, server);
        let cores = &seen.generators[0].cores;
        let responses: u64 = cores.iter().map(|on| on.responses).sum();
        assert_eq!((cores.len(), responses), (2, case.responses), "{name}");
        // Responses are divided as requests are; where all have one, no core is without.
        let is_idle = cores.iter().any(|on| on.responses == 0);
        assert!(!is_idle || case.responses < case.requests, "{name}");
    }
}

#[test]
fn scripts_on_sockets_from_two_cores() {
    on_two_cores(Carrier::Sockets);
}

#[test]
fn scripts_on_packets_from_two_cores() {
    in_a_network(|| on_two_cores(Carrier::Packets));
}

/// Request number fifty is answered after a second, and those behind it wait.
fn stall(peer: &mut Peer) {
    while let Some(number) = peer.request() {
        if number == 50 {
            peer.sleep(1000);
        }
        peer.say(cases::OK);
    }
}

/// All that was meant to begin while the server stood still has what was left of that in its time, and counts: a hundred
/// requests. What is measured from when each was begun tells of none of this.
fn stall_has_its_weight(carrier: Carrier) {
    let server = Server::start(stall);
    let seen = carrier.load(&server.url(), "--rate 100:3s -c 1 --timeout 100s");
    assert_eq!((seen.responses, errors(&seen)), (300, vec![]));
    let (service, total) = (&seen.times_us.service.0, &seen.times_us.total.0);
    for left in (10..1000).step_by(10) {
        // Requests are 10 ms apart; the stall began after the first of them was meant to begin.
        let micros = (left as f64 * 1000.0 / 1.002) as u64;
        let late = total.count_between(micros, u64::MAX);
        assert!(late >= (1000 - left) / 10, "{late} took {left} ms or more");
    }
    // On one connection requests are served one after the other, so their times are no longer together than the load.
    let sum = |of: &Histogram<u64>| of.mean() * of.len() as f64 / 1e6;
    assert!(
        sum(service) <= seen.measured_secs * 1.002,
        "{}",
        sum(service)
    );
    assert!(sum(total) >= 50.0, "{}", sum(total));
    assert_eq!(server.end(), (1, 300));
}

#[test]
fn stalls_on_sockets() {
    stall_has_its_weight(Carrier::Sockets);
}

#[test]
fn stalls_on_packets() {
    in_a_network(|| stall_has_its_weight(Carrier::Packets));
}

/// Nobody listens where a socket is bound and no more.
fn refused(carrier: Carrier) {
    let taken = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    );
    let taken = taken.expect("a socket");
    let any = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    rustix::net::bind(&taken, &any).expect("a port is free");
    let address = rustix::net::getsockname(&taken).expect("it is bound");
    let address: std::net::SocketAddr = address.try_into().expect("of IPv4");
    let seen = carrier.load(
        &format!("http://127.0.0.1:{}/", address.port()),
        "-n 7 -c 2",
    );
    assert_eq!(errors(&seen), [(ErrorKind::Refused, 7)]);
    assert_eq!((seen.responses, seen.connections), (0, 0));
}

#[test]
fn refused_on_sockets() {
    refused(Carrier::Sockets);
}

#[test]
fn refused_on_packets() {
    in_a_network(|| refused(Carrier::Packets));
}
