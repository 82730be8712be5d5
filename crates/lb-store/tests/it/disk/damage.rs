//! A damaged file is told as such, and never ends the process.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use futures_util::TryStreamExt;
use lb_store::{Batch, Durability, Error, Key};

use super::{open, settings};
use crate::suite::{LONG, key};

async fn fill(folder: &Path) {
    let store = open(folder).await;
    for n in 0..200 {
        store.set(&key(&format!("k{n}")), vec![n as u8; 700], LONG).await.unwrap();
        store.append(&key(&format!("s{n}")), 1, vec![n as u8; 300], 9, LONG).await.unwrap();
    }
}

/// Opens it and reads everything; the first error.
async fn read_all(folder: &Path) -> Result<(), Error> {
    let store = lb_store::open(&settings(folder, Durability::None)).await?;
    let keys: Vec<Key> = store.scan("").try_collect().await?;
    for key in keys {
        if key.as_str().starts_with('k') {
            store.get(&key).await?;
        } else {
            store.range(&key, 0, 99).await?;
        }
    }
    store.apply(Batch::new().set(&key("k1"), "again", LONG)).await.map(drop)
}

#[tokio::test]
async fn what_is_no_store_is_refused_with_what_to_do() {
    for content in [&b"not a store at all"[..], &[0; 5_000], &[0xff; 100_000]] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("state.redb"), content).unwrap();
        let error = read_all(folder.path()).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("move it away"), "{error}");
        assert!(!error.is_temporary());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_never_ends_the_process() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path()).await;
    let file = folder.path().join("state.redb");
    let whole = fs::read(&file).unwrap();
    read_all(folder.path()).await.unwrap();
    let mut told = 0;
    // Cut off at several lengths, and one page after the other overwritten.
    let page = 4_096;
    let cuts = [1, page - 1, page, 10 * page, whole.len() / 2, whole.len() - 1];
    for cut in cuts {
        fs::write(&file, &whole[..cut]).unwrap();
        let read = read_all(folder.path()).await;
        told += usize::from(matches!(read, Err(Error::Corrupt { .. } | Error::Away { .. })));
    }
    let pages = whole.len() / page;
    for at in (0..pages).step_by((pages / 40).max(1)) {
        fs::write(&file, &whole).unwrap();
        let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
        opened.write_all_at(&[0xa5; 64], (at * page + 128) as u64).unwrap();
        match read_all(folder.path()).await {
            // A page that is free, or is not read.
            Ok(()) => {}
            Err(Error::Corrupt { .. } | Error::Away { .. } | Error::Refused(_)) => told += 1,
            Err(error) => panic!("page {at}: {error:?}"),
        }
    }
    assert!(5 <= told, "{told} were told");
    fs::write(&file, &whole).unwrap();
    read_all(folder.path()).await.unwrap();
}
