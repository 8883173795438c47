//! nginx beside us: the same requests, with the same configuration.

mod access;
mod attacks;
mod mutations;
mod rules;
mod verdicts;
