//! `exos io`: cat, wc, grep and a generator of permutations on buffers that processes share (*IO-Lite*, section 4.5, Figure 8), and
//! `exos file-cache`, the service from which they read files by reference.
//!
//! | file | job |
//! |---|---|
//! | `input` | bytes of files, by the cache or by themselves, and of standard input |
//! | `output` | bytes to standard output |
//! | `meeting` | how the two ends of a pipe between two of these tools find each other |
//! | `cat`, `wc`, `grep`, `permute` | the tools |
//! | `file_cache` | the service's command |
//! | `options` | the command lines |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))] // See `exos_host::message`.

mod cat;
mod file_cache;
pub mod grep;
mod input;
pub mod limits;
mod meeting;
mod options;
mod output;
mod permute;
pub mod wc;

pub use file_cache::{FileCacheArgs, StatisticsReport, run as file_cache};
pub use options::IoArgs;

use exos_host::Result;
use options::Tool;
use std::process::ExitCode;

/// Does what a tool does. It fails as GNU's do: 1 where something went wrong, of `grep` where nothing was found, else 2.
pub fn run(args: &IoArgs) -> Result<ExitCode> {
    match &args.tool {
        Tool::Cat(args) => cat::run(args),
        Tool::Wc(args) => wc::run(args),
        Tool::Grep(args) => grep::run(args),
        Tool::Permute(args) => permute::run(args),
    }
}
