//! Sessions of the process before this one, until their clients come back.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_session::{Kept, Ulid};
use lb_store::{Error, Key, Store};
use lb_wire::Raw;

use super::write::Keys;
use super::{CLEAN, Head, Keeper};

/// Events that are read at once.
const PAGE: usize = 512;

/// A session as it was written.
#[derive(Debug)]
pub(crate) struct Asleep {
    pub(crate) head: Head,
    /// Its state, if it has a surface of ours.
    pub(crate) kept: Option<Kept>,
    /// Tasks that have a key of their own.
    pub(crate) tasks: Vec<Ulid>,
}

impl Keeper {
    /// Reads the sessions of the process before this one. What is none of ours is left where it is, and said.
    pub(crate) async fn load(&self) -> Result<usize, Error> {
        let store = &*self.keeping.store;
        let clean = store.take(&Key::parse(CLEAN)?).await?;
        self.may_miss.store(clean.is_none(), Ordering::Relaxed);
        let keys: Vec<_> = store.scan("session:").try_collect().await?;
        let mut found = 0;
        for key in keys.iter().filter(|key| key.as_str().ends_with(":head")) {
            match read(store, key.tag()).await? {
                Some(asleep) => {
                    self.asleep.lock().insert(key.tag().into(), asleep);
                    found += 1;
                }
                None => tracing::warn!(session = key.tag(), "a session that was kept cannot be read, and is left out"),
            }
        }
        Ok(found)
    }
}

async fn read(store: &dyn Store, name: &str) -> Result<Option<Asleep>, Error> {
    let keys = Keys::named(name)?;
    let Some(head) = value(store.get(&keys.head).await?).as_ref().and_then(Head::read) else { return Ok(None) };
    let Some(record) = value(store.get(&keys.record).await?) else {
        return Ok(Some(Asleep { head, kept: None, tasks: Vec::new() }));
    };
    let Ok(named) = Kept::tasks_of(&record) else { return Ok(None) };
    let mut tasks = Vec::with_capacity(named.len());
    for id in &named {
        tasks.extend(value(store.get(&keys.task(*id)?).await?));
    }
    let (mut events, mut after) = (Vec::<(u64, Raw)>::new(), 0);
    loop {
        let page = store.range(&keys.events, after, PAGE).await?;
        let last = page.len() < PAGE;
        after = page.last().map_or(after, |(seq, _)| *seq);
        events.extend(page.into_iter().filter_map(|(seq, entry)| Some((seq, value(Some(entry))?))));
        if last {
            break;
        }
    }
    Ok(Some(Asleep { head, kept: Some(Kept { record, events, tasks }), tasks: named }))
}

fn value(bytes: Option<Bytes>) -> Option<Raw> {
    bytes.and_then(|bytes| Raw::parse(bytes).ok())
}
