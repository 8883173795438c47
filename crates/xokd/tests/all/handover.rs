//! Connections that go from one program of the daemon to another, with the kernel's TCP at the other end. As root; skipped, and
//! said so, otherwise.

use crate::lab;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use exos::net::{self, Net, NotHandedOver};
use exos::{Daemon, Role};
use lab::*;
use rustix::process::{Pid, Signal, Uid, kill_process};
use rustix::thread::set_thread_res_uid;

#[path = "../../../exos/examples/prefork.rs"]
#[allow(dead_code)] // Its `main`.
mod prefork;

/// The user that the programs run as, and what it may have.
const NOBODY: u32 = 65_534;
const POLICY: &str =
    "[[allow]]\nuser = \"65534\"\nports = [\"7\"]\n[[allow]]\nuser = \"0\"\nports = [\"7\"]\n";

/// The program that the tests start as another user: the example, and its workers.
#[test]
#[ignore = "it runs for as long as a test that starts it"]
fn the_example() {
    prefork::run().unwrap();
}

/// The example's processes; its standard output stays open for as long as any of them is there.
struct Prefork {
    acceptor: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Prefork {
    fn start(lab: &Lab) -> Self {
        let mut acceptor = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "handover::the_example",
                "--ignored",
                "--nocapture",
            ])
            .env(exos::via::SOCKET_VARIABLE, lab.socket())
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(acceptor.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("port 7") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        Self { acceptor, said }
    }

    fn end_acceptor(&mut self) {
        kill_process(Pid::from_child(&self.acceptor), Signal::TERM).unwrap();
        assert!(self.acceptor.wait().unwrap().success());
    }

    /// Waits until the workers have ended, too.
    fn all_end(mut self) {
        self.said.read_to_end(&mut Vec::new()).unwrap();
    }
}

/// A client of the kernel's, and the worker that it has.
struct Client {
    socket: BufReader<TcpStream>,
    worker: i32,
}

/// Bytes of a client, by its number and the number of the message.
fn message(client: usize, number: usize) -> Vec<u8> {
    (0..20_000)
        .map(|at| (at * 7 + client * 31 + number * 101) as u8)
        .collect()
}

/// Says its name and goes on sending, while the connection is handed over.
fn open(lab: &Lab, number: usize) -> TcpStream {
    let mut socket = lab.dial(7).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = format!("client {}\n", number % 10);
    socket.write_all(name.as_bytes()).unwrap();
    socket.write_all(&message(number, 0)).unwrap();
    socket
}

impl Client {
    /// Reads who serves it, and then all that it has said so far.
    fn greeted(socket: TcpStream, number: usize) -> Self {
        let mut socket = BufReader::new(socket);
        let (mut greeting, mut name) = (String::new(), String::new());
        socket.read_line(&mut greeting).unwrap();
        socket.read_line(&mut name).unwrap();
        assert_eq!(name, format!("client {}\n", number % 10));
        let worker = greeting.trim().strip_prefix("worker ").unwrap();
        let worker = worker.parse().unwrap();
        let mut client = Self { socket, worker };
        client.hears(&message(number, 0));
        client
    }

    fn hears(&mut self, expected: &[u8]) {
        let mut back = vec![0; expected.len()];
        self.socket.read_exact(&mut back).unwrap();
        assert!(back == expected, "other bytes came back");
    }

    fn says(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).unwrap();
    }
}

/// A thousand connections are handed over while they carry data, and outlive the process that accepted them. Each name has one
/// worker.
#[test]
fn a_thousand_connections_move_and_outlive_their_acceptor() {
    const CLIENTS: usize = 1000;
    let Some(mut lab) = Lab::new("handover") else {
        return;
    };
    lab.start_by(POLICY);
    let mut prefork = Prefork::start(&lab);
    let sockets: Vec<_> = (0..CLIENTS).map(|n| open(&lab, n)).collect();
    let clients = sockets.into_iter().zip(0..);
    let mut clients: Vec<_> = clients
        .map(|(socket, n)| Client::greeted(socket, n))
        .collect();
    let mut workers = HashMap::new();
    for (n, client) in clients.iter().enumerate() {
        let worker = *workers.entry(n % 10).or_insert(client.worker);
        assert_eq!(worker, client.worker, "a name has two workers");
    }
    let different: std::collections::HashSet<_> = workers.values().collect();
    assert!(different.len() > 1, "one worker has all names");
    prefork.end_acceptor();
    for number in 1..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.says(&message(n, number));
        }
        for (n, client) in clients.iter_mut().enumerate() {
            client.hears(&message(n, number));
        }
    }
    for mut client in clients {
        client.socket.get_mut().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.socket.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
    prefork.all_end();
}

/// A worker is killed: its clients are told as soon as they say something, and others get its names.
#[test]
fn the_clients_of_a_process_that_dies_get_resets() {
    let Some(mut lab) = Lab::new("heirs") else {
        return;
    };
    lab.start_by(POLICY);
    let mut prefork = Prefork::start(&lab);
    let mut client = Client::greeted(open(&lab, 0), 0);
    kill_process(Pid::from_raw(client.worker).unwrap(), Signal::KILL).unwrap();
    client.says(b"are you there?");
    let end = client.socket.read(&mut [0; 100]).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    let again = Client::greeted(open(&lab, 0), 0);
    assert_ne!(again.worker, client.worker);
    drop(again);
    prefork.end_acceptor();
    prefork.all_end();
}

/// While the daemon is away a connection is dropped, and no process ends: with the next daemon they go on.
#[test]
fn the_workers_outlive_the_daemon() {
    let Some(mut lab) = Lab::new("workers") else {
        return;
    };
    lab.start_by(POLICY);
    let mut prefork = Prefork::start(&lab);
    let mut client = Client::greeted(open(&lab, 0), 0);
    let is_served = |lab: &Lab| {
        let mut socket = lab.dial(7).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut line = String::new();
        let said = socket.write_all(b"client 0\n");
        said.is_ok() && matches!(BufReader::new(socket).read_line(&mut line), Ok(1..))
    };
    lab.kill();
    // More than there are workers.
    for _ in 0..5 {
        assert!(!is_served(&lab));
    }
    lab.start_by(POLICY);
    assert!(within(|| is_served(&lab)));
    client.says(b"still there");
    client.hears(b"still there");
    assert_eq!(Client::greeted(open(&lab, 0), 0).worker, client.worker);
    drop(client);
    prefork.end_acceptor();
    prefork.all_end();
}

/// A stack of the daemon's in this thread.
fn attach(lab: &Lab) -> Net {
    attach_at(lab.socket())
}

fn attach_at(socket: PathBuf) -> Net {
    let daemon = Daemon {
        socket,
        ..Daemon::new(Role::Connect(Vec::new()))
    };
    Net::attach(daemon).unwrap()
}

/// A connection, by its two ends.
fn accept(lab: &Lab, listener: &net::TcpListener) -> (net::TcpStream, TcpStream) {
    let ends = thread::scope(|scope| {
        let dialled = scope.spawn(|| lab.dial(7).unwrap());
        let (ours, _) = listener.accept().unwrap();
        (ours, dialled.join().unwrap())
    });
    ends.1.set_read_timeout(Some(PATIENCE)).unwrap();
    ends
}

/// Says something on a connection and hears it at the other end, both ways.
fn talk(ours: &mut net::TcpStream, theirs: &mut TcpStream) {
    let mut heard = [0; 4];
    theirs.write_all(b"ping").unwrap();
    ours.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ping");
    ours.write_all(b"pong").unwrap();
    theirs.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"pong");
}

/// All that a giver says before it is answered.
fn overhear(socket: &mut UnixStream) -> Vec<u8> {
    let mut said = vec![0; 25];
    socket.read_exact(&mut said).unwrap();
    let length = u32::from_le_bytes(said[21..].try_into().unwrap());
    said.resize(25 + length as usize, 0);
    socket.read_exact(&mut said[25..]).unwrap();
    said
}

/// Has the taker hear this, and gives what comes of it.
fn takes(net: &Net, said: &[u8]) -> Result<(), ErrorKind> {
    let (mut giver, taker) = UnixStream::pair().unwrap();
    giver.write_all(said).unwrap();
    giver.shutdown(Shutdown::Write).unwrap();
    let taken = net::TcpStream::take_over(net, &taker);
    taken.map(drop).map_err(|error| error.kind())
}

/// Whatever the other process does, the connection is with one of the two; and nobody takes what was not given to it.
#[test]
fn what_is_not_taken_stays_and_what_was_not_given_is_refused() {
    let Some(mut lab) = Lab::new("giving") else {
        return;
    };
    lab.start_by(POLICY);
    let (giver, taker) = (attach(&lab), attach(&lab));
    let listener = net::TcpListener::bind(&giver, "0.0.0.0:7").unwrap();
    let (mut ours, mut theirs) = accept(&lab, &listener);
    talk(&mut ours, &mut theirs);
    // Not while a clone could go on with it.
    let (near, _far) = UnixStream::pair().unwrap();
    let clone = ours.try_clone().unwrap();
    let not = ours.hand_over(&near).unwrap_err();
    assert_eq!(not.error.kind(), ErrorKind::InvalidInput);
    ours = not.stream;
    drop(clone);
    // The other process answers no, ends without an answer, says what is no answer, is silent.
    let mut said = Vec::new();
    for (answer, kind) in [
        (&b"R\x03why"[..], ErrorKind::ConnectionRefused),
        (b"", ErrorKind::UnexpectedEof),
        (b"?", ErrorKind::InvalidData),
    ] {
        (ours, said) = not_taken(ours, &mut theirs, answer, kind);
        talk(&mut ours, &mut theirs);
    }
    let (near, far) = UnixStream::pair().unwrap();
    near.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let NotHandedOver { stream, error } = ours.hand_over(&near).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    ours = stream;
    // Too late: the giver has it again, and the ticket is of no use.
    let late = net::TcpStream::take_over(&taker, &far).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::PermissionDenied);
    talk(&mut ours, &mut theirs);
    changed_bytes_are_refused(&taker, &said);
    // While it is offered, by its ticket; later that is of no use.
    let other_port = |said: &mut Vec<u8>| said[25 + 10 + 34] ^= 1;
    let (near, mut far) = UnixStream::pair().unwrap();
    let not = thread::scope(|scope| {
        let lab = &lab;
        scope.spawn(move || {
            let mut said = overhear(&mut far);
            other_port(&mut said);
            let taken = takes(&attach(lab), &said);
            assert_eq!(taken, Err(ErrorKind::InvalidInput));
            far.write_all(b"R\x02no").unwrap();
        });
        ours.hand_over(&near).unwrap_err()
    });
    ours = not.stream;
    talk(&mut ours, &mut theirs);
    assert_eq!(takes(&taker, &said), Err(ErrorKind::PermissionDenied));
    // It is given at last; and what was overheard is of no use to another.
    let (near, far) = UnixStream::pair().unwrap();
    let taking = thread::scope(|scope| {
        let lab = &lab;
        let theirs = &mut theirs;
        let taking = scope.spawn(move || {
            let net = attach(lab);
            let mut stream = net::TcpStream::take_over(&net, &far).unwrap();
            talk(&mut stream, theirs);
            stream.shutdown(Shutdown::Write).unwrap();
        });
        ours.hand_over(&near).unwrap();
        taking.join()
    });
    taking.unwrap();
    assert_eq!(theirs.read(&mut [0; 10]).unwrap(), 0, "its end");
    assert_eq!(takes(&taker, &said), Err(ErrorKind::PermissionDenied));
}

/// The other process answers this to a connection that is handed over: its giver has it again, with what was unread. Also what was
/// said to the other process.
fn not_taken(
    mut ours: net::TcpStream,
    theirs: &mut TcpStream,
    answer: &'static [u8],
    kind: ErrorKind,
) -> (net::TcpStream, Vec<u8>) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let other = thread::spawn(move || {
        let said = overhear(&mut far);
        far.write_all(answer).unwrap();
        said
    });
    theirs.write_all(b"before").unwrap();
    while !matches!(ours.peek(&mut [0; 10]), Ok(6)) {}
    let NotHandedOver { stream, error } = ours.hand_over(&near).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    ours = stream;
    let said = other.join().unwrap();
    let mut before = [0; 6];
    ours.read_exact(&mut before).unwrap();
    assert_eq!(&before, b"before");
    (ours, said)
}

/// A ticket that nobody wrote, no ticket, bytes of another connection, damaged ones.
fn changed_bytes_are_refused(taker: &net::Net, said: &[u8]) {
    let changed = |at: usize, bit: u8| {
        let mut changed = said.to_vec();
        changed[at] ^= bit;
        changed
    };
    let mut without = changed(4, 1);
    without[5..21].fill(0);
    for (bytes, kind) in [
        (changed(9, 1), ErrorKind::PermissionDenied),
        (without, ErrorKind::Unsupported),
        (changed(0, 1), ErrorKind::InvalidData),
        (changed(25, 1), ErrorKind::InvalidData),
    ] {
        assert_eq!(takes(taker, &bytes), Err(kind));
    }
}

/// Hears what a giver says, has a taker hear it, and hears what that one says.
fn pass_on(giver: &mut UnixStream, taker: &mut UnixStream) -> [u8; 1] {
    let said = overhear(giver);
    taker.write_all(&said).unwrap();
    let mut answer = [0];
    taker.read_exact(&mut answer).unwrap();
    answer
}

/// A process that takes the packets of a connection and then refuses it gets none of them when another takes it; nor are those
/// that refuse too many for it.
#[test]
fn the_packets_go_to_the_one_that_takes_it_however_many_have_refused() {
    let Some(mut lab) = Lab::new("refusing") else {
        return;
    };
    lab.start_by(POLICY);
    let giver = attach(&lab);
    let listener = net::TcpListener::bind(&giver, "0.0.0.0:7").unwrap();
    let (mut ours, mut theirs) = accept(&lab, &listener);
    for _ in 0..100 {
        let (near, mut far) = UnixStream::pair().unwrap();
        let refusing = thread::spawn(move || {
            overhear(&mut far);
            far.write_all(b"R\x02no").unwrap();
        });
        let not = ours.hand_over(&near).unwrap_err();
        assert_eq!(not.error.kind(), ErrorKind::ConnectionRefused, "{not}");
        ours = not.stream;
        refusing.join().unwrap();
    }
    thread::scope(|scope| {
        let lab = &lab;
        let (near, mut heard) = UnixStream::pair().unwrap();
        let (mut between, far) = UnixStream::pair().unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let (say, hear) = mpsc::channel();
        scope.spawn(move || {
            let net = attach(lab);
            let stream = net::TcpStream::take_over(&net, &far).unwrap();
            say.send("has its packets").unwrap();
            let _ = ended.recv();
            drop(stream);
        });
        scope.spawn(move || {
            assert_eq!(&pass_on(&mut heard, &mut between), b"T");
            drop(between);
            assert_eq!(hear.recv(), Ok("has its packets"));
            heard.write_all(b"R\x02no").unwrap();
        });
        let not = ours.hand_over(&near).unwrap_err();
        assert_eq!(not.error.kind(), ErrorKind::ConnectionRefused, "{not}");
        ours = not.stream;
        talk(&mut ours, &mut theirs);
        let (near, far) = UnixStream::pair().unwrap();
        scope.spawn(move || {
            let net = attach(lab);
            let mut stream = net::TcpStream::take_over(&net, &far).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            talk(&mut stream, &mut theirs);
            drop(end);
            talk(&mut stream, &mut theirs);
        });
        ours.hand_over(&near).unwrap();
    });
}

/// A giver that does not say that it has let go does not hold the taker.
#[test]
fn a_taker_goes_on_without_a_word_of_the_giver() {
    let Some(mut lab) = Lab::new("wordless") else {
        return;
    };
    lab.start_by(POLICY);
    let giver = attach(&lab);
    let listener = net::TcpListener::bind(&giver, "0.0.0.0:7").unwrap();
    let (ours, mut theirs) = accept(&lab, &listener);
    let (near, mut heard) = UnixStream::pair().unwrap();
    let (mut between, far) = UnixStream::pair().unwrap();
    let silent = thread::spawn(move || {
        let answer = pass_on(&mut heard, &mut between);
        heard.write_all(&answer).unwrap();
        between
    });
    let (say, hear) = mpsc::channel();
    let socket = lab.socket();
    thread::spawn(move || {
        let net = attach_at(socket);
        let mut stream = net::TcpStream::take_over(&net, &far).unwrap();
        talk(&mut stream, &mut theirs);
        say.send("goes on").unwrap();
    });
    ours.hand_over(&near).unwrap();
    let _open = silent.join().unwrap();
    assert_eq!(hear.recv_timeout(PATIENCE), Ok("goes on"));
}

/// Another user's program, which may have no such port, takes connections by their tickets. Those go on while the daemon is away;
/// none can be given then, and it stays.
#[test]
fn another_user_takes_it_and_the_daemon_may_go_and_come() {
    const OTHER: u32 = 65_533;
    let policy = format!("{POLICY}[[allow]]\nuser = \"{OTHER}\"\nports = [\"9\"]\n");
    let Some(mut lab) = Lab::new("absent") else {
        return;
    };
    lab.start_by(&policy);
    let net = attach(&lab);
    let listener = net::TcpListener::bind(&net, "0.0.0.0:7").unwrap();
    let (ours, mut theirs) = accept(&lab, &listener);
    let (mut second, mut its_peer) = accept(&lab, &listener);
    let (near, far) = UnixStream::pair().unwrap();
    let (say, hear) = mpsc::channel();
    let (socket, mut seconds_peer) = (lab.socket(), its_peer.try_clone().unwrap());
    let other = thread::spawn(move || {
        let user = Uid::from_raw(OTHER);
        set_thread_res_uid(user, user, user).unwrap();
        let net = attach_at(socket);
        let mut first = net::TcpStream::take_over(&net, &far).unwrap();
        talk(&mut first, &mut theirs);
        say.send("has the first").unwrap();
        let mut second = loop {
            match net::TcpStream::take_over(&net, &far) {
                Ok(stream) => break stream,
                // The giver has found the daemon again before us.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Other, "{error}"),
            }
        };
        talk(&mut second, &mut seconds_peer);
        talk(&mut first, &mut theirs);
    });
    ours.hand_over(&near).unwrap();
    assert_eq!(hear.recv(), Ok("has the first"));
    lab.kill();
    let not = second.hand_over(&near).unwrap_err();
    assert_eq!(not.error.kind(), ErrorKind::Other, "{}", not.error);
    second = not.stream;
    talk(&mut second, &mut its_peer);
    lab.start_by(&policy);
    let mut again = Some(second);
    let given = within(|| {
        let mut stream = again.take().unwrap();
        // The stack runs, and finds the daemon.
        talk(&mut stream, &mut its_peer);
        again = stream.hand_over(&near).err().map(|not| not.stream);
        again.is_none()
    });
    assert!(given, "the daemon is not found again");
    other.join().unwrap();
}
