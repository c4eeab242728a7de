//! Formatting of Unix timestamps in milliseconds.

const MS_PER_DAY: i64 = 86_400_000;

/// Formats a time as ISO 8601 in UTC with milliseconds, `2025-06-17T18:30:00.000Z`.
///
/// A year outside 0..=9999 has a sign and at least six digits, as ISO 8601 requires.
pub fn timestamp(epoch_ms: i64) -> String {
    let (year, month, day) = civil_from_days(epoch_ms.div_euclid(MS_PER_DAY));
    let ms = epoch_ms.rem_euclid(MS_PER_DAY);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, milli) = (ms / 1000 % 60, ms % 1000);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Converts a day number, counted from 1970-01-01, to year, month and day in the Gregorian
/// calendar.
///
/// The year starts in March, so the leap day is the last day of the year and the first day of each
/// month is a linear function, rounded down.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_400_YEARS: i64 = 146_097;
    const DAYS_FROM_YEAR_0_MARCH: i64 = 719_468;
    let shifted = days + DAYS_FROM_YEAR_0_MARCH;
    let cycle = shifted.div_euclid(DAYS_PER_400_YEARS);
    let day_of_cycle = shifted.rem_euclid(DAYS_PER_400_YEARS);
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let first_day = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100;
    let day_of_year = day_of_cycle - first_day;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * cycle + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_formats_iso_8601() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_750_185_000_000, "2025-06-17T18:30:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
            (8_640_000_000_000_000, "+275760-09-13T00:00:00.000Z"),
            (-8_640_000_000_000_000, "-271821-04-20T00:00:00.000Z"),
        ];
        for (epoch_ms, expected) in cases {
            assert_eq!(timestamp(epoch_ms), expected, "{epoch_ms}");
        }
    }

    #[test]
    fn civil_from_days_is_monotonic_over_two_cycles() {
        let mut previous = civil_from_days(-1);
        for days in 0..2 * 146_097 {
            let today = civil_from_days(days);
            let (year, month, day) = previous;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let expected = match (month, day == last) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                (_, false) => (year, month, day + 1),
            };
            assert_eq!(today, expected, "day {days}");
            previous = today;
        }
    }

    #[test]
    fn timestamp_formats_min_and_max() {
        assert!(timestamp(i64::MAX).starts_with("+292278994-08-17T07:12:55.807Z"));
        assert!(timestamp(i64::MIN).starts_with("-292275055-05-16T16:47:04.192Z"));
    }
}
