//! A service in a process of its own, which can be silent and end: this program, of which that runs one test.

use crate::common::{AT_MOST, Place};
use exos_file_cache::limits::MEMORY_MIN;
use exos_file_cache::{Client, Options, Service};
use exos_replacement::PolicyName;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, set_parent_process_death_signal, waitid,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where it serves.
const SOCKET: &str = "EXOS_TEST_FILE_CACHE";

pub struct Apart {
    pub place: Place,
    child: Child,
}

impl Apart {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room");
        let socket = folder.path().join("file-cache.sock");
        let child = begin(&socket);
        let place = Place { folder, socket };
        Self { place, child }
    }

    /// It is silent from now on: all its threads stand still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let child = WaitId::Pid(Pid::from_child(&self.child));
        waitid(child, WaitIdOptions::STOPPED).expect("it is ours");
    }

    /// It is killed, and there is another.
    pub fn begin_again(&mut self) {
        end(&mut self.child);
        self.child = begin(&self.place.socket);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is ours");
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn begin(socket: &Path) -> Child {
    let program = std::env::current_exe().expect("it runs");
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", "apart::serves"]);
    command.env(SOCKET, socket).stdout(Stdio::null());
    let child = command.spawn().expect("it starts");
    let end = Instant::now() + AT_MOST;
    while Client::connect(socket).is_err() {
        assert!(Instant::now() < end, "it does not serve");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn end(child: &mut Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}

#[test]
#[ignore = "this is the service of others"]
fn serves() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("it is known");
    let options = Options {
        memory: MEMORY_MIN,
        policy: PolicyName::S3Fifo.policy(),
        users: Vec::new(),
    };
    let mut service = Service::new(&socket, options).expect("the socket is free");
    service.run().expect("it goes on");
}
