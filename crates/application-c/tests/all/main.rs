//! The library as C sees it: programs are compiled against its header, by the compiler that is there.

mod common;
mod header;
mod programs;
