//! The few command-line options that the commands have: `--name value` and `--name`.

use crate::Failure;

/// The options of one command, taken out one by one; whatever is left over was not understood.
pub(crate) struct Options {
    rest: Vec<String>,
}

impl Options {
    pub(crate) fn new(arguments: &[String]) -> Options {
        Options { rest: arguments.to_vec() }
    }

    /// Takes the switch `name`; true if it was there.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|argument| argument != name);
        self.rest.len() < before
    }

    /// Takes `name value`.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let Some(at) = self.rest.iter().position(|argument| argument == name) else { return Ok(None) };
        if at + 1 == self.rest.len() {
            return Err(Failure::Usage(format!("{name} needs a value")));
        }
        self.rest.remove(at);
        Ok(Some(self.rest.remove(at)))
    }

    /// Takes `name number`, a whole number above 0.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64, Failure> {
        match self.text(name)? {
            None => Ok(default),
            Some(text) => {
                text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                    Failure::Usage(format!("{name} needs a whole number above 0, not {text:?}"))
                })
            }
        }
    }

    /// An error if something is left that no option took.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.rest.first() {
            None => Ok(()),
            Some(argument) => Err(Failure::Usage(format!("{argument:?} is no option of this command"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::new(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_come_in_any_order_and_leave_nothing() {
        let mut options = options("--only yield --peers --reps 3");
        assert_eq!(options.number("--reps", 5).unwrap(), 3);
        assert!(options.switch("--peers"));
        assert_eq!(options.text("--only").unwrap().as_deref(), Some("yield"));
        options.finish().unwrap();
    }

    #[test]
    fn a_missing_or_bad_value_and_an_unknown_option_are_usage_errors() {
        assert!(matches!(options("--reps").number("--reps", 5), Err(Failure::Usage(_))));
        assert!(matches!(options("--reps 0").number("--reps", 5), Err(Failure::Usage(_))));
        assert!(matches!(options("--reps x").number("--reps", 5), Err(Failure::Usage(_))));
        assert!(matches!(options("--fast").finish(), Err(Failure::Usage(_))));
    }
}
