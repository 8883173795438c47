//! Options that programs have alike, but for their links: TCP, a client's TLS, the user that a program goes on as, what it does while idle, and which
//! options mend an error of the library.

mod hints;
mod idle;
mod tcp;
mod tls;
mod user;

pub use hints::with_options;
pub use idle::Idle;
pub use tcp::{Congestion, Ecn, TcpArgs};
pub use tls::TlsArgs;
pub use user::UserArgs;
