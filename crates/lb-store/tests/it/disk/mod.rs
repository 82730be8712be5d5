//! The store on disk.

mod crash;
mod damage;
mod file;

use std::path::Path;
use std::sync::Arc;

use lb_store::{Durability, Limits, Place, Settings, Store};
use tempfile::TempDir;

use crate::suite::{self, Fixture};

struct Disk {
    store: Arc<dyn Store>,
    _folder: TempDir,
}

pub fn settings(folder: &Path, durability: Durability) -> Settings {
    Settings { durability, ..Settings::new(Place::Disk(folder.to_owned())) }
}

pub async fn open(folder: &Path) -> Arc<dyn Store> {
    lb_store::open(&settings(folder, Durability::None)).await.unwrap()
}

impl Fixture for Disk {
    async fn start(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { limits, ..settings(folder.path(), Durability::None) };
        Self { store: lb_store::open(&settings).await.unwrap(), _folder: folder }
    }

    async fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn finish(self) {}
}

suite::conformance!(Disk, 40);
