//! Starting programs on a core, and ending them whatever happens, also when this program is killed.

use crate::limits::{POLL_INTERVAL, STOP_TIMEOUT};
use exos_host::{Error, Result, affinity, children, error::Context as _};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set when the user wants to stop. Anyone who waits looks at it, so that everything started is ended in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Reacts to SIGINT and SIGTERM from now on.
    pub(crate) fn on_signals() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, interrupt.0.clone())
                .context(|| "cannot watch for signals")?;
        }
        Ok(interrupt)
    }

    /// An error once the user wants to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            Err(Error::new("interrupted; everything is taken down again"))
        } else {
            Ok(())
        }
    }
}

/// A command that starts a program as some user.
pub(crate) fn command_as(uid: u32, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(uid).gid(uid).current_dir("/");
    command
}

/// A running program, ended when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    name: String,
    errors: PathBuf,
}

impl Running {
    /// Starts a command on any of some cores. What it writes to standard error goes to a file.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        cores: &[usize],
        errors: &Path,
    ) -> Result<Self> {
        let what = || format!("cannot start {name}");
        let file = std::fs::File::create(errors).context(what)?;
        command.stdin(Stdio::null()).stderr(file);
        children::end_with_us(&mut command);
        // A child starts on the cores of the thread that starts it, and ends with that thread: this one.
        let ours = affinity::allowed()?;
        affinity::set(cores)?;
        let child = command.spawn().context(what);
        affinity::set(&ours)?;
        let child = child?;
        Ok(Self {
            child,
            name: name.to_owned(),
            errors: errors.to_owned(),
        })
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error, with the last thing it said, when it has ended although it should run.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self
            .child
            .try_wait()
            .context(|| format!("cannot watch {}", self.name))?
        {
            None => Ok(()),
            Some(status) => Err(self.ended(status)),
        }
    }

    fn ended(&self, status: ExitStatus) -> Error {
        let said = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let last = said
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it said nothing");
        Error::new(format!("{} ended ({status}): {last}", self.name))
    }

    /// Waits for the end of a program that ends by itself; its standard output.
    pub(crate) fn output(mut self, timeout: Duration, interrupt: &Interrupt) -> Result<String> {
        let reader = self.child.stdout.take().map(|mut pipe| {
            std::thread::spawn(move || std::io::read_to_string(&mut pipe).unwrap_or_default())
        });
        let status = self.wait(timeout, || interrupt.check())?;
        let status =
            status.ok_or_else(|| Error::new(format!("{} did not end in time", self.name)))?;
        if !status.success() {
            return Err(self.ended(status));
        }
        Ok(reader
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default())
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let name = self.name.clone();
        let what = || format!("cannot end {name}");
        if self.child.try_wait().context(what)?.is_some() {
            return Ok(());
        }
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            kill_process(pid, Signal::TERM).context(what)?;
        }
        if self.wait(STOP_TIMEOUT, || Ok(()))?.is_none() {
            self.child.kill().context(what)?;
            self.child.wait().context(what)?;
            return Err(Error::new(format!(
                "{name} did not end when asked to, and was killed"
            )));
        }
        Ok(())
    }

    /// Waits for the end; `None` when it has not come in time.
    fn wait(
        &mut self,
        timeout: Duration,
        go_on: impl Fn() -> Result<()>,
    ) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(status) = self
                .child
                .try_wait()
                .context(|| format!("cannot watch {}", self.name))?
            {
                return Ok(Some(status));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            go_on()?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            exos_program::error!("{e}");
        }
    }
}

/// The path of a program, also where a user's PATH does not look; otherwise an error that names the package.
pub fn find_program(name: &str, package: &str) -> Result<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    places.extend(["/usr/sbin", "/usr/local/sbin", "/usr/bin"].map(PathBuf::from));
    let found = places
        .into_iter()
        .map(|place| place.join(name))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        Error::new(format!("{name} is not installed"))
            .mend(format!("install it: apt install {package}"))
    })
}

/// What a program says, on either output.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = output.context(|| format!("cannot run {}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// What a program calls itself: the first line that it says to an option that asks for it.
pub(crate) fn version(program: &Path, option: &str) -> Result<String> {
    let said = output_of(program, &[option])?;
    let line = said.lines().next().unwrap_or_default();
    Ok(line.trim_start_matches("nginx version: ").to_owned())
}

/// Those of some that are there, with what each calls itself, and why the others are not.
pub(crate) type Available<T> = (Vec<(T, String)>, Vec<String>);

/// Which of some are there; an error where none is.
pub(crate) fn available<T: Copy>(
    asked: &[T],
    version: impl Fn(T) -> Result<String>,
) -> Result<Available<T>> {
    let (mut there, mut left_out) = (Vec::new(), Vec::new());
    for &one in asked {
        match version(one) {
            Ok(version) => there.push((one, version)),
            Err(error) => left_out.push(error.to_string()),
        }
    }
    match there.is_empty() {
        true => Err(Error::new(left_out.join("; "))),
        false => Ok((there, left_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, errors: &Path) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let core = affinity::allowed().expect("readable")[0];
        Running::start("the script", command, &[core], errors).expect("sh is everywhere")
    }

    fn errors(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("exos-bench-test-{}-{test}", std::process::id()))
    }

    #[test]
    fn output_of_what_ends_and_last_words_of_what_fails() {
        let file = errors("output");
        let interrupt = Interrupt::default();
        let seen = start("echo seen", &file)
            .output(Duration::from_secs(60), &interrupt)
            .expect("it ends well");
        assert_eq!(seen, "seen\n");
        let failed = start("echo first >&2; echo last words >&2; exit 3", &file);
        let error = failed
            .output(Duration::from_secs(60), &interrupt)
            .expect_err("it fails");
        assert!(
            error.what.contains("last words") && error.what.contains('3'),
            "{error}"
        );
        let slow = start("sleep 100", &file)
            .output(Duration::from_millis(50), &interrupt)
            .expect_err("too slow");
        assert!(slow.what.contains("in time"), "{slow}");
        interrupt.0.store(true, Ordering::Relaxed);
        let stopped = start("sleep 100", &file)
            .output(Duration::from_secs(60), &interrupt)
            .expect_err("interrupted");
        assert!(stopped.what.contains("interrupted"), "{stopped}");
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn what_runs_is_ended() {
        let file = errors("end");
        let mut running = start(
            "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done",
            &file,
        );
        running.check().expect("it runs");
        let pid = running.pid();
        running.stop().expect("it ends when asked");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let dropped = start("sleep 100", &file);
        let pid = dropped.pid();
        drop(dropped);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        let error = find_program("no-such-program", "some-package").expect_err("not there");
        assert_eq!(
            error.to_string(),
            "no-such-program is not installed; install it: apt install some-package"
        );
        assert!(find_program("sh", "dash").is_ok());
    }
}
