//! Values of options: sizes, compression, times, owners, platforms.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use microfs::compress::Compression;
use microfs_oci::{ConfigOptions, Platform, PlatformRequest};

use crate::exit::UsageError;

/// A block size: a power of two from 512 to 1M, as its base-2 logarithm.
pub fn block_log(text: &str) -> Result<u8, String> {
    let (digits, shift) = match text.to_ascii_uppercase() {
        upper if upper.ends_with('K') => (upper.trim_end_matches('K').to_owned(), 10),
        upper if upper.ends_with('M') => (upper.trim_end_matches('M').to_owned(), 20),
        upper => (upper, 0),
    };
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let valid = size.filter(|size| size.is_power_of_two() && (512..=1 << 20).contains(size));
    let size = valid.ok_or("must be a power of two from 512 to 1M, such as 128K")?;
    u8::try_from(size.ilog2()).map_err(|error| error.to_string())
}

/// `none`, `zstd` or `zstd:LEVEL`.
pub fn compression(text: &str) -> Result<Compression, String> {
    let usage = "must be none, zstd or zstd:LEVEL with a level from 1 to 22";
    match text.split_once(':') {
        None if text == "none" => Ok(Compression::None),
        None if text == "zstd" => Ok(Compression::default()),
        Some(("zstd", level)) => {
            let level = level.parse().ok().filter(|level| (1..=22).contains(level));
            level.map(Compression::Zstd).ok_or_else(|| usage.to_owned())
        }
        _ => Err(usage.to_owned()),
    }
}

/// Seconds since 1970, with or without `@`.
pub fn seconds(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix('@').unwrap_or(text);
    digits.parse().map_err(|_| "must be seconds since 1970, such as 1700000000".to_owned())
}

/// `UID`, `UID:GID` or `:GID`.
pub fn owner(text: &str) -> Result<(Option<u32>, Option<u32>), String> {
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| "must be UID:GID in numbers".to_owned()),
    };
    let (uid, gid) = text.split_once(':').unwrap_or((text, ""));
    if uid.is_empty() && gid.is_empty() {
        return Err("must be UID:GID in numbers".to_owned());
    }
    Ok((number(uid)?, number(gid)?))
}

/// `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`.
pub fn platform(text: &str) -> Result<Platform, String> {
    let parts: Vec<_> = text.split('/').collect();
    match *parts.as_slice() {
        [os, architecture] if !os.is_empty() && !architecture.is_empty() => {
            Ok(Platform::new(os, architecture))
        }
        [os, architecture, variant] if !variant.is_empty() => {
            let mut platform = Platform::new(os, architecture);
            platform.variant = Some(variant.to_owned());
            Ok(platform)
        }
        _ => Err("must be OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT".to_owned()),
    }
}

/// Which platform to take where an image has several.
#[derive(Debug, Args)]
pub struct PlatformArgs {
    /// Take the image of this platform [default: that of this machine]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    pub platform: Option<Platform>,
}

impl PlatformArgs {
    /// The request to resolve with.
    pub fn request(&self) -> PlatformRequest {
        self.platform.clone().map_or(PlatformRequest::Host, PlatformRequest::Exact)
    }
}

/// Number of threads.
#[derive(Debug, Args)]
pub struct ThreadArgs {
    /// Threads to work with [default: one for each core]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

impl ThreadArgs {
    /// A pool of that size.
    pub fn pool(&self) -> anyhow::Result<Arc<rayon::ThreadPool>> {
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(self.threads.map_or(0, usize::from))
            .thread_name(|number| format!("microfs-{number}"));
        Ok(Arc::new(builder.build().context("cannot start threads")?))
    }
}

/// The image config of a new image.
#[derive(Debug, Args)]
#[command(next_help_heading = "Image config")]
pub struct ConfigArgs {
    /// Command that always runs; repeat for its arguments
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    config_entrypoint: Vec<String>,
    /// Default arguments, or command; repeat for each word
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    config_cmd: Vec<String>,
    /// Environment variable; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    config_env: Vec<String>,
    /// Working directory
    #[arg(long, value_name = "PATH")]
    config_workdir: Option<String>,
    /// User, with or without group
    #[arg(long, value_name = "USER[:GROUP]")]
    config_user: Option<String>,
    /// Label; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    config_label: Vec<String>,
    /// Port that the image serves; repeatable
    #[arg(long, value_name = "PORT[/tcp|/udp]")]
    config_port: Vec<String>,
    /// Folder with data of one container; repeatable
    #[arg(long, value_name = "PATH")]
    config_volume: Vec<String>,
    /// Signal that asks the container to stop
    #[arg(long, value_name = "SIGNAL")]
    config_stop_signal: Option<String>,
    /// Platform of the image [default: that of this machine]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    config_platform: Option<Platform>,
    /// Time of creation, RFC 3339 [default: none, or SOURCE_DATE_EPOCH]
    #[arg(long, value_name = "TIME")]
    config_created: Option<String>,
}

impl ConfigArgs {
    /// What these say about running the image.
    pub fn options(&self) -> Result<ConfigOptions, UsageError> {
        let words = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
        let mut options = ConfigOptions {
            entrypoint: words(&self.config_entrypoint),
            cmd: words(&self.config_cmd),
            env: self.config_env.clone(),
            working_dir: self.config_workdir.clone(),
            user: self.config_user.clone(),
            stop_signal: self.config_stop_signal.clone(),
            ..ConfigOptions::default()
        };
        for variable in &self.config_env {
            if variable.split_once('=').is_none_or(|(name, _)| name.is_empty()) {
                return Err(UsageError::of(format!("--config-env {variable}: must be NAME=VALUE")));
            }
        }
        for label in &self.config_label {
            match label.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    options.labels.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    let text = format!("--config-label {label}: must be NAME=VALUE");
                    return Err(UsageError::of(text));
                }
            }
        }
        options.exposed_ports.extend(self.config_port.iter().cloned());
        options.volumes.extend(self.config_volume.iter().cloned());
        Ok(options)
    }

    /// The platform given, if any.
    pub fn platform(&self) -> Option<Platform> {
        self.config_platform.clone()
    }

    /// Time of creation: as given, or that of SOURCE_DATE_EPOCH.
    pub fn created(&self, epoch: Option<i64>) -> Option<String> {
        self.config_created.clone().or_else(|| epoch.map(rfc3339))
    }
}

/// Seconds since 1970 as RFC 3339 in UTC (days to civil date by the
/// proleptic Gregorian calendar).
fn rfc3339(seconds: i64) -> String {
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
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes() {
        assert_eq!(block_log("512"), Ok(9));
        assert_eq!(block_log("128k"), Ok(17));
        assert_eq!(block_log("1M"), Ok(20));
        for bad in ["", "0", "256", "513", "2M", "128KB", "-1", "99999999999999999999M"] {
            assert!(block_log(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn compressions() {
        assert_eq!(compression("none"), Ok(Compression::None));
        assert_eq!(compression("zstd:19"), Ok(Compression::Zstd(19)));
        for bad in ["zstd:0", "zstd:23", "zstd:", "gzip", "none:1"] {
            assert!(compression(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_as_rfc_3339() {
        // From `date -u -d @N +%FT%TZ`.
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn owners() {
        assert_eq!(owner("0:0"), Ok((Some(0), Some(0))));
        assert_eq!(owner(":5"), Ok((None, Some(5))));
        assert_eq!(owner("7"), Ok((Some(7), None)));
        assert!(owner("").is_err() && owner(":").is_err() && owner("root").is_err());
    }
}
