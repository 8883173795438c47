//! What is measured: a folder for each subcommand of `exos bench`. `load`, `forward` and `sharing` use the client, the documents
//! and the servers of `http`.

pub mod cost;
pub mod forward;
pub mod http;
pub mod load;
pub mod sharing;
pub mod tcp;
