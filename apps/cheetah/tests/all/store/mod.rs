//! Documents in memory while their files change.

mod cache;
mod changing;
mod keeper;
mod lent;
mod live;
mod live_names;
mod reload;
mod waiting;
