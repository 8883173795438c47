//! What is said of a load: [`Results`], as a summary for people and as JSON for programs, which is read again
//! to add several loads up and to compare two.
//!
//! | file | what is in it |
//! |---|---|
//! | `results` | the results of a load |
//! | `json` | these as JSON, with what follows from them |
//! | `effort` | what a load cost us |
//! | `cores` | the results of one generator's cores as its own |
//! | `distribution` | histograms in JSON |
//! | `read` | results that were saved |
//! | `merge` | the results of several generators as those of one |
//! | `compare` | two results, and which differences are more than noise |
//! | `verdict` | who was the limit |
//! | `bound` | what `--find-peak` keeps to |
//! | `threshold` | conditions under which a load has failed |
//! | `traffic` | what went over the link |
//! | `tls` | TLS's handshakes |
//! | `multiplexing` | what was seen of HTTP/2 or HTTP/3 |
//! | `numbers` | numbers as a person reads them |
//! | `text` | the summary |
//! | `html` | a page with figures |
//! | `live` | what is seen while a load runs |

mod bound;
mod compare;
mod cores;
mod distribution;
mod effort;
mod html;
mod json;
mod live;
mod merge;
mod multiplexing;
mod numbers;
mod read;
mod results;
mod text;
mod threshold;
mod tls;
mod traffic;
mod verdict;

pub use bound::Bound;
pub use compare::Comparison;
pub use distribution::{Distribution, POINTS};
pub use effort::Effort;
pub use json::Report;
pub use live::{Live, Moment, Style};
pub use merge::{merge, warning};
pub(crate) use numbers::micros;
pub use results::{Generator, OnCore, Results, Times};
pub use threshold::Threshold;
pub use traffic::Traffic;
pub use verdict::{Finding, Limit, Verdict};

#[cfg(test)]
pub(crate) mod tests;
