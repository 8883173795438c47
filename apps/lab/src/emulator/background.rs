//! An emulator in a process of its own: started by `exos lab up`, outliving it.
//!
//! The process is this program again with the hidden command `lab emulate`. It reads the settings as JSON from
//! its standard input, says `ready` or what is wrong on its standard output, and then only runs: until it is
//! asked to stop at its control socket, is killed, or the interfaces go.

use super::running::Running;
use super::statistics::Emulation;
use crate::limits::START_TIMEOUT;
use exos_host::netns::NetNs;
use exos_host::{Error, Result, children, error::Context as _};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGUSR1;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// What the process says when it forwards.
const READY: &str = "ready\n";

/// Starts the process for the lab of this name, and waits until it forwards.
pub(crate) fn start(lab: &str, emulation: &Emulation) -> Result<()> {
    let what = || "cannot start the emulator in the background";
    let program = std::env::current_exe().context(what)?;
    let mut command = Command::new(program);
    command
        .args(["lab", "emulate", "--name", lab])
        .current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    children::outlive_us(&mut command);
    let mut child = command.spawn().context(what)?;
    let settings = serde_json::to_vec(emulation).expect("plain data becomes JSON");
    let mut stdin = child.stdin.take().expect("piped");
    let answer = match stdin.write_all(&settings) {
        Ok(()) => {
            drop(stdin);
            read_answer(&mut child)
        }
        Err(e) => Err(Error::io(what(), e)),
    };
    match answer.as_deref() {
        Ok(READY) => Ok(()),
        _ => {
            let _ = child.kill();
            let _ = child.wait();
            let reason = answer?;
            Err(Error::new(format!(
                "{}: {}",
                what(),
                match reason.trim() {
                    "" => "it ended without saying why",
                    reason => reason,
                }
            )))
        }
    }
}

/// What it says until it closes its output.
fn read_answer(child: &mut Child) -> Result<String> {
    let what = || "cannot hear of the emulator in the background";
    let mut stdout = child.stdout.take().expect("piped");
    let mut answer = String::new();
    let timeout = Timespec::try_from(START_TIMEOUT).ok();
    let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
    if poll(&mut fds, timeout.as_ref()).context(what)? == 0 {
        let seconds = START_TIMEOUT.as_secs();
        return Err(Error::new(format!(
            "the emulator does not forward after {seconds} seconds"
        ))
        .mend("the machine is overloaded: try again"));
    }
    stdout.read_to_string(&mut answer).context(what)?;
    Ok(answer)
}

/// The process itself.
pub(crate) fn run(lab: &str) -> Result<()> {
    let running = match open(lab) {
        Ok(running) => running,
        Err(error) => {
            let _ = write!(std::io::stdout(), "{error}");
            return Err(error);
        }
    };
    // There is nowhere to print to; anyone who wants the statistics asks `exos lab status`. The signal that asks an
    // emulator in the foreground must not end this one, as it would by default.
    signal_hook::flag::register(SIGUSR1, Arc::default()).context(|| "cannot catch signals")?;
    let _ = std::io::stdout().write_all(READY.as_bytes());
    children::close_standard_streams().context(|| "cannot leave the terminal")?;
    running.wait();
    Ok(())
}

fn open(lab: &str) -> Result<Running> {
    let mut settings = String::new();
    std::io::stdin()
        .read_to_string(&mut settings)
        .context(|| "cannot read the settings")?;
    let emulation: Emulation = serde_json::from_str(&settings).map_err(|e| {
        Error::new(format!("the settings cannot be read: {e}"))
            .mend("this command is for `exos lab up`, which starts it")
    })?;
    let middle = NetNs::open(&crate::settings::middle_namespace(lab))?;
    // So that the process shows among those of the namespace.
    middle.enter()?;
    Running::start(lab, &emulation)
}
