//! One finding: what was looked at, what it means, how to mend it.

use exos_host::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// How a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As it should be.
    Ok,
    /// Works, but slower or with a part missing.
    Warn,
    /// Does not work.
    Fail,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::Fail => "FAIL",
        })
    }
}

/// Checks that fail for want of privilege, of what the daemon does for programs without.
const NEEDS_ROOT: [&str; 5] = ["capability", "af-xdp", "bpf-load", "bpf-xskmap", "trial"];

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Check {
    /// Which check, a name for programs such as `bpf-load`; several checks may share one.
    pub id: &'static str,
    /// How it is.
    pub mark: Mark,
    /// What was found, a phrase.
    pub what: String,
    /// What that means for a program of ours.
    pub meaning: String,
    /// What to do about it; `null` when the mark is `"ok"`.
    pub mend: Option<String>,
}

impl Check {
    /// As it should be.
    pub fn ok(id: &'static str, what: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            id,
            mark: Mark::Ok,
            what: what.into(),
            meaning: meaning.into(),
            mend: None,
        }
    }

    /// Works, but slower or with a part missing.
    pub fn warn(
        id: &'static str,
        what: impl Into<String>,
        meaning: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            id,
            mark: Mark::Warn,
            what: what.into(),
            meaning: meaning.into(),
            mend: Some(mend.into()),
        }
    }

    /// A failure of what takes privilege, for a user who has none and needs none: the daemon does it.
    pub(crate) fn leave_to_root(&mut self) {
        if self.mark == Mark::Fail && NEEDS_ROOT.contains(&self.id) {
            self.mark = Mark::Warn;
            let mend = "programs get it from the daemon; run as root what is to do without that";
            self.mend = Some(mend.to_owned());
        }
    }

    /// Does not work.
    pub fn fail(
        id: &'static str,
        what: impl Into<String>,
        meaning: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            mark: Mark::Fail,
            ..Self::warn(id, what, meaning, mend)
        }
    }
}

/// What is looked at, and what that means however it turns out.
#[derive(Clone, Copy)]
pub(crate) struct About(pub &'static str, pub &'static str);

impl About {
    pub(crate) fn ok(self, what: impl Into<String>) -> Check {
        Check::ok(self.0, what, self.1)
    }

    pub(crate) fn warn(self, what: impl Into<String>, mend: impl Into<String>) -> Check {
        Check::warn(self.0, what, self.1, mend)
    }

    pub(crate) fn fail(self, what: impl Into<String>, mend: impl Into<String>) -> Check {
        Check::fail(self.0, what, self.1, mend)
    }
}

/// What mends an error, as it says itself or as is known `otherwise`.
pub(crate) fn remedy(error: &Error, otherwise: &str) -> String {
    let mend = error.mend.clone();
    mend.unwrap_or_else(|| otherwise.to_owned())
}

/// What mends what depends on other checks.
pub(crate) const AFTER_THE_OTHERS: &str = "mend what is marked above first";
