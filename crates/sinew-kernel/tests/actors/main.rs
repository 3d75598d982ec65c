//! Actors: how they start and end, what they send each other, and what a node does for them.

mod ask;
mod bad_values;
mod children;
mod contract;
mod cut_short;
mod embedding;
mod fds;
mod foreign_code;
mod groups;
mod identity;
mod inspect;
#[path = "../kit/kept.rs"]
mod kept;
#[path = "../kit/mod.rs"]
mod kit;
mod lifecycle;
mod lifecycle_stops;
mod lifecycle_zombies;
mod limits;
mod links;
mod mailbox;
mod named_refs;
mod names;
mod namespace_service;
mod ordering;
mod polled;
mod process;
mod saves;
mod shutdown;
#[path = "../store_support/mod.rs"]
mod store_support;
mod timers;
mod turns;
