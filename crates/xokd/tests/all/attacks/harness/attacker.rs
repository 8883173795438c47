//! The hostile process: how it is started, and how the two sides of a case talk.
//!
//! By datagrams over a pair of sockets, one for each line. Anyone who waits for a line for two minutes gives up: that
//! is a bound for broken tests, not a measure of anything.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use exos_host::children::end_with_us;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::attacks::program::{Connection, Program};

/// The user that hostile programs are: nobody.
pub const NOBODY: u32 = 65_534;
/// Another user, who is allowed the same.
pub const SOMEBODY: u32 = 65_533;

/// A third, who may claim ports and nothing else.
pub const ANYBODY: u32 = 65_532;

/// Which case a process is to attack in, and where.
const CASE: &str = "EXOS_ATTACK_CASE";
const SOCKET: &str = "EXOS_ATTACK_SOCKET";
const ROLE: &str = "EXOS_ATTACK_ROLE";

/// Longer than anything here takes on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A hostile process, seen from here.
pub struct Attacker {
    child: Option<Child>,
    line: OwnedFd,
}

impl Attacker {
    /// Starts a process of this user that runs the attack of `case`, which may have several roles in it.
    pub fn start(case: &str, socket: &Path, uid: u32, role: &str) -> Self {
        let (line, theirs) = pair();
        // By its descriptor: the user may not be allowed to walk to where the executable lies.
        let this = std::env::current_exe().and_then(File::open);
        let this = this.expect("we run");
        let mut command = Command::new(format!("/proc/self/fd/{}", this.as_raw_fd()));
        command.args(["--exact", case, "--nocapture"]);
        command.env(CASE, case).env(SOCKET, socket).env(ROLE, role);
        command.current_dir("/").uid(uid).gid(uid);
        command.stdin(theirs).stdout(Stdio::null());
        end_with_us(&mut command);
        let child = command.spawn().expect("root may become anybody");
        Self {
            child: Some(child),
            line,
        }
    }

    /// What it says next.
    pub fn says(&mut self) -> String {
        hear(&self.line).unwrap_or_else(|| panic!("the attacker has ended: {}", self.end()))
    }

    /// It says this next.
    pub fn must_say(&mut self, what: &str) {
        assert_eq!(self.says(), what);
    }

    /// Whether it has something to say, or has ended, within a time.
    pub fn has_spoken_within(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(&self.line, PollFlags::IN)];
        let time = time.try_into().expect("it is short");
        poll(&mut fds, Some(&time)) == Ok(1)
    }

    /// Tells it something.
    pub fn tell(&self, what: &str) {
        say(&self.line, what);
    }

    /// It did everything that it wanted to.
    pub fn finish(mut self) {
        let status = self.end();
        assert!(status.success(), "the attacker failed: {status}");
    }

    /// It ended by killing itself.
    pub fn has_killed_itself(mut self) {
        let status = self.end();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    }

    fn end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it ends once");
        child.wait().expect("ours")
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The hostile process, seen from within.
pub struct Hostile {
    line: OwnedFd,
    socket: PathBuf,
    /// What it is to do, of an attack with several roles.
    pub role: String,
}

impl Hostile {
    /// When this process is the one for `case`.
    pub fn of(case: &str) -> Option<Self> {
        if std::env::var(CASE).ok()? != case {
            return None;
        }
        let caps = exos_host::caps::effective().expect("readable");
        assert!(caps.is_empty(), "a hostile program with {caps:?}");
        let line = std::io::stdin().as_fd().try_clone_to_owned();
        Some(Self {
            line: line.expect("a descriptor"),
            socket: std::env::var_os(SOCKET)?.into(),
            role: std::env::var(ROLE).ok()?,
        })
    }

    /// Says something to the case.
    pub fn say(&self, what: &str) {
        say(&self.line, what);
    }

    /// What the case says next.
    pub fn hear(&self) -> String {
        hear(&self.line).expect("the case goes on")
    }

    /// Waits until the case says this.
    pub fn wait_for(&self, what: &str) {
        assert_eq!(self.hear(), what);
    }

    /// A connection with the daemon.
    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket).expect("the daemon listens to everybody")
    }

    /// A connection that is there at once or not at all.
    pub fn connect_now(&self) -> Option<Connection> {
        Connection::open_now(&self.socket)
    }

    /// A slot, honestly come by.
    pub fn attach(&self) -> Program {
        Program::attach(self.connect())
    }

    /// The end, in the middle of things.
    pub fn kill_itself(&self) -> ! {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        unreachable!("killed")
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
    let (one, other) = pair.expect("a pair of sockets");
    for end in [&one, &other] {
        set_socket_timeout(end, Timeout::Recv, Some(PATIENCE)).expect("a socket");
    }
    (one, other)
}

fn say(line: &OwnedFd, what: &str) {
    let sent = rustix::net::send(line, what.as_bytes(), SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(what.len()), "nobody listens to {what:?}");
}

/// `None` when the other side has ended.
fn hear(line: &OwnedFd) -> Option<String> {
    let mut buffer = vec![0; 4096];
    match rustix::net::recv(line, &mut buffer[..], RecvFlags::empty()) {
        Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => None,
        Ok((len, _)) => Some(String::from_utf8(buffer[..len].to_vec()).expect("text")),
        Err(rustix::io::Errno::INTR) => hear(line),
        Err(error) => panic!("nothing is said: {error}"),
    }
}
