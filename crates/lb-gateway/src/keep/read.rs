//! A session as it was written, read back.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lb_session::{Kept, Ulid};
use lb_store::{Error, Store};
use lb_wire::Raw;

use super::Head;
use super::keys::Keys;
use super::record::Record;
use super::write::Log;

/// Events that are read at once.
const PAGE: usize = 512;
/// Tasks that are read at once.
const TASKS_AT_ONCE: usize = 16;

/// A session as it was written.
#[derive(Debug)]
pub(crate) struct Asleep {
    pub(crate) head: Head,
    /// The head as it was written.
    pub(crate) head_kept: Raw,
    /// Its state, if it has a surface of ours.
    pub(crate) kept: Option<Kept>,
    /// Tasks that have a key of their own.
    pub(crate) tasks: Vec<Ulid>,
    pub(crate) events: Log,
    /// What its only server was told.
    pub(crate) told: Option<Raw>,
    /// Whether there is more of it than its head.
    pub(crate) recorded: bool,
    /// The log of its streams.
    pub(crate) streams: Vec<(u64, Raw)>,
}

/// What is found of a session.
#[derive(Debug)]
pub(crate) enum Found<T> {
    It(T),
    Nothing,
    /// What is there is none of ours, or of a later version; this is the key.
    Unreadable(lb_store::Key),
}

/// Who it belongs to and where it leads, if that and what goes with it can be read.
pub(crate) async fn look(store: &dyn Store, keys: &Keys) -> Result<Found<Head>, Error> {
    let Some(head) = store.get(&keys.head).await? else { return Ok(Found::Nothing) };
    let Some(head) = raw(head).as_ref().and_then(Head::read) else { return Ok(Found::Unreadable(keys.head.clone())) };
    match store.get(&keys.record).await? {
        Some(record) if read_record(record.clone()).is_none() => Ok(Found::Unreadable(keys.record.clone())),
        Some(_) | None => Ok(Found::It(head)),
    }
}

/// All of it.
pub(crate) async fn read(store: &dyn Store, keys: &Keys) -> Result<Found<Asleep>, Error> {
    let Some(head) = store.get(&keys.head).await? else { return Ok(Found::Nothing) };
    let unreadable = |key: &lb_store::Key| Ok(Found::Unreadable(key.clone()));
    let Some(head_kept) = raw(head) else { return unreadable(&keys.head) };
    let Some(head) = Head::read(&head_kept) else { return unreadable(&keys.head) };
    let record = store.get(&keys.record).await?;
    let recorded = record.is_some();
    let Some(record) = record.map_or_else(|| Some(Record::default()), read_record) else {
        return unreadable(&keys.record);
    };
    let streams = read_streams(store, keys).await?;
    let (kept, tasks, events, told) = (None, Vec::new(), Log::default(), record.told);
    let mut asleep = Asleep { head, head_kept, kept, tasks, events, told, recorded, streams };
    if let Some(session) = record.session {
        let Ok(named) = Kept::tasks_of(&session) else { return unreadable(&keys.record) };
        let tasks = read_tasks(store, keys, &named).await?;
        asleep.tasks = named;
        let (events, log) = read_events(store, keys, record.events_base).await?;
        asleep.events = log;
        asleep.kept = Some(Kept { record: session, events, tasks });
    }
    Ok(Found::It(asleep))
}

async fn read_tasks(store: &dyn Store, keys: &Keys, named: &[Ulid]) -> Result<Vec<Raw>, Error> {
    let names = named.iter().map(|id| keys.task(*id)).collect::<Result<Vec<_>, _>>()?;
    let reading: Vec<_> = names.iter().map(|key| store.get(key)).collect();
    let read: Vec<Option<Bytes>> = stream::iter(reading).buffered(TASKS_AT_ONCE).try_collect().await?;
    let mut tasks = Vec::with_capacity(read.len());
    for (key, task) in names.iter().zip(read) {
        match task.map(raw) {
            Some(Some(task)) => tasks.push(task),
            // One that is gone is forgotten, one that is damaged takes nothing else with it.
            Some(None) => tracing::error!(%key, "store_record_unreadable"),
            None => {}
        }
    }
    Ok(tasks)
}

/// The events of the log since it was last written anew, by number.
async fn read_events(store: &dyn Store, keys: &Keys, base: u64) -> Result<(Vec<(u64, Raw)>, Log), Error> {
    let (mut events, mut entries, mut last) = (Vec::<(u64, Raw)>::new(), 0, 0);
    loop {
        let page = store.range(&keys.events, last, PAGE).await?;
        let is_last = page.len() < PAGE;
        entries += page.len() as u64;
        last = page.last().map_or(last, |(at, _)| *at);
        let fresh = page.into_iter().filter(|(at, _)| base < *at);
        events.extend(fresh.filter_map(|(at, entry)| Some((at - base, raw(entry)?))));
        if is_last {
            return Ok((events, Log::new(base, last, entries)));
        }
    }
}

/// The log of the streams. An entry that is damaged is there as nothing, so that it is seen.
async fn read_streams(store: &dyn Store, keys: &Keys) -> Result<Vec<(u64, Raw)>, Error> {
    let (mut entries, mut last) = (Vec::<(u64, Raw)>::new(), 0);
    loop {
        let page = store.range(&keys.streams, last, PAGE).await?;
        let is_last = page.len() < PAGE;
        last = page.last().map_or(last, |(at, _)| *at);
        entries.extend(page.into_iter().map(|(at, entry)| (at, raw(entry).unwrap_or(Raw::from_static("null")))));
        if is_last {
            return Ok(entries);
        }
    }
}

fn read_record(record: Bytes) -> Option<Record> {
    raw(record).as_ref().and_then(Record::read)
}

fn raw(bytes: Bytes) -> Option<Raw> {
    Raw::parse(bytes).ok()
}
