//! Traffic that was counted: from a file, from stdin, or from `/metrics` of whoever counts.

use std::path::Path;
use std::time::Duration;

use larder_schema::cost::Reading;
use tokio::time::{Instant, sleep_until};

use crate::commands::plan;
use crate::{http, project, terminal};

pub(super) enum Measured {
    /// As `larder::price::measured` gives it.
    Document(String),
    Reading(Reading),
}

/// What was counted there: all of it, what came after an earlier reading, or what comes in the next so long.
pub(super) fn read(from: &str, since: Option<&Path>, time: Option<Duration>) -> Result<Measured, String> {
    let text = text(from)?;
    if text.trim_start().starts_with('{') {
        return match (since, time) {
            (None, None) => Ok(Measured::Document(text)),
            _ => Err(format!("{from} is no reading of /metrics: --since and --for are for those")),
        };
    }
    let first = parse(from, &text)?;
    let reading = match (since, time) {
        (Some(path), _) => {
            let earlier = parse(&path.display().to_string(), &file(path)?)?;
            first.since(&earlier).map_err(|error| error.to_string())?
        }
        (None, Some(time)) if is_url(from) => {
            wait(time)?;
            let later = parse(from, &self::text(from)?)?;
            later.since(&first).map_err(|error| error.to_string())?
        }
        (None, Some(_)) => return Err(format!("{from} does not change: --for is for a URL")),
        (None, None) => first,
    };
    Ok(Measured::Reading(reading))
}

/// Waits, and shows that it does.
fn wait(time: Duration) -> Result<(), String> {
    let bar = terminal::progress(Some(time.as_secs()), "seconds of counting");
    plan::runtime()?.block_on(async {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep_until(end.min(Instant::now() + Duration::from_secs(1))).await;
            bar.inc(1);
        }
    });
    bar.finish_and_clear();
    Ok(())
}

fn parse(from: &str, text: &str) -> Result<Reading, String> {
    Reading::parse(text).map_err(|error| format!("{from}: {error}"))
}

fn is_url(from: &str) -> bool {
    from.starts_with("http://") || from.starts_with("https://")
}

fn text(from: &str) -> Result<String, String> {
    if !is_url(from) {
        return file(Path::new(from));
    }
    let host_at = from.find("://").map_or(0, |at| at + 3);
    let (endpoint, path) = match from[host_at..].find('/') {
        Some(at) => from.split_at(host_at + at),
        None => (from, "/metrics"),
    };
    let path = if path == "/" { "/metrics" } else { path };
    let cannot = |cause: String| {
        format!("cannot read {endpoint}{path}: {cause}; check that `larder serve` or your program runs there")
    };
    match http::get(endpoint, path).map_err(cannot)? {
        (200, text) => Ok(text),
        (status, _) => Err(cannot(format!("it answers {status}"))),
    }
}

fn file(path: &Path) -> Result<String, String> {
    project::text(path)
        .map_err(|error| format!("cannot read the measured traffic in {}: {error}", path.display()))
}
