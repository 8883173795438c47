//! How much each user, and all users of a standing together, may ask the daemon for in a time: slots and filters
//! (`rates`), neighbours (`resolving`), connections in TIME-WAIT (`time_wait`); and how often a report is made (`reports`).

mod rates;
mod reports;
mod resolving;
mod time_wait;

pub(super) use rates::{Charge, Rates};
pub(super) use reports::Reports;
pub(super) use resolving::Resolves;
pub(super) use time_wait::TimeWaits;
