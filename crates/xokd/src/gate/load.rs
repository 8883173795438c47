//! Programs with a user's filters: the kernel is given none that would take its verifier long.

use exos_filter::Program;
use exos_host::bpf::Prog;
use exos_host::error::{Error, Result};

use crate::limits::FILTER_INSNS_MAX;

/// Loads a program for what comes in, in fragments too.
pub(super) fn load_incoming(program: &Program, name: &str) -> Result<Prog> {
    Ok(Prog::load(&bounded(program)?, name, true)?)
}

/// Loads a program for what goes out.
pub(super) fn load_outgoing(program: &Program, name: &str) -> Result<Prog> {
    Ok(Prog::load_classifier(&bounded(program)?, name)?)
}

fn bounded(program: &Program) -> Result<Vec<u64>> {
    let count = program.insns().len();
    if count > FILTER_INSNS_MAX {
        return Err(Error::new(format!(
            "the filter needs {count} instructions, and {FILTER_INSNS_MAX} are the most"
        ))
        .mend("ask for less"));
    }
    Ok(program.words())
}
