//! Drives the engine's background work: backfill, removals, expiry.
//!
//! A pass is as many bounded steps as there is work for. A pass runs when the engine wants one, when somebody
//! asks for one, and on a tick, because items expire without anybody doing anything. Before each step the engine is told
//! what the clock says. A step that fails is logged, and the next tick tries again.

use std::sync::Arc;
use std::time::Duration;

use larder_engine::Engine;
use larder_model::Clock;
use tokio::sync::{mpsc, oneshot};
use tokio::task;
use tokio::time::sleep;

use crate::metrics::Pulse;

const TICK: Duration = Duration::from_secs(1);

/// Asks for a pass; the answer comes when it is over.
pub(crate) type Ask = mpsc::Sender<oneshot::Sender<()>>;

#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) ttl_delay: Duration,
    pub(crate) asked: mpsc::Receiver<oneshot::Sender<()>>,
    /// Told of every step.
    pub(crate) pulse: Arc<Pulse>,
}

impl Background {
    /// Works until nobody is left who could ask.
    pub(crate) async fn run(mut self) {
        let mut waiting = Vec::new();
        loop {
            self.pass().await;
            for reply in waiting.drain(..) {
                // Who asked may have gone away.
                let _ = oneshot::Sender::send(reply, ());
            }
            tokio::select! {
                asked = self.asked.recv() => match asked {
                    Some(reply) => waiting.push(reply),
                    None => return,
                },
                () = self.engine.work_wanted() => {}
                () = sleep(TICK) => {}
            }
        }
    }

    async fn pass(&self) {
        while !self.asked.is_closed() && self.step().await {}
    }

    /// Whether there is more to do at once.
    async fn step(&self) -> bool {
        let (engine, reading, ttl_delay) = (self.engine.clone(), self.clock.read(), self.ttl_delay);
        for told in &reading.told {
            tracing::warn!("{told}");
        }
        let step = move || {
            engine.keep_time(&reading)?;
            engine.work(reading.now, ttl_delay)
        };
        // A step waits for the disk, which the threads that serve requests must not.
        match task::spawn_blocking(step).await {
            Ok(Ok(worked)) => {
                self.pulse.beat(None);
                if worked.history_cut_bytes > 0 {
                    tracing::warn!(
                        bytes = worked.history_cut_bytes,
                        "history was over its limit: the oldest changes are forgotten, and recovery reaches less far back"
                    );
                }
                worked.more
            }
            Ok(Err(error)) => {
                tracing::error!(?error, "background work failed");
                // What is damaged holds up its own table alone, and no restart mends it.
                self.pulse.beat((!error.concerns_one_value()).then(|| error.to_string()));
                false
            }
            Err(error) => {
                tracing::error!(%error, "background work panicked");
                self.pulse.beat(Some("it stopped short".to_owned()));
                false
            }
        }
    }
}
