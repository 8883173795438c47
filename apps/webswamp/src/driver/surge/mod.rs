//! SURGE, the Scalable URL Reference Generator: Barford and Crovella, *Generating Representative Web Workloads for
//! Network and Server Performance Evaluation*, SIGMETRICS 1998. A server is loaded as people load it: most files are
//! small and most bytes are in large ones, few files are asked for often and soon again, and who reads asks for nothing.
//!
//! | | what of the paper | |
//! |---|---|---|
//! | [`parameters`] | its table of distributions | numbers alone |
//! | [`documents`] | file sizes, embedded references, popularity | the set of files to serve |
//! | [`matching`] | request sizes | which file is how popular |
//! | [`stream`] | temporal locality | which page is next |
//! | [`users`] | user equivalents, OFF times | the driver |
//!
//! Where this differs from the paper: each page has its embedded files for itself, and every file belongs to a page; who
//! is in the tail of the file sizes is decided by the body's own distribution, which goes beyond the cut-off in 3 % of
//! draws. How sizes are matched with popularity, and how distances on a stack become a stream in which each page is asked for
//! as often as it should be, are ways of our own to what the paper asks for.

pub mod documents;
pub(crate) mod files;
pub mod matching;
pub mod parameters;
pub mod stream;
pub mod users;

#[cfg(test)]
#[path = "fit_tests.rs"]
mod fit;

pub use documents::Documents;
pub use users::Users;
