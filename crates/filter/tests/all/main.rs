//! All integration tests of this crate, in one program: each module has its own first line.

mod common;
mod corpus;
mod gate;
mod gate_agreement;
mod gate_steps;
mod gate_times;
mod gate_verified;
mod gate_wire;
mod guard;
mod interpreter;
mod kernel_agreement;
mod language;
mod layers;
mod mirror;
mod mistaken;
mod programs;
mod sets;
mod syn_handler;
mod tcpdump_oracle;
mod transmit;
mod web;
