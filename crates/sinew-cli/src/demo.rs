//! `sinew demo`: the vocabulary of control flow, signal by signal.

use std::error::Error;
use std::io::{self, Write};

use sinew_core::{Flags, Mask, Signal, Status};

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    signals(&mut out)?;
    masks(&mut out)?;
    letters(&mut out)?;
    Ok(())
}

/// Everything that makes control leave a fiber is one of fourteen numbers.
fn signals(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "Fourteen signals; a fiber's status is the last one that it raised:\n")?;
    for signal in Signal::ALL {
        let after = if signal.is_terminal() { "the fiber is over" } else { "the fiber can be resumed" };
        writeln!(out, "  {:>2}  {signal:<10} status {:<11} {after}", signal.number(), Status::from(signal))?;
    }
    Ok(())
}

/// Who sees a signal is decided by the masks on its way up.
fn masks(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "\nA mask says which signals of a fiber its resumer catches; the others travel on up.")?;
    writeln!(out, "Here main resumes outer, and outer resumes inner:\n")?;
    let (inner, outer) = (Mask::ERROR, Mask::YIELD | Mask::DEBUG);
    writeln!(out, "  inner's mask {inner:?}, outer's mask {outer:?}")?;
    for signal in [Signal::Error, Signal::Yield, Signal::Debug, Signal::Await] {
        let catcher = if inner.contains(signal) {
            "outer catches it"
        } else if outer.contains(signal) {
            "outer stops too, main catches it"
        } else {
            "nobody here catches it: it reaches the root"
        };
        writeln!(out, "  inner raises {signal:<6} {catcher}")?;
    }
    Ok(())
}

/// Masks can be spelled as letters; an unknown one is an error that names it.
fn letters(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "\nMasks can be spelled as letters:\n")?;
    for letters in ["y", "ei", "tp"] {
        let Flags { mask, bindings } = letters.parse()?;
        writeln!(out, "  {letters:<3} catches {mask:?}, bindings {bindings:?}")?;
    }
    if let Err(error) = "yz".parse::<Flags>() {
        writeln!(out, "  yz  is refused: {error}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_shows_every_signal() {
        let mut out = Vec::new();
        signals(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(Signal::ALL.iter().all(|signal| text.contains(signal.name())), "{text}");
    }
}
