//! `exos doctor`: checks what this machine and its interfaces offer, and says how to mend what is missing.
//!
//! A [`Report`] is a list of [`Check`]s for the machine, one for the daemon and one for each interface. Whatever can be
//! tried without harm is tried for real rather than concluded from version numbers: a socket is opened, a program loaded
//! and run, a packet sent from one AF_XDP link to another, in each mode and each way of sending. Nothing of the machine's own
//! network is changed: no program is attached to its interfaces, no setting touched.
//!
//! Each check says what was found, what that means for a program of ours, and, unless all is well, what to do.
//! `fail` is what keeps `exos serve --link xdp:...` from working; `warn` is what makes it slower or a part of
//! the tools unusable.

#![forbid(unsafe_code)]

mod check;
mod cli;
mod daemon;
mod interface;
mod machine;
mod modes;
mod report;
mod trial;

pub use check::{Check, Mark};
pub use cli::{DoctorArgs, run};
pub use interface::{InterfaceReport, examine as examine_interface};
pub use machine::examine as examine_machine;
pub use report::{Report, examine};
