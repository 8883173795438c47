//! The names of guards: of each program of live frames that somebody may have, what the kernel asks before it attaches it.
//!
//! A guard stays when the gate is taken down and somebody has its program still. The next daemon here, or `--clean`, takes it
//! away when nobody has.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exos_host::bpf::prog_exists;
use exos_host::error::{Context as _, Result};

/// What the names begin with; behind it stands the program's number.
const GUARD: &str = "guard";

/// How long a program that was let go may be there still: the kernel forgets names when no processor looks at them any more.
const LINGERS: Duration = Duration::from_millis(200);

/// The name of the guard of a program.
pub(super) fn name_of(folder: &Path, program: u32) -> PathBuf {
    folder.join(format!("{GUARD}{program}"))
}

/// The number of the program that a name is a guard's of, if it is one.
pub(super) fn guarded(name: &Path) -> Option<u32> {
    name.file_name()?
        .to_str()?
        .strip_prefix(GUARD)?
        .parse()
        .ok()
}

/// Takes away a name of the gate that is to go, but for guards of programs which somebody has: whether it did.
pub(super) fn remove_name(name: &Path) -> Result<bool> {
    if guarded(name).is_some_and(|id| !goes(id)) {
        return Ok(false);
    }
    std::fs::remove_file(name).context(|| format!("cannot remove {}", name.display()))?;
    Ok(true)
}

/// Whether nobody has a program any more, or will in a moment.
fn goes(program: u32) -> bool {
    let until = Instant::now() + LINGERS;
    while prog_exists(program).unwrap_or(true) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The order in which names go: a guard behind the program that it is there for.
pub(super) fn is_guard(name: &Path) -> bool {
    guarded(name).is_some()
}
