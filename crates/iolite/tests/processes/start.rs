//! Processes that have one end of a pipe: this program once more, with one of its tests.

use exos_iolite::Pool;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "EXOS_IOLITE_ROLE";

/// What this process is to do, where another has started it ([`start`]); the socket is its standard input.
pub fn role() -> Option<(String, OwnedFd)> {
    let role = std::env::var(ROLE).ok()?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    Some((role, socket.expect("a descriptor")))
}

/// Starts this program with one test of it, which is to find its [`role`], and a socket.
pub fn start(test: &str, role: &str, socket: OwnedFd) -> Child {
    command(test, role, socket).spawn().expect("it starts")
}

/// As [`start`], with a second socket, which is its standard error.
pub fn start_with(test: &str, role: &str, socket: OwnedFd, second: OwnedFd) -> Child {
    let mut command = command(test, role, socket);
    command
        .stderr(Stdio::from(second))
        .spawn()
        .expect("it starts")
}

fn command(test: &str, role: &str, socket: OwnedFd) -> Command {
    let this = std::env::current_exe().expect("this program has a file");
    let mut command = Command::new(this);
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role);
    command.stdin(Stdio::from(socket)).stdout(Stdio::null());
    command
}

/// All buffers come back, and no member is left, once all that had any have ended or let go.
pub fn assert_all_back(pool: &Pool, why: &str) {
    let end = Instant::now() + Duration::from_secs(20);
    let is_over =
        |usage: exos_iolite::Usage| usage.free == pool.shape().buffers && usage.members == 0;
    while !is_over(pool.look()) {
        assert!(Instant::now() < end, "{why}: {:?}", pool.look());
        std::thread::sleep(Duration::from_micros(100));
    }
}
