//! Tests of this crate, in one program.

mod answers;
mod connecting;
mod corpus;
mod forgeries;
mod journeys;
mod lying;
mod net;
mod properties;
mod real;
