//! What acknowledgements and time say of data in flight: noticing losses (RACK-TLP, RFC 8985; duplicate acknowledgements
//! where the peer knows no SACK, RFC 5681), repairing them (RFC 6675's pipe, RFC 6937's rate) and taking a mistaken repair
//! back (RFC 4015). From the bottom: `measure` and `timer`, `episode`, `delivery`; `predicted` is the short way of one that is
//! expected.

mod delivery;
mod episode;
mod measure;
mod predicted;
mod timer;
