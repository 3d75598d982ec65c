//! A line of the log: `[timestamp] LEVEL [actor_id] message`, where the message begins with the
//! actor's name if it has one.

use std::fmt;
use std::time::SystemTime;

use sinew_core::{ActorId, Instant, Level};

use super::Log;

/// Bytes of a text that are kept. A longer one is cut, and says so.
const MAX_TEXT: usize = 64 * 1024;

pub(super) struct Line {
    /// On the clock of the runtime.
    pub(super) at: Instant,
    pub(super) level: Level,
    pub(super) source: ActorId,
    /// The first name of the actor.
    pub(super) name: Option<Box<str>>,
    pub(super) text: Box<str>,
    /// It was an event of `tracing`.
    #[cfg(feature = "tracing")]
    pub(super) is_event: bool,
}

impl Line {
    pub(super) fn new(at: Instant, level: Level, source: ActorId, text: impl fmt::Display) -> Line {
        Line {
            at,
            level,
            source,
            name: None,
            text: shortened(text.to_string()).into(),
            #[cfg(feature = "tracing")]
            is_event: false,
        }
    }

    /// Sets the name of the actor.
    pub(super) fn named(self, name: Option<Box<str>>) -> Line {
        Line { name, ..self }
    }

    /// A line of the node that says that others were lost.
    pub(super) fn of_loss(log: &Log, lines: u64) -> Line {
        let text = format_args!("{lines} lines lost");
        Line::new(log.handle.now(), Level::Warn, log.own_id(), text)
    }

    /// Writes the line as it is when the system's clock says `wall`. Nothing in its text looks like another line: what follows a
    /// line break is indented, and control characters are spelled out.
    pub(super) fn write(&self, wall: SystemTime, to: &mut String) {
        let Line { level, source, .. } = self;
        *to += &format!("[{}] {level} [{source}] ", Stamp(wall));
        if let Some(name) = &self.name {
            *to += &format!("{name:?}: "); // a name may have any characters
        }
        for character in self.text.trim_end().chars() {
            match character {
                '\n' => *to += "\n    ",
                '\t' => to.push('\t'),
                control if control.is_control() => to.extend(control.escape_default()),
                other => to.push(other),
            }
        }
        to.push('\n');
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = text.floor_char_boundary(MAX_TEXT);
        let more = text.len() - end;
        text.truncate(end);
        text += &format!("… and {more} more bytes");
    }
    text
}

/// A time as `2026-11-15T23:01:48.123Z`.
struct Stamp(SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let millis = since.subsec_millis();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// The date so many days after the first of January 1970.
fn date(mut days: u64) -> (u64, usize, u64) {
    // The calendar repeats every 400 years.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        (days, month) = (days - length, month + 1);
    }
    (year, month, days + 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stamp(seconds: u64) -> String {
        Stamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(68_169_599), "1972-02-28T23:59:59.000Z");
        assert_eq!(stamp(68_169_600), "1972-02-29T00:00:00.000Z");
        assert_eq!(stamp(951_868_799), "2000-02-29T23:59:59.000Z");
        assert_eq!(stamp(951_868_800), "2000-03-01T00:00:00.000Z");
        assert_eq!(stamp(1_798_761_599), "2026-12-31T23:59:59.000Z");
        assert_eq!(stamp(4_107_542_399), "2100-02-28T23:59:59.000Z");
        assert_eq!(stamp(4_107_542_400), "2100-03-01T00:00:00.000Z");
        assert_eq!(Stamp(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).to_string(), stamp(0));
    }

    #[test]
    fn dates_follow_one_another_for_a_thousand_years() {
        let mut last = date(0);
        for day in 1..=365_243 {
            let next = date(day);
            let follows = match (next.0 - last.0, next.1, next.2) {
                (0, month, day) if month == last.1 => day == last.2 + 1,
                (0, month, 1) => month == last.1 + 1 && last.2 >= 28,
                (1, 1, 1) => (last.1, last.2) == (12, 31),
                _ => false,
            };
            assert!(follows, "{next:?} after {last:?}");
            last = next;
        }
        assert_eq!(last, (2970, 1, 1));
    }

    #[test]
    fn a_text_cannot_look_like_another_line_nor_steer_a_terminal() {
        let line = |text: &str| {
            let mut written = String::new();
            let line = Line::new(Instant::from_nanos(0), Level::Warn, ActorId::from_u64(7), text);
            line.write(SystemTime::UNIX_EPOCH, &mut written);
            written
        };
        let head = "[1970-01-01T00:00:00.000Z] WARN [0.7] ";
        assert_eq!(line("one\n[x] two\n"), format!("{head}one\n    [x] two\n"));
        assert_eq!(line("\u{1b}[2Jü\t🦀\r"), format!("{head}\\u{{1b}}[2Jü\t🦀\n"));
        assert_eq!(line(""), format!("{head}\n"));
        let long = line(&"ü".repeat(MAX_TEXT));
        assert!(long.ends_with("ü… and 65536 more bytes\n") && long.len() < MAX_TEXT + 100);
    }
}
