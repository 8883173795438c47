//! Tests of streams as they come, in pieces of any length.

mod control;
mod corpus;

mod request;
mod response;
