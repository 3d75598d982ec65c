//! The options of a node that concern its log.

use std::io::Write;

use crate::log::{LevelFilter, Sink};
use crate::node::Builder;

impl Builder {
    /// Where the lines of the log go; standard error if not said. It is written to on a thread for
    /// blocking calls, some lines at a time. Lines that it has an error for are lost, which is said
    /// when it has none.
    pub fn log_to(mut self, sink: impl Write + Send + 'static) -> Builder {
        self.log.sink = Sink::writer(sink);
        self
    }

    /// Nothing is logged.
    pub fn log_off(mut self) -> Builder {
        self.log.sink = Sink::off();
        self
    }

    /// The lines of the log become events of `tracing`, at the target `sinew::log`, for the
    /// subscriber that is the program's default. Lines that were events of `tracing` do not.
    #[cfg(feature = "tracing")]
    pub fn log_to_tracing(mut self) -> Builder {
        self.log.sink = Sink::tracing();
        self
    }

    /// From which level on lines are logged; from [`Info`](LevelFilter::Info) on if not said.
    /// [`Logger::set_level`](crate::Logger::set_level) changes it.
    pub fn log_level(mut self, level: impl Into<LevelFilter>) -> Builder {
        self.log.level = level.into();
        self
    }

    /// How many lines may wait to be written, 4,096 if not said; more are lost, which is counted
    /// and said.
    pub fn log_capacity(mut self, lines: usize) -> Builder {
        self.log.capacity = lines;
        self
    }
}
