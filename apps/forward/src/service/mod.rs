//! Listeners and the servers behind them: what is forwarded, and to whom it may go.
//!
//! A server is one for each protocol, end, address of ours and [`Reach`](crate::packets::reach::Reach), whichever listeners
//! it is behind: its ports are its own.
//!
//! Both have places, which flows name. What is taken away keeps its place while it has flows, which go on as before; then the
//! place is free for another. What is wanted becomes what there is also while packets come; a hashing table is then made again
//! beside the old one, a bounded part at a time.
//!
//! | file | what is in it |
//! |---|---|
//! | `services` | all listeners and servers |
//! | `listener`, `server`, `end` | one of these, and what they have in common |
//! | `table` | a listener's hashing table |
//! | `policy`, `balance` | how a server is chosen |
//! | `wanted` | what somebody wants, and why it cannot be |
//! | `change`, `reload` | listeners and servers that come, change and go |
//! | `slots` | how places are given out |
//! | `health` | which servers are well |
//! | `names` | servers that have names |

mod balance;
mod change;
mod end;
mod health;
mod listener;
mod names;
mod policy;
mod reload;
mod server;
mod services;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod wanted;

pub use end::Standing;
pub use listener::{Listener, Member};
pub use policy::{Affinity, Balance};
pub use reload::Changes;
pub(crate) use server::is_unanswered;
pub use server::{Health, Server};
pub use services::Services;
pub use wanted::{Listen, Misfit};
