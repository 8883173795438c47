//! The command line of `exos serve`: what it takes, what is said of that, whether it can be, and what is said as it starts.

pub(in crate::serve) mod announce;
pub(in crate::serve) mod bounds;
pub(in crate::serve) mod check;
pub(in crate::serve) mod help;
pub(in crate::serve) mod options;
pub(in crate::serve) mod without;
