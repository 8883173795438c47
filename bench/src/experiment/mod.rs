//! What is measured: a file or folder for each subcommand of `exos bench`. Each has its options, its contenders, and a
//! list of the figures that it measures, of which JSON, tables and pages come.
//!
//! All measure alike: cell after cell, and in each run of a cell the contenders in turn (`cells`). `figure` is for those that note single
//! values, and what is asked of them, of which `comparison` draws bars. `asked` is how web servers are asked.

pub mod ash;
mod asked;
mod cells;
mod comparison;
pub mod cost;
mod figure;
pub mod forward;
pub mod http;
pub mod iolite;
pub mod link;
pub mod load;
pub mod sharing;
pub mod sockets;
pub mod tcp;
