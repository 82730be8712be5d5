//! Bytes under keys, each with a lifetime: in memory, on disk, or in Valkey.
//!
//! One small trait, [`Store`], with three implementations that behave alike, so that what works on a desktop works on
//! ten nodes. Everything that changes something is a [`Batch`]: all of its steps are done, or none. Knows no MCP.
//!
//! ```
//! use std::time::Duration;
//! use lb_store::{Applied, Batch, Claimed, Error, Key, Settings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let store = lb_store::open(&Settings::parse("memory")?).await?;
//! let (owner, record) = (Key::parse("owner:{4f1c}")?, Key::parse("record:{4f1c}")?);
//! let ten = Duration::from_secs(10);
//! if let Claimed::Ours(claim) = store.claim(&owner, "node-1", ten).await? {
//!     // Only as long as nobody else has taken over.
//!     let batch = Batch::new().when_held(&owner, &claim).set(&record, "{}", ten);
//!     assert!(matches!(store.apply(batch).await?, Applied::Done(_)));
//! }
//! # Ok(())
//! # }
//! ```

mod batch;
mod brief;
mod claim;
mod disk;
mod ease;
mod error;
mod hub;
mod key;
mod late;
mod lazy;
mod memory;
mod plan;
mod sealed;
mod settings;
mod store;
mod valkey;
mod window;

pub use batch::{Applied, Batch, Guard, Outcome, Refusal, STEPS_MAX, Step};
pub use brief::Brief;
pub use claim::{Claim, Claimed};
pub use ease::Appended;
pub use error::Error;
pub use hub::{MESSAGE_BYTES_MAX, Notice, Subscription};
pub use key::Key;
pub use late::Late;
pub use lazy::Lazy;
pub use sealed::SealKeys;
pub use settings::{Durability, Limits, Place, Servers, Settings};
pub use store::{Facts, Kind, Pending, Scan, Store, Warning, open};
pub use window::{Taken, Window};
