//! Values of the image config, as the OCI image specification has them.

/// The first second of the year 0, and the first that is after the year 9999.
const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

/// Seconds since 1970 as RFC 3339 in UTC (days to civil date by the
/// proleptic Gregorian calendar). None outside of the years 0 to 9999.
pub fn rfc3339(seconds: i64) -> Option<String> {
    if !(YEAR_0..YEAR_10000).contains(&seconds) {
        return None;
    }
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    // Count from 1 March of year 0, so that the leap day ends a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// A time as RFC 3339, section 5.6, has it. Leap seconds and small letters,
/// which it leaves to the reader, are what Go programs do not read.
pub fn time(text: &str) -> Result<String, String> {
    let wrong = || "must be a time as RFC 3339 has it, such as 2024-02-29T12:00:00Z".to_owned();
    is_time(text).unwrap_or(false).then(|| text.to_owned()).ok_or_else(wrong)
}

/// None where the text ends too early.
fn is_time(text: &str) -> Option<bool> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.split_at_checked(9)?;
    let (year, month) = (digits(date.get(..4)?)?, digits(date.get(5..7)?)?);
    let day = digits(date.get(8..)?)?;
    let (hour, minute) = (digits(clock.get(1..3)?)?, digits(clock.get(4..6)?)?);
    let second = digits(clock.get(7..)?)?;
    let marks = [date.get(4..5), date.get(7..8), clock.get(..1), clock.get(3..4), clock.get(6..7)];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return Some(false),
    };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return Some(false);
            }
            zone
        }
    };
    Some(
        marks == ["-", "-", "T", ":", ":"].map(Some)
            && (1..=days).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60
            && (zone == "Z" || is_offset(zone)?),
    )
}

fn is_offset(zone: &str) -> Option<bool> {
    let clock = zone.strip_prefix(['+', '-'])?;
    let (hour, minute) = clock.split_once(':')?;
    let two = hour.len() == 2 && minute.len() == 2;
    Some(two && digits(hour)? < 24 && digits(minute)? < 60)
}

/// A number in digits alone.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `PORT`, `PORT/tcp`, `PORT/udp` or `PORT/sctp`.
pub fn port(text: &str) -> Result<String, String> {
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let is_port = !number.starts_with('0')
        && digits(number).is_some_and(|number| (1..=65_535).contains(&number));
    if is_port && ["tcp", "udp", "sctp"].contains(&protocol) {
        return Ok(text.to_owned());
    }
    Err("must be a port from 1 to 65535, with or without /tcp, /udp or /sctp".to_owned())
}

/// A path that begins at the image's root.
pub fn absolute(text: &str) -> Result<String, String> {
    let ok = text.starts_with('/').then(|| text.to_owned());
    ok.ok_or_else(|| "must be an absolute path".to_owned())
}

/// `USER` or `USER:GROUP`, in names or numbers.
pub fn user(text: &str) -> Result<String, String> {
    let parts: Vec<_> = text.split(':').collect();
    let ok = parts.len() <= 2 && parts.iter().all(|part| !part.is_empty());
    ok.then(|| text.to_owned()).ok_or_else(|| "must be USER or USER:GROUP".to_owned())
}

/// The signals of signal(7), without SIG; those for real time are counted.
const SIGNALS: &str = " ABRT ALRM BUS CHLD CLD CONT EMT FPE HUP ILL INFO INT IO IOT KILL LOST PIPE \
     POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU UNUSED URG USR1 USR2 \
     VTALRM WINCH XCPU XFSZ ";

/// A signal: `SIGTERM`, `SIGRTMIN+3` or a number from 1 to 64.
pub fn signal(text: &str) -> Result<String, String> {
    let is_known = match text.strip_prefix("SIG") {
        None => !text.starts_with('0') && digits(text).is_some_and(|n| (1..=64).contains(&n)),
        Some(name) => {
            let counted = ["RTMIN+", "RTMAX-"].iter().find_map(|end| name.strip_prefix(end));
            let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
            match counted {
                // 34 to 64 with glibc.
                Some(count) => !count.is_empty() && digits(count).is_some_and(|n| n <= 30),
                None => {
                    ["RTMIN", "RTMAX"].contains(&name)
                        || is_word && SIGNALS.contains(&format!(" {name} "))
                }
            }
        }
    };
    let wrong = || "must be a signal, such as SIGTERM, or a number from 1 to 64".to_owned();
    is_known.then(|| text.to_owned()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_rfc_3339() {
        // From `date -u -d @N +%FT%TZ`.
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(rfc3339(seconds).as_deref(), Some(text));
            assert!(time(text).is_ok());
        }
        for outside in [-62_167_219_201, 253_402_300_800, i64::MIN, i64::MAX] {
            assert_eq!(rfc3339(outside), None);
        }
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        // Its own examples in section 5.8, without the leap seconds.
        for good in [
            "1985-04-12T23:20:50.52Z",
            "1996-12-19T16:39:57-08:00",
            "1937-01-01T12:00:27.87+00:20",
            "2000-02-29T00:00:00Z",
        ] {
            assert_eq!(time(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "yesterday",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2024-04-31T00:00:00Z",
            "2024-01-00T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+24:00",
            "2024-01-01T00:00:00+1:00",
            "2024-01-01T00:00:00ZZ",
            "2024-01-01 00:00:00Z",
            "+024-01-01T00:00:00Z",
            "12024-01-01T00:00:00Z",
            "2024-01-0\u{e9}T00:00:00Z",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ports_users_and_signals() {
        for good in ["1", "80/tcp", "65535/udp", "9/sctp"] {
            assert!(port(good).is_ok(), "{good}");
        }
        for bad in ["", "0", "65536", "80/", "80/http", "+80", "/tcp", "http"] {
            assert!(port(bad).is_err(), "{bad}");
        }
        assert!(user("nobody").is_ok() && user("0:0").is_ok());
        assert!(["", ":", "a:", ":b", "a:b:c"].iter().all(|bad| user(bad).is_err()));
        for good in ["SIGTERM", "SIGUSR1", "SIGRTMIN", "SIGRTMIN+3", "SIGRTMAX-30", "1", "64"] {
            assert!(signal(good).is_ok(), "{good}");
        }
        for bad in ["", "SIG", "SIG TERM", "SIGNOSUCH", "TERM", "0", "65", "-9", "SIGRTMIN+31"] {
            assert!(signal(bad).is_err(), "{bad}");
        }
    }
}
