//! Requests and responses as bytes.

pub(crate) mod corpus;
mod heads;
mod parts;
mod properties;
mod requests;
mod variants;
mod without;
