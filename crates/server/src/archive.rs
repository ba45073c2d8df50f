//! What the server tells of the store's archive: in `/metrics`, and in the log.

use std::time::Duration;

use larder_model::metrics::Exposition;
use larder_storage::Store;
use tokio::time;

/// How often it is looked at for the log.
const WATCH: Duration = Duration::from_secs(2);

/// What `/metrics` tells of the archive, if there is one.
pub(crate) fn expose(store: &Store, text: &mut Exposition) {
    let Some(status) = store.archive_status() else { return };
    text.gauge("larder_archive_lag_seconds", "How long the oldest commit that is not archived has waited.")
        .sample(&[], status.lag.as_secs_f64());
    text.gauge("larder_archive_commit", "The last commit that is archived.")
        .sample(&[], status.archived.map_or(0, |position| position.commit));
    text.gauge("larder_archive_failing", "1 while the archive does not get on.")
        .sample(&[], u64::from(status.failing.is_some()));
    text.counter("larder_archive_bytes_total", "What was written to the archive.").sample(&[], status.bytes);
    text.counter("larder_archive_bases_total", "Backups that the archive made to continue from.")
        .sample(&[], status.bases);
    text.gauge(
        "larder_archive_skipped_values",
        "Damaged values that are missing in the archive's last base.",
    )
    .sample(&[], status.skipped);
    text.counter("larder_archive_gaps_total", "Times that the archive could not continue from where it was.")
        .sample(&[], status.gaps);
}

/// Tells the log how the archive is doing, as long as the server runs.
pub(crate) async fn watch(store: Store) {
    let (mut failing, mut gaps, mut skipped) = (None, 0, 0);
    loop {
        time::sleep(WATCH).await;
        let Some(status) = store.archive_status() else { return };
        match (&failing, &status.failing) {
            (before, Some(cause)) if before.as_ref() != Some(cause) => {
                tracing::error!(
                    cause,
                    lag_seconds = status.lag.as_secs(),
                    "the store is not archived; writes continue, and archiving is tried again"
                );
            }
            (Some(_), None) => tracing::warn!("the store is archived again"),
            _ => {}
        }
        if status.gaps > gaps {
            tracing::warn!(
                "the archive could not continue from where it was; it starts again from a new base"
            );
        }
        if status.skipped > 0 && status.skipped != skipped {
            tracing::error!(
                values = status.skipped,
                "damaged values are missing in the archive's base: run `larder verify` on the store; older bases are kept"
            );
        }
        (failing, gaps, skipped) = (status.failing, status.gaps, status.skipped);
    }
}
