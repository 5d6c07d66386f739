//! Long-running tasks: named, restarted when they panic, counted, and stopped together.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A task that panicked begins again after this long: not at once, so that a fault of every start does not burn a core.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// The tasks of one gateway.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
    restarts: Arc<AtomicU64>,
}

impl Tasks {
    /// Runs what `make` makes until it ends by itself or all tasks are stopped. A panic in it is logged and counted,
    /// and it begins anew from what is outside of it: the last commit.
    pub fn spawn<F>(&self, name: &'static str, mut make: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let tasks = self.clone();
        self.tracker.spawn(async move {
            while !tasks.stop.is_cancelled() {
                let mut running = tokio::spawn(make());
                let ended = tokio::select! {
                    ended = &mut running => ended,
                    () = tasks.stop.cancelled() => {
                        running.abort();
                        let _ = running.await;
                        return;
                    }
                };
                if !ended.is_err_and(|error| error.is_panic()) {
                    return;
                }
                tasks.restarts.fetch_add(1, Ordering::Relaxed);
                tracing::error!(task = name, "a defect: the task panicked and begins anew");
                sleep(RESTART_PAUSE).await;
            }
        });
    }

    /// How many tasks began anew after a panic.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Stops all tasks and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_begins_anew_and_is_counted() {
        let (tasks, runs) = (Tasks::default(), Arc::new(AtomicU32::new(0)));
        let seen = Arc::clone(&runs);
        tasks.spawn("test", move || {
            let run = seen.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(run >= 2, "on purpose");
                std::future::pending::<()>().await;
            }
        });
        while runs.load(Ordering::SeqCst) < 3 {
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(tasks.restarts(), 2);
        tasks.stop().await;
    }
}
