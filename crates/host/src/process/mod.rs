//! This process and others: users and their privilege, confinement, cores and priority, children, who is at the other end of a socket.

pub mod accounts;
pub mod affinity;
pub mod background;
pub mod caps;
pub mod children;
pub mod holders;
pub mod intercept;
pub mod peer;
pub mod priority;
pub mod privilege;
pub mod seccomp;
pub mod signals;
