//! Supervisors: which children they start, restart and stop, and when.

#[path = "../kit/lab.rs"]
mod lab;
mod supervision_children;
mod supervision_names;
mod supervision_restarts;
mod supervision_starts;
mod supervision_stops;
