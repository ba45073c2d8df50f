//! What is logged on this thread, as lines of JSON.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics in here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Runs something that stays on this thread, and gives what it logged.
pub(crate) fn captured(run: impl FnOnce()) -> Vec<serde_json::Value> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(lines.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, run);
    let bytes = lines.0.lock().expect("nobody panics in here");
    let text = std::str::from_utf8(&bytes).expect("it is text");
    text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}
