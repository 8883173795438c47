//! What acknowledgements and time say of data in flight: noticing losses (RACK-TLP, RFC 8985; duplicate acknowledgements
//! where the peer knows no SACK, RFC 5681), repairing them (RFC 6675's pipe, RFC 6937's rate) and taking a mistaken repair
//! back (RFC 4015).
//!
//! [`losses`] is made of the others: [`scoreboard`] holds what was sent, [`rack`] judges it,
//! [`duplicates`] counts where it cannot, [`tail_probe`] asks after the end, [`episode`] slows down and repairs at a pace
//! ([`repair`]).

pub mod duplicates;
pub mod episode;
pub mod losses;
pub mod rack;
pub mod repair;
pub mod scoreboard;
pub mod tail_probe;
