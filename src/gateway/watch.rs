//! Tells when files below some folders changed. Folders are watched, not files: a file that is replaced by rename
//! would take its watch with it.

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// A change is told once nothing more happened for this long: editors and copies write in several steps.
const SETTLE: Duration = Duration::from_millis(200);
/// ... but at the latest after this.
const SETTLE_MAX: Duration = Duration::from_millis(800);
/// Without any event the folders are looked at anyway: a network file system or a folder that came later tells nothing.
const RESCAN: Duration = Duration::from_secs(30);

/// Watched folders.
pub struct Folders {
    watcher: Option<RecommendedWatcher>,
    /// Each folder with the place that is watched for it: itself, or its nearest parent as long as it does not exist.
    places: Vec<(PathBuf, Option<PathBuf>)>,
    events: mpsc::Receiver<()>,
}

impl Folders {
    /// Watches folders with all that is below them. One that does not exist is watched from its nearest parent;
    /// where watching fails, only the periodic look remains, and that is logged.
    pub fn watch(folders: &[PathBuf]) -> Self {
        // One place is enough: the event says that something happened, not what.
        let (told, events) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.as_ref().is_ok_and(|e| matches!(e.kind, EventKind::Access(_))) {
                return;
            }
            let _ = told.try_send(());
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "cannot watch folders; looking every 30 s instead"))
            .ok();
        let mut folders = Self { watcher, places: folders.iter().map(|f| (f.clone(), None)).collect(), events };
        folders.follow();
        folders
    }

    /// Moves each watch to where its folder is now.
    fn follow(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for (folder, watched) in &mut self.places {
            let (place, mode) = nearest(folder);
            if watched.as_deref() == Some(place) {
                continue;
            }
            match watcher.watch(place, mode) {
                Ok(()) => *watched = Some(place.to_path_buf()),
                Err(error) => {
                    tracing::warn!(folder = %place.display(), %error, "cannot watch; looking every 30 s instead");
                }
            }
        }
    }

    /// Returns when something changed and has settled, or when it is time to look anyway. Who cancels it looks by
    /// himself: a change that was noticed and has not settled yet is not told again.
    pub async fn changed(&mut self) {
        match timeout(RESCAN, self.events.recv()).await {
            Ok(Some(())) => {}
            Ok(None) => return sleep(RESCAN).await,
            Err(_) => return,
        }
        let _ =
            timeout(SETTLE_MAX, async { while let Ok(Some(())) = timeout(SETTLE, self.events.recv()).await {} }).await;
        self.follow();
    }
}

fn nearest(folder: &Path) -> (&Path, RecursiveMode) {
    if folder.is_dir() {
        return (folder, RecursiveMode::Recursive);
    }
    let mut place = folder;
    while let Some(parent) = place.parent() {
        place = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        if place.is_dir() {
            break;
        }
    }
    // Only the folder itself: what lies below a far parent is not ours.
    (place, RecursiveMode::NonRecursive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Instant;

    #[tokio::test]
    async fn every_atomic_replacement_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = Folders::watch(&[dir.path().to_path_buf()]);
        for round in 0..3 {
            fs::write(dir.path().join(".part"), round.to_string()).unwrap();
            fs::rename(dir.path().join(".part"), dir.path().join("a.yaml")).unwrap();
            let began = Instant::now();
            folders.changed().await;
            assert!(began.elapsed() < Duration::from_secs(2), "round {round} was told late");
        }
    }

    #[tokio::test]
    async fn a_folder_that_comes_later_is_told_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = Folders::watch(&[dir.path().join("devices.d")]);
        fs::create_dir(dir.path().join("devices.d")).unwrap();
        let began = Instant::now();
        folders.changed().await;
        assert!(began.elapsed() < Duration::from_secs(2));
        fs::write(dir.path().join("devices.d/a.yaml"), "").unwrap();
        let began = Instant::now();
        folders.changed().await;
        assert!(began.elapsed() < Duration::from_secs(2), "a file in the folder that came later");
    }
}
