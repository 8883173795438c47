//! Tools on shared buffers beside GNU's, as a shell runs them (*IO-Lite*, Figure 8): the same work by each in turn.

use crate::experiment::figure::{Figures, Goal};
use crate::stage::Stage;
use exos_host::error::Context as _;
use exos_host::{Error, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The length of the paper's file.
const SHORT: u64 = 1_750_000;
/// One of which reading takes longer than starting a program.
const LONG: u64 = 64_000_000;

/// What is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// `wc` of a file that is in the cache.
    Wc(u64),
    /// `cat` of one, through a pipe, to `grep`.
    CatGrep(u64),
    /// All orders of ten words, through a pipe, to `wc`.
    PermuteWc,
}

impl Work {
    pub const ALL: [Self; 5] = [
        Self::Wc(SHORT),
        Self::Wc(LONG),
        Self::CatGrep(SHORT),
        Self::CatGrep(LONG),
        Self::PermuteWc,
    ];

    /// Starting programs is most of it.
    pub fn is_short(self) -> bool {
        matches!(self, Self::Wc(SHORT) | Self::CatGrep(SHORT))
    }

    /// How often it is done in a row.
    fn times(self) -> u32 {
        if self.is_short() { 20 } else { 1 }
    }

    /// How many times GNU's speed ours is to have, where starting a program is not most of the time.
    fn goal(self) -> Option<f64> {
        match self {
            Self::Wc(LONG) => Some(1.2),
            Self::CatGrep(LONG) => Some(1.5),
            Self::PermuteWc => Some(1.3),
            _ => None,
        }
    }

    /// As a shell has it, by ours and by GNU's. Nobody has a GNU permute: ours, by bytes.
    fn commands(self, exos: &str, file: &str) -> [String; 2] {
        match self {
            Self::Wc(_) => [format!("{exos} io wc {file}"), format!("wc {file}")],
            Self::CatGrep(_) => [
                format!("{exos} io cat {file} | {exos} io grep -c zebra"),
                format!("cat {file} | grep -c zebra"),
            ],
            Self::PermuteWc => [
                format!("{exos} io permute | {exos} io wc"),
                format!("{exos} io permute | wc"),
            ],
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wc(len) => write!(f, "tools/wc/{len}"),
            Self::CatGrep(len) => write!(f, "tools/cat-grep/{len}"),
            Self::PermuteWc => f.write_str("tools/permute-wc"),
        }
    }
}

/// What a run of the shell took, in seconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    elapsed: f64,
    /// Of the processor, by all programs but the cache's service.
    processor: f64,
}

/// A run of each.
pub(super) fn measure(stage: &Stage, work: Work, figures: &mut Figures) -> Result<()> {
    let folder = stage.new_file("cache");
    std::fs::create_dir(&folder).context(|| "cannot make a folder")?;
    let file = write_file(&folder, work)?;
    let socket = folder.join("exos/file-cache.sock");
    let mut serving = Command::new(&stage.program);
    serving.arg("file-cache").env("XDG_RUNTIME_DIR", &folder);
    let mut service = stage.start("exos file-cache", serving, stage.cores[1])?;
    stage.await_true(&mut service, || socket.exists())?;
    let exos = stage.program.to_string_lossy().into_owned();
    let commands = work.commands(&exos, &file.to_string_lossy());
    // Once for the caches of either kind; and both say the same.
    let [mut ours, mut gnu] = [String::new(), String::new()];
    for (said, command) in [&mut ours, &mut gnu].into_iter().zip(&commands) {
        *said = shell(stage, &folder, command)?;
    }
    if ours != gnu {
        return Err(Error::new(format!("{work}: ours says {ours}, GNU's {gnu}")));
    }
    let mut took = Vec::new();
    for (who, command) in ["ours", "gnu"].into_iter().zip(&commands) {
        let run = time(stage, &folder, command, work.times())?;
        figures.add(format!("{work}/{who}"), "ms", 1000.0 * run.elapsed);
        figures.add(
            format!("{work}/{who}/processor"),
            "ms",
            1000.0 * run.processor,
        );
        took.push(run);
    }
    service.stop()?;
    let ratio = |of: fn(&Took) -> f64| of(&took[1]) / of(&took[0]);
    let (name, speed) = (format!("{work}/by-gnu"), ratio(|took| took.elapsed));
    match work.goal() {
        Some(goal) => figures.add_goal(name, "", Goal::AtLeast(goal), speed),
        None => figures.add(name, "", speed),
    }
    figures.add(
        format!("{work}/processor-by-gnu"),
        "",
        ratio(|took| took.processor),
    );
    Ok(())
}

/// Lines of words, none of which is looked for.
fn write_file(folder: &Path, work: Work) -> Result<PathBuf> {
    let len = match work {
        Work::Wc(len) | Work::CatGrep(len) => len as usize,
        Work::PermuteWc => 0,
    };
    let mut text = Vec::with_capacity(len + 100);
    let mut number = 0_u64;
    while text.len() < len {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(
            format!(
                "{:x} the quick brown fox {} jumps over it\n",
                number >> 40,
                number >> 50
            )
            .as_bytes(),
        );
    }
    text.truncate(len);
    let path = folder.join("text");
    std::fs::write(&path, text).context(|| "cannot write a file")?;
    Ok(path)
}

fn shell(stage: &Stage, folder: &Path, script: &str) -> Result<String> {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{script}; true")]);
    command.env("LC_ALL", "C").env("XDG_RUNTIME_DIR", folder);
    let started = stage.start_on("bash", command, &stage.cores)?;
    // grep says by its status that nothing was found.
    stage.output_of(started, 60.0)
}

fn time(stage: &Stage, folder: &Path, command: &str, times: u32) -> Result<Took> {
    let script = format!(
        "TIMEFORMAT='%R %U %S'; {{ time for ((n = 0; n < {times}; n++)); do {command} >\"$XDG_RUNTIME_DIR/said\"; done; }} 2>&1"
    );
    let said = shell(stage, folder, &script)?;
    let line = said.lines().last().unwrap_or_default();
    let seconds: Vec<f64> = line
        .split(' ')
        .filter_map(|number| number.parse().ok())
        .collect();
    match seconds[..] {
        [elapsed, user, system] => Ok(Took {
            elapsed: elapsed / f64::from(times),
            processor: (user + system) / f64::from(times),
        }),
        _ => Err(Error::new(format!("bash has told no times: {said}"))),
    }
}
