//! A hunt for secrets: all that there are, and all that was seen of a gateway.

use std::net::SocketAddr;
use std::path::Path;

use lb_peers::raw::http::{headers, post_headers};
use lb_peers::valkey::Valkey;

use crate::search::Place;
use crate::world::send;

/// What is kept where, and what was seen there.
pub struct Hunt {
    /// The gateway.
    pub at: SocketAddr,
    /// Where it keeps what it knows; else it is in the folder.
    pub store: Option<Valkey>,
    pub data: tempfile::TempDir,
    pub places: Vec<Place>,
    pub secrets: Vec<(&'static str, String)>,
}

impl Hunt {
    pub fn new(at: SocketAddr, store: Option<Valkey>, data: tempfile::TempDir) -> Self {
        Self { at, store, data, places: Vec::new(), secrets: Vec::new() }
    }

    pub fn secret(&mut self, what: &'static str, secret: impl Into<String>) {
        self.secrets.push((what, secret.into()));
    }

    pub fn seen(&mut self, place: &str, text: &str) {
        self.places.push((place.to_owned(), text.to_owned()));
    }

    /// What the store holds now, as whoever steals it reads it.
    pub fn dump(&mut self, when: &str) {
        let mut bytes = Vec::new();
        match &self.store {
            Some(store) => {
                assert!(store.command(&["SAVE"]).contains("OK"));
                bytes = std::fs::read(store.folder().join("dump.rdb")).expect("a dump");
            }
            None => read_all(&self.data.path().join("data"), &mut bytes),
        }
        assert!(500 < bytes.len(), "there is something in it {when}");
        self.seen(&format!("the store {when}"), &String::from_utf8_lossy(&bytes));
    }

    /// Asks and keeps what was answered, as a place.
    pub async fn ask(&mut self, method: &str, path: &str, with: &[(&str, &str)], body: &str) -> u16 {
        let mut all = post_headers();
        all.retain(|(name, _)| !with.iter().any(|(other, _)| name.eq_ignore_ascii_case(other)));
        all.extend(headers(with));
        let answer = send(self.at, method, path, &all, body.as_bytes()).await;
        let shown = path.split('?').next().unwrap_or_default();
        self.seen(&format!("the answer to {method} {shown}"), &answer.text());
        answer.head.status()
    }
}

fn read_all(folder: &Path, into: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, into);
        } else {
            into.extend_from_slice(path.to_string_lossy().as_bytes());
            into.extend(std::fs::read(&path).expect("a file"));
        }
    }
}
