//! What the command line of `exos load` says of a load, and the syntax of its values.
//!
//! | file | what is in it |
//! |---|---|
//! | `load` | all options of a load, and what follows from them |
//! | `output` | how a load and its results are shown |
//! | `rate` | a step of `--rate` |
//! | `values` | times, and words of HTTP |
//! | `parameters` | the options as results repeat them |

mod http;
mod load;
mod output;
mod parameters;
mod rate;
mod values;

pub use load::LoadArgs;
pub(crate) use output::{OutputArgs, ShowArgs};
pub(crate) use parameters::command_line;
