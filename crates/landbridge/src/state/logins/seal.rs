//! The key that logins are sealed with: in the keyring of the system where one is open, else in their folder.
//!
//! A note in the folder says that it is in the keyring, and under which name. It is written when the keyring has shown
//! that it has the key, and only then is the file with the key removed: at every moment at least one of both has it.
//! Whoever finds the note and no keyring is told so. They do not begin anew, because what is kept would be lost.
//!
//! A landbridge of before this was so knows nothing of the note, and makes a key. Such a file is another key than the one
//! in the keyring: neither replaces the other, and both are kept together from then on.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lb_exchange::Secret;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, timeout};

use super::{Why, not_in};
use crate::keyring::{Keyring, Unusable};
use crate::state::key;

/// How long a keyring may take where it is not needed.
const WISH_MAX: Duration = Duration::from_secs(3);
/// And where it is.
const NEED_MAX: Duration = Duration::from_secs(10);
/// How long another process may be at it.
const TURN_MAX: Duration = Duration::from_secs(30);
const TURN_EVERY: Duration = Duration::from_millis(20);

/// Where the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptIn {
    /// In the keyring of the system.
    Keyring,
    /// In the folder, beside what it seals.
    Folder,
    /// With the settings of gateways that share a store.
    Settings,
}

impl KeptIn {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keyring => "keyring",
            Self::Folder => "folder",
            Self::Settings => "settings",
        }
    }
}

/// The keys; the first seals.
#[derive(Debug)]
pub struct Sealed {
    pub keys: Vec<Secret>,
    pub kept_in: KeptIn,
}

/// The keys of the logins in a folder, which are made if there are none. `bus` is where a keyring is asked for.
///
/// # Errors
/// There are logins, and their key cannot be had; or none can be made.
pub async fn keys(folder: &Path, uses_keyring: bool, bus: Option<&str>) -> Result<Sealed, Why> {
    let place = Place { file: folder.join("key"), note: folder.join("key.json"), folder: folder.to_owned() };
    let _turn = place.turn().await?;
    let note = Note::read(&place.note).map_err(|why| Why::NoKey(format!("{}: {why}", place.note.display())))?;
    match (place.file.exists(), note, uses_keyring) {
        (false, Some(note), true) => place.fetch(&note, bus).await,
        (false, Some(note), false) => place.take_back(&note, bus).await,
        (true, note, _) => place.both(note, uses_keyring, bus).await,
        (false, None, true) => place.put(key::random(), None, bus).await,
        (false, None, false) => place.in_folder(),
    }
}

struct Place {
    folder: PathBuf,
    file: PathBuf,
    note: PathBuf,
}

impl Place {
    /// One process at a time: what is being moved must not be made anew by another.
    async fn turn(&self) -> Result<File, Why> {
        let failed = |error: io::Error| self.failed(&self.folder, error);
        let folder = File::open(&self.folder).map_err(failed)?;
        let until = Instant::now() + TURN_MAX;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(folder),
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(TURN_EVERY).await,
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// There is a file, which counts, and perhaps a note: of the same key, which was not moved to its end, or of another.
    async fn both(&self, note: Option<Note>, uses_keyring: bool, bus: Option<&str>) -> Result<Sealed, Why> {
        let mut text = key::text_of(&self.file).map_err(|error| self.failed(&self.file, error))?;
        if let Some(note) = note.as_ref().filter(|note| note.mark != mark(&text)) {
            match within(WISH_MAX, look(note, bus)).await {
                Ok(Some(other)) => text = self.join(&other, &text)?,
                // Nothing there can be lost any more.
                Ok(None) => {}
                Err(why) => {
                    tracing::debug!(%why, "the keyring has another key of logins, which cannot be had now");
                    return self.in_folder();
                }
            }
        }
        if uses_keyring {
            return self.put(text, note, bus).await;
        }
        if note.is_some() {
            fs::remove_file(&self.note).map_err(|error| self.failed(&self.note, error))?;
        }
        self.in_folder()
    }

    /// Keeps both keys in the file: what either has sealed is opened, and the one of before seals. A store takes no third
    /// one, which only they would need who have done this before: what that one sealed was sealed anew when it was renewed.
    fn join(&self, before: &str, text: &str) -> Result<String, Why> {
        let first = before.lines().take(1);
        let mut lines: Vec<&str> = Vec::new();
        for line in first.chain(text.lines()).chain(before.lines().skip(1)).map(str::trim) {
            if !line.is_empty() && !lines.contains(&line) && lines.len() < 2 {
                lines.push(line);
            }
        }
        let joined = lines.join("\n");
        let new = self.folder.join("key.both");
        let written =
            forget_file(&new).and_then(|()| key::write(&new, &joined)).and_then(|()| fs::rename(&new, &self.file));
        written.and_then(|()| self.sync()).map_err(|error| self.failed(&self.file, error))?;
        Ok(joined)
    }

    /// What was done in the folder outlives a power cut.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder).and_then(|folder| folder.sync_all())
    }

    fn in_folder(&self) -> Result<Sealed, Why> {
        if !self.file.exists() {
            key::write(&self.file, &key::random()).map_err(|error| self.failed(&self.file, error))?;
        }
        let text = key::text_of(&self.file).map_err(|error| self.failed(&self.file, error))?;
        let keys = key::parse(&text).map_err(|why| Why::NoKey(format!("{} {why}", self.file.display())))?;
        Ok(Sealed { keys, kept_in: KeptIn::Folder })
    }

    /// Puts a key into the keyring if one is open, and else into the folder.
    async fn put(&self, text: String, note: Option<Note>, bus: Option<&str>) -> Result<Sealed, Why> {
        let keys = key::parse(&text).map_err(|why| Why::NoKey(format!("{} {why}", self.file.display())))?;
        let note = Note { name: note.map_or_else(name, |note| note.name), mark: mark(&text) };
        match within(WISH_MAX, put_and_look(&note, &text, bus)).await {
            Ok(()) => {
                if self.note.exists() {
                    fs::remove_file(&self.note).map_err(|error| self.failed(&self.note, error))?;
                }
                key::write(&self.note, &note.text()).map_err(|error| self.failed(&self.note, error))?;
                // The note must not be lost in a power cut that the removal outlives.
                self.sync().map_err(|error| self.failed(&self.folder, error))?;
                forget_file(&self.file).map_err(|error| self.failed(&self.file, error))?;
                Ok(Sealed { keys, kept_in: KeptIn::Keyring })
            }
            Err(why) => {
                tracing::debug!(%why, "the key of logins is kept beside them: the keyring cannot be used");
                if !self.file.exists() {
                    key::write(&self.file, &text).map_err(|error| self.failed(&self.file, error))?;
                }
                self.in_folder()
            }
        }
    }

    /// Asks the keyring for what it has.
    async fn fetch(&self, note: &Note, bus: Option<&str>) -> Result<Sealed, Why> {
        let text = within(NEED_MAX, find(note, bus)).await.map_err(|why| self.missing(&why))?;
        let keys = key::parse(&text).map_err(|why| self.missing(&format!("what it has {why}")))?;
        Ok(Sealed { keys, kept_in: KeptIn::Keyring })
    }

    /// The same, and keeps it in the folder from now on.
    async fn take_back(&self, note: &Note, bus: Option<&str>) -> Result<Sealed, Why> {
        let text = within(NEED_MAX, find(note, bus)).await.map_err(|why| self.missing(&why))?;
        key::write(&self.file, &text).map_err(|error| self.failed(&self.file, error))?;
        fs::remove_file(&self.note).map_err(|error| self.failed(&self.note, error))?;
        // The file must not be lost in a power cut that the keyring's forgetting outlives.
        self.sync().map_err(|error| self.failed(&self.folder, error))?;
        if let Err(why) = within(WISH_MAX, forget(note, bus)).await {
            tracing::warn!(%why, "the keyring still has the key of logins, which is kept beside them by now");
        }
        self.in_folder()
    }

    fn failed(&self, path: &Path, error: io::Error) -> Why {
        not_in(&self.folder, Some(path), &error)
    }

    fn missing(&self, why: &dyn std::fmt::Display) -> Why {
        Why::NoKey(format!(
            "the logins cannot be read: their key is in the keyring of the system, and {why}. Open that keyring in this \
             session and try again; or remove {} to log in anew",
            self.folder.display()
        ))
    }
}

fn forget_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where in the keyring a key is, and how it is known.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    name: String,
    /// A hash of it. What is hashed is random, so that nothing follows from it.
    mark: String,
}

impl Note {
    fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = match key::text_of(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let note = word("keyring").zip(word("sha256")).map(|(name, mark)| Self { name, mark });
        note.map(Some).ok_or_else(|| "it does not say where the key of the logins is".to_owned())
    }

    fn text(&self) -> String {
        json!({ "keyring": self.name, "sha256": self.mark }).to_string()
    }
}

/// A name that no other folder has.
fn name() -> String {
    format!("logins-{:032x}", rand::random::<u128>())
}

fn mark(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Unusable>>) -> Result<T, Unusable> {
    timeout(time, work).await.unwrap_or(Err(Unusable::Silent(time)))
}

async fn put_and_look(note: &Note, text: &str, bus: Option<&str>) -> Result<(), Unusable> {
    let mut keyring = Keyring::open(bus).await?;
    keyring.put(&note.name, text).await?;
    match keyring.find(&note.name).await? {
        Some(found) if found == text => Ok(()),
        _ => Err(Unusable::Failed("it does not give back what it was given".to_owned())),
    }
}

/// What it has under that name, whatever it is.
async fn look(note: &Note, bus: Option<&str>) -> Result<Option<String>, Unusable> {
    Keyring::open(bus).await?.find(&note.name).await
}

async fn find(note: &Note, bus: Option<&str>) -> Result<String, Unusable> {
    match look(note, bus).await? {
        Some(text) if mark(&text) == note.mark => Ok(text),
        Some(_) => Err(Unusable::Failed("it has another one under that name".to_owned())),
        None => Err(Unusable::Failed("it does not have it any more".to_owned())),
    }
}

async fn forget(note: &Note, bus: Option<&str>) -> Result<(), Unusable> {
    Keyring::open(bus).await?.remove(&note.name).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Option<&str> = Some("unix:path=/nowhere/bus");

    #[tokio::test]
    async fn without_a_keyring_the_key_is_in_the_folder() {
        for bus in [None, NOWHERE] {
            let folder = tempfile::tempdir().expect("a folder");
            let first = keys(folder.path(), true, bus).await.expect("a key");
            let again = keys(folder.path(), false, bus).await.expect("a key");
            assert_eq!((first.keys, first.kept_in), (again.keys, KeptIn::Folder));
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "the key alone");
        }
    }

    #[tokio::test]
    async fn a_keyring_that_is_gone_is_no_reason_to_begin_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let note = Note { name: name(), mark: mark("x") };
        fs::write(folder.path().join("key.json"), note.text()).expect("written");
        for uses_keyring in [true, false] {
            let Err(Why::NoKey(why)) = keys(folder.path(), uses_keyring, NOWHERE).await else { panic!("a key") };
            assert!(
                why.contains("keyring of the system") && why.contains(&folder.path().display().to_string()),
                "{why}"
            );
        }
        assert!(!folder.path().join("key").exists(), "no other one was made");
        fs::write(folder.path().join("key.json"), "{}").expect("written");
        assert!(matches!(keys(folder.path(), true, None).await, Err(Why::NoKey(_))));
    }

    #[tokio::test]
    async fn a_bus_that_says_nothing_or_nonsense_is_not_waited_for() {
        use tokio::io::AsyncWriteExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bus");
        let listener = tokio::net::UnixListener::bind(&path).expect("a socket");
        let address = format!("unix:path={}", path.display());
        let short = Duration::from_millis(50);
        let silent = within(short, Keyring::open(Some(&address))).await.err();
        assert_eq!(silent, Some(Unusable::Silent(short)));
        drop(listener.accept().await.expect("the one before"));
        for nonsense in ["REJECTED EXTERNAL\r\n".to_owned(), "x".repeat(5_000), format!("OK 1\r\n{}", "l".repeat(999))]
        {
            let answer = async {
                let (mut stream, _) = listener.accept().await.expect("somebody");
                // It may hang up before it has read all.
                drop(stream.write_all(nonsense.as_bytes()).await);
                stream
            };
            let (opened, _stream) = tokio::join!(within(NEED_MAX, Keyring::open(Some(&address))), answer);
            assert!(matches!(opened, Err(Unusable::Failed(_))), "{nonsense:?}");
        }
    }

    #[tokio::test]
    async fn a_file_counts_while_there_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = key::random();
        fs::write(folder.path().join("key"), &text).expect("written");
        fs::write(folder.path().join("key.json"), Note { name: name(), mark: mark(&text) }.text()).expect("written");
        let kept = keys(folder.path(), true, NOWHERE).await.expect("a key");
        assert_eq!((kept.keys[0].expose(), kept.kept_in), (text.as_str(), KeptIn::Folder));
        assert!(folder.path().join("key.json").exists(), "it may be on its way into the keyring");
        keys(folder.path(), false, NOWHERE).await.expect("a key");
        assert!(!folder.path().join("key.json").exists());
    }

    #[tokio::test]
    async fn of_many_who_come_at_once_one_makes_the_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = (0..20).map(|_| keys(folder.path(), true, None));
        let all: Vec<_> = futures_util::future::join_all(all).await;
        let first = all[0].as_ref().expect("a key").keys.clone();
        assert!(all.iter().all(|found| found.as_ref().is_ok_and(|found| found.keys == first)));
    }

    /// Somebody has made another one, and the keyring cannot be asked: it must be findable later.
    #[tokio::test]
    async fn a_note_of_another_key_is_not_thrown_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, note) = (key::random(), Note { name: name(), mark: mark(&key::random()) }.text());
        fs::write(folder.path().join("key"), &text).expect("written");
        fs::write(folder.path().join("key.json"), &note).expect("written");
        for uses_keyring in [true, false] {
            let kept = keys(folder.path(), uses_keyring, NOWHERE).await.expect("a key");
            assert_eq!((kept.keys[0].expose(), kept.kept_in), (text.as_str(), KeptIn::Folder));
            assert_eq!(fs::read_to_string(folder.path().join("key.json")).ok().as_ref(), Some(&note));
        }
    }

    #[test]
    fn a_failure_that_passes_is_not_one_that_stays() {
        let of = |kind: io::ErrorKind| not_in(Path::new("/f"), None, &kind.into());
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::NotADirectory] {
            assert!(matches!(of(kind), Why::NoFolder(_)), "{kind}");
        }
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::StorageFull, io::ErrorKind::Other] {
            assert!(matches!(of(kind), Why::NotNow(_)), "{kind}");
        }
    }
}
