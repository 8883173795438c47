//! The place of a case: a daemon, a wire, the host at its far end, an honest program; and what holds at the end.
//!
//! ```text
//! namespace a                                        namespace b
//! daemon on wire: 10.79.0.7, 10.79.0.8, fd79::7      wire: 10.79.0.2, a Linux host, and everything seen (FarEnd)
//!   the programs' slots
//! ```
//!
//! Hostile programs may claim ports of 10.79.0.7 and fd79::7 from 1024 upwards and look at their own packets; root may
//! do everything. Hostile programs may also claim filters within UDP to ports 5000 to 5099. At the end of every case, whatever it did, the daemon answers, no slot and no interface of the
//! hostile programs is left, and a stopped daemon leaves nothing.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use exos_filter::gate::limits::SLOTS;
use exos_host::bpf::Map;
use exos_host::netlink::VethEnd;
use exos_host::netns::NetNs;
use exos_wire::Mac;
use exos_xok::message::{Answer, Request, VERSION};
use exos_xokd::limits::MESSAGES_PER_TURN;
use serde_json::Value;

use crate::attacks::attacker::{Attacker, Hostile, NOBODY};
use crate::attacks::far_end::FarEnd;
use crate::attacks::program::{Connection, Program};
pub use crate::lab::within;
use crate::packets::FrameEnds;

/// The address that hostile programs may claim ports of.
pub const OURS: &str = "10.79.0.7";
/// One that only root may claim ports of.
pub const ROOTS: &str = "10.79.0.8";
/// The IPv6 address that hostile programs may claim ports of.
pub const OURS_V6: &str = "fd79::7";
/// The host at the far end.
pub const PEER: &str = "10.79.0.2";
/// And its other address.
pub const PEER_V6: &str = "fd79::2";
/// Where the peer's port is that everything is sent to.
pub const PEER_PORT: u16 = 9;
/// The far end's Ethernet address.
pub const PEER_MAC: Mac = Mac([2, 0, 0, 0, 79, 2]);
/// The interface's, and so that of all programs.
pub const OUR_MAC: Mac = Mac([2, 0, 0, 0, 79, 7]);

/// In everything that nobody may see.
pub const MARK: &[u8] = b"if you read this the attack has worked";

const POLICY: &str = r#"
[[interface]]
name = "wire"
addresses = ["10.79.0.7/24", "10.79.0.8/24", "fd79::7/64"]
[[allow]]
user = "0"
ports = ["1-65535"]
filters = ["all"]
dump = "all"
[[allow]]
user = "65534"
addresses = ["10.79.0.7", "fd79::7"]
filters = ["udp and dst portrange 5000-5099", "icmp and dst host 10.79.0.8"]
dump = "own"
[[allow]]
user = "65533"
addresses = ["10.79.0.7", "fd79::7"]
filters = ["udp and dst portrange 5000-5099"]
dump = "none"
[[allow]]
user = "65532"
addresses = ["10.79.0.7"]
"#;

/// One case at a time: each has the machine to itself, as far as this program goes.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a case: the attack in a process of its own without privilege, each time that [`World::attacker`] is called,
/// and the rest here. The case is known by the name of the function that calls this.
pub fn case<A: FnOnce(&Hostile)>(attack: A, judge: impl FnOnce(&World)) {
    let name = std::any::type_name::<A>();
    let name = name.trim_start_matches("all::");
    let name = name.trim_end_matches("::{{closure}}");
    if let Some(hostile) = Hostile::of(name) {
        return attack(&hostile);
    }
    if let Some(world) = World::new(name) {
        judge(&world);
        world.end();
    }
}

/// A daemon on a wire.
pub struct World {
    case: String,
    name: String,
    folder: PathBuf,
    daemon: RefCell<Option<Child>>,
    /// The host at the other end.
    pub far: FarEnd,
    asker: RefCell<Option<Connection>>,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    /// `None` when this process may not make one.
    fn new(case: &str) -> Option<Self> {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let number = {
            let mut number = NUMBER.lock().expect("nobody panics with it");
            *number += 1;
            *number
        };
        let name = format!("xokd-attacks-{}-{number}", std::process::id());
        let side = |side| format!("{name}-{side}");
        if !rustix::process::geteuid().is_root() || NetNs::create(&side("a")).is_err() {
            eprintln!("SKIPPED {case}: needs root");
            return None;
        }
        NetNs::create(&side("b")).expect("a second one");
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).expect("a folder for the socket");
        std::fs::write(folder.join("policy.toml"), POLICY).expect("room");
        let world = Self {
            case: case.to_owned(),
            far: join(&side("a"), &side("b")),
            name,
            folder,
            daemon: RefCell::new(None),
            asker: RefCell::new(None),
            _turn: turn,
        };
        world.start();
        Some(world)
    }

    /// Starts the daemon and waits until it listens.
    pub fn start(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xokd"));
        command.args(["--namespace", &format!("{}-a", self.name), "--policy"]);
        command.arg(self.folder.join("policy.toml"));
        command.arg("--socket").arg(self.socket());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let said = child.stdout.take().expect("a pipe");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(said));
        assert!(lines.any(|line| line.is_ok_and(|l| l.starts_with("listening"))));
        std::thread::spawn(move || lines.for_each(drop));
        *self.daemon.borrow_mut() = Some(child);
        *self.asker.borrow_mut() = None;
    }

    /// Runs `attack` while the daemon stands still, so that all that is said to it meanwhile is there at once when it
    /// goes on.
    pub fn while_the_daemon_stands<T>(&self, attack: impl FnOnce() -> T) -> T {
        self.signal(rustix::process::Signal::STOP);
        let state = format!("/proc/{}/stat", self.daemon_pid());
        let stands = || std::fs::read_to_string(&state).is_ok_and(|text| text.contains(") T "));
        assert!(within(stands), "it goes on");
        let done = attack();
        self.signal(rustix::process::Signal::CONT);
        done
    }

    /// Kills the daemon.
    pub fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
        let child = self.daemon.borrow_mut().take();
        child.expect("it runs").wait().expect("ours");
    }

    /// Has the far end take what is redirected to it, for as long as this is there: answers of handlers arrive.
    pub fn take_redirected(&self) -> exos_host::bpf::Link {
        let there = NetNs::open(&format!("{}-b", self.name)).expect("it is there");
        crate::live::pass_all(&there)
    }

    /// Has the daemon read another policy.
    pub fn set_policy(&self, change: impl FnOnce(&str) -> String) {
        std::fs::write(self.folder.join("policy.toml"), change(POLICY)).expect("room");
        self.signal(rustix::process::Signal::HUP);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let daemon = self.daemon.borrow();
        let pid = rustix::process::Pid::from_child(daemon.as_ref().expect("it runs"));
        rustix::process::kill_process(pid, signal).expect("it is ours");
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// A hostile process that runs the attack of this case.
    pub fn attacker(&self) -> Attacker {
        self.attacker_as(NOBODY, "")
    }

    /// Has the attack of this case run to its end, of which the hostile process says this.
    pub fn must_be_attacked(&self, said: &str) {
        let mut attacker = self.attacker();
        attacker.must_say(said);
        attacker.finish();
    }

    /// One of several, by user and by what it is to do.
    pub fn attacker_as(&self, uid: u32, role: &str) -> Attacker {
        Attacker::start(&self.case, &self.socket(), uid, role)
    }

    /// A connection of root's.
    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket()).expect("the daemon listens")
    }

    /// An honest program, of root.
    pub fn program(&self) -> Program {
        Program::attach(self.connect())
    }

    /// How everything is, by a report that was made after this was called: the daemon lends one for a while.
    pub fn report(&self) -> Value {
        let called = now_ns();
        loop {
            let report = self.lent_report();
            if report["time_ns"].as_u64() >= Some(called) {
                return report;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The turn of the daemon in which it answered last is over: it hears no more of a user in one than it is asked here.
    pub fn end_turn(&self) {
        let asker = self.connect();
        for _ in 0..=MESSAGES_PER_TURN {
            asker.ask(&Request::Hello { version: VERSION });
        }
    }

    fn lent_report(&self) -> Value {
        let mut asker = self.asker.borrow_mut();
        let asker = asker.get_or_insert_with(|| self.connect());
        let (answer, fds) = asker.ask(&Request::Status);
        let (Answer::Report { .. }, Some(fd)) = (&answer, fds.into_iter().next()) else {
            panic!("no report: {answer:?}")
        };
        let text = std::io::read_to_string(std::fs::File::from(fd)).expect("readable");
        serde_json::from_str(&text).expect("JSON")
    }

    fn listed(&self) -> Vec<Value> {
        let mut report = self.report();
        let slots = report["interfaces"][0]["slots"].take();
        slots.as_array().expect("a list").clone()
    }

    /// The numbers of the slots that are taken.
    pub fn slots(&self) -> Vec<u32> {
        let number = |s: &Value| s["slot"].as_u64().expect("a number") as u32;
        self.listed().iter().map(number).collect()
    }

    /// What is counted of a slot.
    pub fn counted(&self, slot: u32, counter: &str) -> u64 {
        let slots = self.listed();
        let found = slots.iter().find(|s| s["slot"] == slot);
        let counter = &found.expect("it has its slot")["counters"][counter];
        counter.as_u64().expect("a counter of this name")
    }

    /// A counter of a slot comes to this number, and not past it.
    pub fn must_count(&self, slot: u32, counter: &str, expected: u64) {
        within(|| self.counted(slot, counter) >= expected);
        assert_eq!(self.counted(slot, counter), expected, "{counter}");
    }

    /// A counter of the daemon.
    pub fn daemon_counted(&self, counter: &str) -> u64 {
        let report = self.report();
        report["counters"][counter].as_u64().unwrap_or(0)
    }

    /// A counter of the daemon comes to at least this number.
    pub fn daemon_must_count(&self, counter: &str, expected: u64) {
        assert!(
            within(|| self.daemon_counted(counter) >= expected),
            "{counter}: {} of {expected}",
            self.daemon_counted(counter)
        );
    }

    /// The daemon's process.
    pub fn daemon_pid(&self) -> u32 {
        self.daemon.borrow().as_ref().expect("it runs").id()
    }

    /// How many descriptors the daemon has open.
    pub fn daemon_descriptors(&self) -> usize {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.daemon_pid()));
        all.expect("root may look").count()
    }

    /// The interfaces of the daemon's namespace.
    pub fn interfaces(&self) -> Vec<String> {
        let here = NetNs::open(&format!("{}-a", self.name)).expect("it is there");
        let links = here.netlink().and_then(|n| n.links());
        let links = links.expect("they can be listed");
        links.into_iter().map(|link| link.name).collect()
    }

    /// Where the names of the interface's gate are.
    pub fn gate(&self) -> PathBuf {
        let here = NetNs::open(&format!("{}-a", self.name)).and_then(|here| here.inode());
        let ours = format!("{}-", here.expect("it is there"));
        let is_ours = |gate: &PathBuf| {
            gate.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with(&ours))
        };
        let mut gates = exos_xokd::gate::folders().into_iter();
        gates.find(is_ours).expect("it has a gate")
    }

    /// How many slots have a program that completes answers of their handlers.
    pub fn second_stages(&self) -> usize {
        let programs = Map::open_pinned(&self.gate().join("second_stages"));
        let programs = programs.expect("it is there");
        let has_one = |slot: &u32| matches!(programs.lookup(&slot.to_ne_bytes()), Ok(Some(_)));
        (0..SLOTS).filter(has_one).count()
    }

    /// What must hold whatever happened.
    fn end(self) {
        let gone = within(|| self.slots().is_empty());
        assert!(gone, "slots are left: {:?}", self.slots());
        self.signal(rustix::process::Signal::TERM);
        let mut child = self.daemon.borrow_mut().take().expect("it runs still");
        let status = child.wait().expect("it ends");
        assert!(status.success(), "the daemon ended with {status}");
        assert_eq!(self.interfaces(), ["lo", "wire"], "nothing is left");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.borrow_mut().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let side = |side| format!("{}-{side}", self.name);
        let mut clean = Command::new(env!("CARGO_BIN_EXE_xokd"));
        clean.args(["--clean", "--namespace", &side("a"), "--socket"]);
        let _ = clean.arg(self.socket()).stdout(Stdio::null()).status();
        for namespace in [side("a"), side("b")] {
            let _ = NetNs::delete(&namespace);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The wire between two namespaces.
fn join(a: &str, b: &str) -> FarEnd {
    let [a, b] = [a, b].map(|name| NetNs::open(name).expect("just made"));
    let [left, right] = [&a, &b].map(|ns| ns.netlink().expect("a socket"));
    let near = VethEnd {
        mac: Some(OUR_MAC.0),
        ..VethEnd::named("wire")
    };
    let far = VethEnd {
        mac: Some(PEER_MAC.0),
        netns: Some(b.as_fd()),
        ..VethEnd::named("wire")
    };
    left.create_veth_pair(&near, &far).expect("a pair");
    for setting in ["all", "default", "wire"] {
        // An address is there at once, without anybody being asked whether they have it.
        let setting = format!("net/ipv6/conf/{setting}/accept_dad");
        b.set_sysctl(&setting, "0").expect("IPv6 is there");
    }
    let index = right.link_by_name("wire").expect("it is there").index;
    for (ip, prefix) in [(PEER, 24), (PEER_V6, 64)] {
        let ip = ip.parse().expect("an address");
        right.add_address(index, ip, prefix).expect("free");
    }
    for netlink in [&left, &right] {
        let index = netlink.link_by_name("wire").expect("it is there").index;
        netlink.set_up(index, true).expect("it is ours");
    }
    FarEnd::open(&b, index)
}

/// From a port of `ip` to the peer, as an honest program with that grant sends it.
pub fn from_us(ip: &str, port: u16) -> FrameEnds {
    let from: SocketAddr = (ip.parse::<std::net::IpAddr>().expect("an address"), port).into();
    let peer = if from.is_ipv4() { PEER } else { PEER_V6 };
    FrameEnds {
        from_mac: OUR_MAC,
        to_mac: PEER_MAC,
        from,
        to: (
            peer.parse::<std::net::IpAddr>().expect("an address"),
            PEER_PORT,
        )
            .into(),
    }
}

/// From the peer to a port of `ip`.
pub fn to_us(ip: &str, port: u16) -> FrameEnds {
    let back = from_us(ip, port);
    FrameEnds {
        from_mac: back.to_mac,
        to_mac: back.from_mac,
        from: back.to,
        to: back.from,
    }
}

/// The time as the daemon has it.
fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A frame carries the mark of an attack.
pub fn is_marked(frame: &[u8]) -> bool {
    frame.windows(MARK.len()).any(|bytes| bytes == MARK)
}

/// None of these frames is from the attack.
pub fn must_be_clean(frames: &[Vec<u8>]) {
    for frame in frames {
        assert!(!is_marked(frame), "the attack was seen: {frame:02x?}");
    }
}
