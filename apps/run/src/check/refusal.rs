//! That a program cannot be run.

use std::process::ExitCode;

use exos::Error;
use exos_program::text::plain;

/// Why a program cannot be run, and the exit status that a shell gives to that.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) error: Error,
    pub(super) status: u8,
}

impl Refusal {
    pub(super) const NOT_FOUND: u8 = 127;
    pub(super) const NOT_EXECUTABLE: u8 = 126;

    pub fn not_found(what: String, mend: &str) -> Self {
        let error = Error::new(plain(&what)).mend(mend);
        let status = Self::NOT_FOUND;
        Self { error, status }
    }

    pub fn not_executable(what: String, mend: &str) -> Self {
        let error = Error::new(plain(&what)).mend(mend);
        let status = Self::NOT_EXECUTABLE;
        Self { error, status }
    }

    /// There is such a file.
    pub fn was_found(&self) -> bool {
        self.status != Self::NOT_FOUND
    }

    /// Tells the operator; gives the exit status.
    pub fn tell(&self) -> ExitCode {
        exos_program::error!("exos: {}", self.error);
        ExitCode::from(self.status)
    }
}
