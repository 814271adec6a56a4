//! Values of options: sizes, compression, times, owners, platforms.

use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use microfs::compress::Compression;
use microfs_oci::{ConfigOptions, Platform, PlatformRequest};

use crate::config_values;
use crate::exit::UsageError;

/// How usage shows an image and the words behind it, which are one argument to
/// clap; it adds the outer brackets.
pub const THEN_DIRECTORY: &str = "OCI-DIR[:TAG]> <DIRECTORY";
/// The same for a new tag.
pub const THEN_TAG: &str = "OCI-DIR[:TAG]> <NEW-TAG";
/// The same for paths in the image.
pub const THEN_PATH: &str = "OCI-DIR[:TAG]> <PATH";

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

/// The variable that dates reproducible builds.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// What SOURCE_DATE_EPOCH says, if it is set to anything.
pub fn source_date_epoch() -> Result<Option<i64>, UsageError> {
    let Some(value) = std::env::var_os(EPOCH).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    let seconds = seconds(&value);
    seconds.map(Some).map_err(|error| UsageError::of(format!("{EPOCH}={value}: {error}")))
}

/// `UID`, `UID:GID` or `:GID`.
pub fn owner(text: &str) -> Result<(Option<u32>, Option<u32>), String> {
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => match digits.parse() {
            // (uid_t) -1 means "leave it" wherever owners are set.
            Ok(number) if number < u32::MAX => Ok(Some(number)),
            _ => Err("must be UID:GID in numbers below 4294967295".to_owned()),
        },
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
    #[arg(long, value_name = "PATH", value_parser = config_values::absolute)]
    config_workdir: Option<String>,
    /// User, with or without group
    #[arg(long, value_name = "USER[:GROUP]", value_parser = config_values::user)]
    config_user: Option<String>,
    /// Label; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    config_label: Vec<String>,
    /// Port that the image serves; repeatable
    #[arg(long, value_name = "PORT[/tcp|/udp|/sctp]", value_parser = config_values::port)]
    config_port: Vec<String>,
    /// Folder with data of one container; repeatable
    #[arg(long, value_name = "PATH")]
    config_volume: Vec<String>,
    /// Signal that asks the container to stop
    #[arg(long, value_name = "SIGNAL", value_parser = config_values::signal)]
    config_stop_signal: Option<String>,
    /// Platform of the image [default: that of this machine]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    config_platform: Option<Platform>,
    /// Time of creation, RFC 3339 [default: none, or SOURCE_DATE_EPOCH]
    #[arg(long, value_name = "TIME", value_parser = config_values::time)]
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

    /// Time of creation: as given, or `epoch` in seconds since 1970.
    pub fn created(&self, epoch: Option<i64>) -> Result<Option<String>, UsageError> {
        match (&self.config_created, epoch) {
            (Some(given), _) => Ok(Some(given.clone())),
            (None, Some(seconds)) => config_values::rfc3339(seconds).map(Some).ok_or_else(|| {
                UsageError::of(format!(
                    "time of creation: {seconds} seconds since 1970 are not in the years 0 to 9999 \
                     (--config-created gives another)"
                ))
            }),
            (None, None) => Ok(None),
        }
    }
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
    fn owners() {
        assert_eq!(owner("0:0"), Ok((Some(0), Some(0))));
        assert_eq!(owner(":5"), Ok((None, Some(5))));
        assert_eq!(owner("7"), Ok((Some(7), None)));
        assert!(owner("4294967295:1").is_err() && owner("1:4294967295").is_err());
        assert!(owner("").is_err() && owner(":").is_err() && owner("root").is_err());
    }
}
