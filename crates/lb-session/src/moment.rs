//! When something happens: one clock for deadlines, one for people.

use std::time::Duration;

/// A moment. Deadlines are compared on `up`, which never goes back and does not jump; `unix` is only shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since the clock of this process started.
    pub up: Duration,
    /// Since the Unix epoch.
    pub unix: Duration,
}

impl Moment {
    /// This much later, on both clocks.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self { up: self.up + time, unix: self.unix + time }
    }

    /// The moment at which it was `unix`, seen from here. Clocks start late enough that what is worth remembering does
    /// not lie before their start; what does is as old as can be.
    #[must_use]
    pub fn shifted(self, unix: Duration) -> Self {
        let up = if unix < self.unix { self.up.saturating_sub(self.unix - unix) } else { self.up + (unix - self.unix) };
        Self { up, unix }
    }

    /// How long from here until a deadline; nothing when it has passed.
    pub fn until(self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.up)
    }
}

/// A time since the Unix epoch as people and programs read it: RFC 3339 in UTC, with milliseconds.
pub fn rfc3339(unix: Duration) -> String {
    let (seconds, millis) = (unix.as_secs(), unix.subsec_millis());
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date of a day counted from 1970-01-01. Years are counted from March, so that a leap day ends its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // days from 0000-03-01
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_ms, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_millis(unix_ms)), want);
        }
    }
}
