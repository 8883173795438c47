//! Options that programs have alike, but for their links: TCP, the user that a program goes on as, what it does while idle, and which
//! options mend an error of the library.

mod hints;
mod idle;
mod tcp;
mod user;

pub use hints::with_options;
pub use idle::Idle;
pub use tcp::{Congestion, Ecn, TcpArgs};
pub use user::UserArgs;
