//! The resolver over the kernel's sockets against name servers of Debian, on loopback.

use crate::net::addresses;
use exos::names::HostNames;
use exos_inet::Duration;
use exos_names::{Config, Error, ErrorKind, Families};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Servers listen there, too, where this machine has it.
const LOOPBACK_6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A name server in a process of its own, and the folder of its files.
struct Server {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that is free for UDP and TCP.
fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        if UdpSocket::bind((LOOPBACK, port)).is_ok() {
            return port;
        }
    }
}

fn has_ipv6() -> bool {
    UdpSocket::bind((LOOPBACK_6, 0)).is_ok()
}

fn is_installed(program: &str, test: &str) -> bool {
    let path = Path::new("/usr/sbin").join(program);
    if !path.exists() {
        // In one piece, and past the harness, which keeps to itself what passing tests print.
        let line = format!("SKIPPED: {test} needs {program}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    path.exists()
}

/// Starts a server, whose arguments are made for a folder and a port, and waits until it listens. Another program may have
/// taken the port meanwhile.
fn start(program: &str, arguments: impl Fn(&Path, u16) -> Vec<String>) -> Server {
    for _ in 0..5 {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let mut command = Command::new(Path::new("/usr/sbin").join(program));
        command
            .args(arguments(folder.path(), port))
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        let mut process = command.spawn().unwrap();
        let address = SocketAddr::new(LOOPBACK, port);
        while process.try_wait().unwrap().is_none() {
            // A connection that is answered by itself has the same address at both ends.
            let connected = TcpStream::connect(address);
            if connected.is_ok_and(|stream| stream.local_addr().unwrap() != address) {
                return Server {
                    process,
                    address,
                    _folder: folder,
                };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    panic!("{program} does not start")
}

fn dnsmasq() -> Server {
    start("dnsmasq", |_, port| {
        let mut arguments = vec![
            format!("--port={port}"),
            "--host-record=host.example,192.0.2.1,2001:db8::1,300".to_owned(),
            "--host-record=four.example,192.0.2.4,300".to_owned(),
            "--cname=alias.example,host.example,100".to_owned(),
        ];
        let fixed = [
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
            "--user=root",
            "--listen-address=127.0.0.1",
            "--bind-interfaces",
            "--no-resolv",
            "--no-hosts",
            "--local=/example/",
        ];
        arguments.extend(fixed.map(str::to_owned));
        arguments.extend(has_ipv6().then(|| "--listen-address=::1".to_owned()));
        arguments
            .extend((0..100).map(|last| format!("--host-record=many.example,192.0.2.{last},300")));
        arguments
    })
}

fn unbound() -> Server {
    start("unbound", |folder, port| {
        let zone = folder.join("zone");
        let mut records = "example. 300 SOA ns.example. me.example. 1 2 3 4 60\nexample. 300 NS ns.example.\n\
            host.example. 300 A 192.0.2.1\nhost.example. 300 AAAA 2001:db8::1\nfour.example. 300 A 192.0.2.4\n\
            alias.example. 100 CNAME host.example.\n"
            .to_owned();
        records.extend((0..100).map(|last| format!("many.example. 300 A 192.0.2.{last}\n")));
        std::fs::write(&zone, records).unwrap();
        let interface_6 = if has_ipv6() { "interface: ::1" } else { "" };
        let config = format!(
            "server:\n do-daemonize: no\n chroot: \"\"\n username: \"\"\n directory: \"{folder}\"\n pidfile: \"\"\n use-syslog: no\n \
             interface: 127.0.0.1\n {interface_6}\n port: {port}\n module-config: \"iterator\"\n num-threads: 1\n\
             remote-control:\n control-enable: no\n\
             auth-zone:\n name: \"example.\"\n zonefile: \"{zone}\"\n for-downstream: no\n for-upstream: yes\n",
            folder = folder.display(),
            zone = zone.display(),
        );
        let path = folder.join("unbound.conf");
        std::fs::write(&path, config).unwrap();
        vec!["-d".to_owned(), "-c".to_owned(), path.display().to_string()]
    })
}

pub fn driver(servers: &[SocketAddr], resolv_conf: &str) -> HostNames {
    let mut config = Config::parse(resolv_conf, "", &|_| None);
    config.servers = servers.to_vec();
    HostNames::new(config)
}

/// What the resolver said of a name.
fn kind(error: &std::io::Error) -> ErrorKind {
    let error = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    error.expect("it is the resolver's").kind()
}

fn sent(driver: &HostNames) -> (u64, u64) {
    let counters = driver.counters();
    // Ports are drawn, and other programs have some of them.
    (
        counters.queries_udp - counters.ports_in_use,
        counters.queries_tcp,
    )
}

/// What every server is asked, and says.
fn look_up_all(server: &Server, negatives_are_kept: bool) {
    let mut driver = driver(&[server.address], "search example\noptions timeout:30");
    let both = addresses(&["2001:db8::1", "192.0.2.1"]);
    let mut lookup =
        |name: &str, families| driver.lookup(name, families).map_err(|error| kind(&error));
    assert_eq!(lookup("host.example", Families::Both), Ok(both.clone()));
    assert_eq!(lookup("alias.example.", Families::Both), Ok(both.clone()));
    assert_eq!(lookup("HOST", Families::Both), Ok(both));
    assert_eq!(
        lookup("four.example", Families::Both),
        Ok(addresses(&["192.0.2.4"]))
    );
    assert_eq!(
        lookup("four.example", Families::Ipv6),
        Err(ErrorKind::NoAddress)
    );
    assert_eq!(
        lookup("none.example.", Families::Both),
        Err(ErrorKind::NoSuchName)
    );
    let (udp, tcp) = sent(&driver);
    assert_eq!(tcp, 0);

    // What is known is not asked for again. dnsmasq gives no SOA record, so that nobody knows for how long there is nothing.
    assert!(driver.lookup("host", Families::Both).is_ok());
    assert_eq!(sent(&driver), (udp, 0));
    assert!(driver.lookup("none.example.", Families::Both).is_err());
    assert_eq!(
        sent(&driver),
        (if negatives_are_kept { udp } else { udp + 2 }, 0)
    );

    // A hundred addresses are too many for a datagram.
    let many = driver.lookup("many.example", Families::Ipv4).unwrap();
    assert_eq!(many.len(), 100);
    let counters = driver.counters().clone();
    assert_eq!((counters.truncated, counters.queries_tcp), (1, 1));
    let wrong = [
        counters.timeouts,
        counters.unreachable,
        counters.server_failures,
        counters.edns_refused,
        counters.case_lost,
        counters.drop_source,
        counters.drop_malformed,
        counters.drop_identifier,
        counters.drop_question,
    ];
    assert_eq!(wrong, [0; 9], "{counters:?}");

    let mut driver = self::driver(&[server.address], "options use-vc timeout:30");
    assert!(driver.lookup("host.example", Families::Both).is_ok());
    assert_eq!(sent(&driver), (0, 2));

    if has_ipv6() {
        let address = SocketAddr::new(LOOPBACK_6, server.address.port());
        let mut driver = self::driver(&[address], "options timeout:30");
        assert!(driver.lookup("host.example", Families::Both).is_ok());
        let many = driver.lookup("many.example", Families::Ipv4).unwrap();
        assert_eq!((many.len(), sent(&driver)), (100, (3, 1)));
    }
}

#[test]
fn names_of_dnsmasq() {
    if is_installed("dnsmasq", "names_of_dnsmasq") {
        look_up_all(&dnsmasq(), false);
    }
}

#[test]
fn names_of_unbound() {
    if is_installed("unbound", "names_of_unbound") {
        look_up_all(&unbound(), true);
    }
}

/// The first server is silent: the second is asked after a second, and from then on first.
#[test]
fn a_silent_server_is_passed_over() {
    if !is_installed("dnsmasq", "a_silent_server_is_passed_over") {
        return;
    }
    let (silent, server) = (UdpSocket::bind((LOOPBACK, 0)).unwrap(), dnsmasq());
    let servers = [silent.local_addr().unwrap(), server.address];
    // On a busy machine the other may be silent for a second, too.
    for _ in 0..20 {
        let mut driver = driver(&servers, "options timeout:1");
        assert!(driver.lookup("host.example", Families::Ipv4).is_ok());
        assert!(driver.lookup("four.example", Families::Ipv4).is_ok());
        if (driver.counters().timeouts, sent(&driver)) == (1, (3, 0)) {
            return;
        }
    }
    panic!("it was asked again");
}

/// A port that another program has is exchanged for another.
#[test]
fn a_port_of_another_program() {
    if !is_installed("dnsmasq", "a_port_of_another_program") {
        return;
    }
    let (other, server) = (UdpSocket::bind("0.0.0.0:0").unwrap(), dnsmasq());
    let mut config = Config {
        servers: vec![server.address],
        attempts: 1,
        timeout: Duration::from_secs(30),
        ..Config::default()
    };
    let port = other.local_addr().unwrap().port();
    config.ports = port..=port;
    let mut taken = HostNames::new(config.clone());
    let error = taken.lookup("host.example", Families::Ipv4).unwrap_err();
    assert_eq!(
        (kind(&error), taken.counters().ports_in_use),
        (ErrorKind::NoAnswer, 9)
    );
    config.ports = port..=port.saturating_add(200);
    assert!(
        HostNames::new(config)
            .lookup("host.example", Families::Both)
            .is_ok()
    );
}

/// The files of this system are read without an error, and its hosts are known.
#[test]
fn the_files_of_this_system() {
    let mut names = HostNames::of_system().unwrap();
    let found = names.lookup("localhost", Families::Ipv4).unwrap();
    assert_eq!(found, [LOOPBACK]);
}

/// Names that are looked up at once wait for the same silence; it is told, with who is silent, and each has its own end.
#[test]
fn many_names_are_looked_up_side_by_side() {
    let silent = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let server = silent.local_addr().unwrap();
    let mut names = driver(&[server], "options timeout:3 attempts:1");
    let texts: Vec<String> = (0..99).map(|n| format!("host{n}.example")).collect();
    let mut wanted: Vec<&str> = texts.iter().map(String::as_str).collect();
    wanted.extend(["localhost", "what is this"]);
    let (began, mut told) = (std::time::Instant::now(), Vec::new());
    let found = names.lookup_all(&wanted, Families::Both, |config| {
        told.clone_from(&config.servers);
    });
    assert_eq!(told, [server]);
    // Two rounds, for there are more than are asked for at once; one after the other they would take five minutes.
    assert!(began.elapsed() < Duration::from_secs(200));
    let ends = found.iter().map(|found| match &found.addresses {
        Ok(addresses) => Ok(addresses.len()),
        Err(error) => Err(kind(error)),
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends[..99], [Err(ErrorKind::NoAnswer); 99]);
    assert_eq!(ends[99..], [Ok(2), Err(ErrorKind::BadName)]);
}
