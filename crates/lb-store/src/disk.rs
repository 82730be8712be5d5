//! A store in one file of a folder, for one process at a time.
//!
//! One thread writes: it does what waits in one transaction and then answers all of it. Reads go beside it, on the
//! blocking threads of the runtime. What was acknowledged survives the end of the process; see [`Durability`].

mod backend;
mod file;
#[cfg(test)]
mod power_cut;
mod rows;
mod writer;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future, stream};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::disk::file::File;
use crate::disk::writer::Work;
use crate::hub::Hub;
use crate::store::{Facts, Kind, Pending, Scan};
use crate::{Applied, Batch, Durability, Error, Key, Limits, Settings, Store, Subscription, plan};

/// How many batches wait for the writer; whoever comes then waits for a place.
const WAITING_MAX: usize = 1_024;

/// Keys in a file.
pub(crate) struct Disk {
    file: Arc<File>,
    limits: Limits,
    timeout: Duration,
    /// Room in the queue, so that sending to the thread never blocks.
    places: Arc<Semaphore>,
    /// `None` once the store is closed.
    writing: Mutex<Option<(SyncSender<Work>, JoinHandle<()>)>>,
    hub: Arc<Hub>,
    latency: Mutex<Option<Duration>>,
}

impl Disk {
    /// Opens the folder, or makes it. Blocks.
    pub(crate) fn open(folder: &Path, settings: &Settings) -> Result<Self, Error> {
        make(folder)?;
        let file = Arc::new(File::open(folder, &settings.limits, settings.durability)?);
        let (queue, work) = sync_channel(WAITING_MAX);
        let interval = match settings.durability {
            Durability::Batch(interval) => interval,
            Durability::None | Durability::Event => Duration::ZERO,
        };
        let writer = std::thread::Builder::new().name("lb-store".to_owned()).spawn({
            let file = file.clone();
            move || writer::run(&file, &work, interval)
        });
        let writer = writer.map_err(|error| file.failed(&error.into()))?;
        Ok(Self {
            file,
            limits: settings.limits.clone(),
            timeout: settings.timeout,
            places: Arc::new(Semaphore::new(WAITING_MAX)),
            writing: Mutex::new(Some((queue, writer))),
            hub: Hub::new(),
            latency: Mutex::default(),
        })
    }

    async fn write(&self, batch: Batch) -> Result<Applied, Error> {
        batch.check(&self.limits)?;
        let Ok(place) = self.places.clone().acquire_owned().await else { return Err(self.closed()) };
        let (answer, answered) = oneshot::channel();
        let sent = self.writing.lock().as_ref().map(|(queue, _)| queue.try_send(Work { batch, answer, _place: place }));
        sent.ok_or_else(|| self.closed())?.map_err(|_| self.closed())?;
        answered.await.map_err(|_| self.closed())?
    }

    /// Reads on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&File) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let file = self.file.clone();
        let task = tokio::task::spawn_blocking(move || read(&file));
        task.await.map_err(|error| self.file.broken(&error.to_string()))?
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| Error::Timeout(self.timeout))?
    }

    fn closed(&self) -> Error {
        Error::Away { since: SystemTime::now(), why: "it is closed".to_owned() }
    }
}

/// Waits for what was accepted to be written.
impl Drop for Disk {
    fn drop(&mut self) {
        finish(self.writing.lock().take());
    }
}

/// Lets the thread write what waits, and waits for it.
fn finish(writing: Option<(SyncSender<Work>, JoinHandle<()>)>) {
    let Some((queue, writer)) = writing else { return };
    drop(queue);
    if writer.join().is_err() {
        tracing::error!("the thread that writes the store has panicked");
    }
}

impl Store for Disk {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        let key = key.clone();
        self.in_time(self.read(move |file| file.value(&key))).boxed()
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        self.in_time(self.write(batch)).boxed()
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        let key = key.clone();
        self.in_time(self.read(move |file| file.range(&key, after, limit))).boxed()
    }

    fn scan(&self, prefix: &str) -> Scan {
        let prefix: Arc<str> = prefix.into();
        let (file, timeout) = (self.file.clone(), self.timeout);
        let pages = stream::try_unfold(Some(None), move |from: Option<Option<String>>| {
            let (file, prefix) = (file.clone(), prefix.clone());
            async move {
                let Some(from) = from else { return Ok(None) };
                let page = tokio::task::spawn_blocking({
                    let file = file.clone();
                    move || file.page(from.as_deref(), &prefix)
                });
                match tokio::time::timeout(timeout, page).await {
                    Err(_) => Err(Error::Timeout(timeout)),
                    Ok(Err(error)) => Err(file.broken(&error.to_string())),
                    Ok(Ok(page)) => page.map(|(keys, next)| Some((keys, next.map(Some)))),
                }
            }
        });
        pages.map_ok(|keys| stream::iter(keys.into_iter().map(Ok))).try_flatten().boxed()
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        future::ready(self.hub.publish(channel, message)).boxed()
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        future::ready(Ok(self.hub.subscribe(channel))).boxed()
    }

    fn ping(&self) -> Pending<'_, ()> {
        let ping = async {
            let begun = Instant::now();
            self.read(File::check).await?;
            *self.latency.lock() = Some(begun.elapsed());
            Ok(())
        };
        self.in_time(ping).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let close = async move {
            let (file, writing) = (self.file.clone(), self.writing.lock().take());
            let closing = tokio::task::spawn_blocking(move || {
                finish(writing);
                file.close();
            });
            if let Err(error) = closing.await {
                tracing::error!(%error, "the store could not be closed");
            }
        };
        close.boxed()
    }

    fn facts(&self) -> Facts {
        let trouble = self.file.trouble();
        Facts {
            away_since: trouble.since,
            last_error: trouble.last,
            latency: *self.latency.lock(),
            ..Facts::well(Kind::Disk)
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Makes the folder, for its owner only. One that is there is left as it is: the file is for its owner only, too.
fn make(folder: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| Error::Refused(format!("cannot make {}: {error}", folder.display())))
}

/// The wall clock in milliseconds since 1970: deadlines in a file must mean the same after a restart.
fn now_ms() -> u64 {
    plan::clock() / 1_000
}
