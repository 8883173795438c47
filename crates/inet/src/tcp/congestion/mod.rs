//! Congestion control: how many bytes of a connection may be in flight, and how fast they leave.
//!
//! When a loss is believed, and which segment is sent again, is decided in `sending::recovery`, the same
//! way for every algorithm. An algorithm is told of acknowledgements, of congestion, and of rest, and
//! asked for its window and its pacing rate: [`CongestionControl`] is the whole interface, and a
//! program can bring its own ([`Algorithm::Custom`]). The algorithms here are held in line
//! ([`Congestion`]); a program's own one is boxed. All figures but times are bytes.
//!
//! [`control`] is the interface, [`algorithm`] the choice; `window` is what several algorithms reckon with.

pub mod algorithm;
pub mod bbr;
pub mod control;
pub mod cubic;
pub mod hystart;
pub mod newreno;
mod slow_start;
mod window;

pub use algorithm::{Algorithm, Congestion};
pub use bbr::Bbr;
pub use control::{Ack, Cause, Congested, CongestionControl, DeliveryRate};
pub use cubic::Cubic;
pub use newreno::NewReno;
