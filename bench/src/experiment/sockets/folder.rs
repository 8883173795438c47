//! The folder that programs run in, and what is made there for their jobs.

use super::job::{Job, Table};
use crate::stage::scratch::{Scratch, write};
use crate::stage::web::NGINX_CONF;
use exos_host::{Error, Result, error::Context as _};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The kernel's address on side b, where what is served beside the programs is.
pub(super) const PEER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);

/// What comes before each text: an error ends it, programs are found where Debian has them, and `whole`.
const PRELUDE: &str = r#"
set -eo pipefail
PATH=$PATH:/usr/sbin
for folder in /usr/lib/postgresql/*/bin; do PATH=$folder:$PATH; done
whole() { [ "$(wc -c)" = "$bytes" ] || { echo "some bytes are missing" >&2; return 1; }; }
"#;

/// Files of the jobs.
const FILES: [(&str, &str); 5] = [
    ("jobs.py", include_str!("../../../programs/jobs.py")),
    ("jobs.js", include_str!("../../../programs/jobs.js")),
    ("run.py", include_str!("../../../../tests/run/run.py")),
    (
        "languages.go",
        include_str!("../../../../tests/run/languages/languages.go"),
    ),
    (
        "RunLanguages.java",
        include_str!("../../../../tests/run/languages/RunLanguages.java"),
    ),
];

/// Bytes of docs/large for each second of a measurement.
const BYTES_PER_SEC: f64 = 100e6;

/// A folder of a session, and what a measurement is like in it.
pub(super) struct Folder {
    path: PathBuf,
    seconds: f64,
    prepare: BTreeMap<String, String>,
    made: RefCell<BTreeSet<String>>,
}

impl Folder {
    /// With the files of the jobs, and nginx's configuration for what is served on side b.
    pub fn new(scratch: &Scratch, table: Table, seconds: f64) -> Result<Self> {
        let path = scratch.directory("programs")?;
        for (name, text) in FILES {
            write(&path.join(name), text)?;
        }
        let prefix = path.to_string_lossy();
        let web = NGINX_CONF.replace("@ADDRESS@", &format!("{PEER}:8000"));
        let web = web.replace("@TLS@", "").replace("@AIO@", "off");
        let web = web.replace("@DOCUMENTS@", &format!("{prefix}/docs"));
        write(&path.join("web.conf"), web.replace("@PREFIX@", &prefix))?;
        Ok(Self {
            path,
            seconds,
            prepare: table.prepare,
            made: RefCell::default(),
        })
    }

    /// Megabytes of docs/large.
    pub fn megabytes(&self) -> f64 {
        self.seconds * BYTES_PER_SEC / 1e6
    }

    /// Has a command, which ends with bash, run a text here.
    pub fn give(&self, command: &mut Command, text: &str, host: Ipv4Addr) {
        let bytes = self.seconds * BYTES_PER_SEC;
        command.args(["-c", &format!("{PRELUDE}{text}")]);
        command.current_dir(&self.path).env("LC_ALL", "C");
        command.env("host", host.to_string());
        command.env("seconds", self.seconds.to_string());
        command.env("bytes", bytes.to_string());
    }

    /// Makes what a job needs and is not yet there; an error where it cannot be done on this machine.
    pub fn prepare(&self, job: &Job) -> Result<()> {
        for program in job.programs.split(' ') {
            let (name, package) = program.split_once(':').unwrap_or((program, program));
            let found = self.run(&format!("type -P '{name}' || compgen -G '{name}*'"));
            found.map_err(|_| {
                let error = Error::new(format!("{job}: {name} is not installed"));
                error.mend(format!("install it: apt install {package}"))
            })?;
        }
        let names = job.prepare.iter().map(String::as_str);
        for name in ["docs"].into_iter().chain(names) {
            if !self.made.borrow().contains(name) {
                let made = self.run(&self.prepare[name]);
                made.map_err(|error| Error::new(format!("{job}: no {name}: {error}")))?;
                self.made.borrow_mut().insert(name.into());
            }
        }
        Ok(())
    }

    /// Runs a text to its end.
    fn run(&self, text: &str) -> Result<()> {
        let mut command = Command::new("bash");
        self.give(&mut command, text, PEER);
        let output = command.stdin(Stdio::null()).output();
        let output = output.context(|| "cannot run bash")?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(said.lines().last().unwrap_or("it failed"))),
        }
    }
}
