//! The options of a node that concern its log.

use super::{LevelFilter, Sink};

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) sink: Sink,
    pub(crate) capacity: usize,
    pub(crate) level: LevelFilter,
}

impl Default for Options {
    fn default() -> Options {
        Options { sink: Sink::stderr(), capacity: 4096, level: LevelFilter::Info }
    }
}
