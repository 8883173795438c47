//! Answers of upstreams that are kept, and given out again, as RFC 9111 allows a cache that many share.
//!
//! What is kept lies in the memory of documents, and is sent as they are: a head that is made once for each second, and content whose sums
//! are cached. The thread that keeps account of documents keeps that of answers, and tells all cores what there is, as it tells
//! them of changes of files; so a hit asks nobody, and no core waits for another.
//!
//! | file | what is in it |
//! |---|---|
//! | [`rules`] | what is configured |
//! | [`directives`], [`said`] | what requests and answers say |
//! | [`storing`] | whether an answer is kept, and on which terms |
//! | [`reuse`] | whether one that is kept will do for a request |
//! | [`key`] | what is known by which name |
//! | [`record`] | an answer that is kept |
//! | [`fetch`] | a request on its way to an upstream, and its answer on its way to be kept |
//! | [`answers`] | what a core has and wants |
//! | [`ticket`] | that a request asks for a key |
//! | [`refreshing`] | what a core asks for by itself |
//! | [`keeping`] | the account of all cores |
//! | [`counters`] | how often which of these has happened |

pub mod answers;
pub mod counters;
pub mod directives;
pub mod fetch;
pub mod keeping;
pub mod key;
pub mod record;
mod refreshing;
pub mod reuse;
pub mod rules;
pub mod said;
pub mod storing;
pub mod ticket;

pub use answers::Answers;
pub use key::is_answer;
pub use rules::CacheRules;
